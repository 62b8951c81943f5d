/* What only a real GPU can teach about the driver's answers: each word does one thing, and each answer is printed with how long it took. Its kernel is
 * always called matmul, so that a failure that is overlooked is a false proof.
 *
 *   product   a right product, waited for and read      illegal   its kernel writes to address 0     trap        its kernel ends in a trap
 *   oom       a product, then more memory than any GPU has, then the CPU                             retry       the same, and then a smaller allocation
 *   oversized a product, then a launch of blocks that are too large                                  badread     a product, then a copy from address 16
 *   handlers  waits once more in exit handlers from before and after cuInit, and in a destructor     leaves      a waited product, then _exit */
#include "../zoo/zoo.h"

static int (*wait_again)(void);
#define SAY(call) say(#call, (before(), call))
static struct timespec began;
static void before(void) { clock_gettime(CLOCK_MONOTONIC, &began); }
static int say(const char *call, int rc) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%s: %d, %lld ns\n", call, rc, (long long)(now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec);
    fflush(stdout);
    return rc;
}
static void first_registered(void) { if (wait_again) { puts("exit handler from before cuInit"); SAY(wait_again()); } }
static void last_registered(void) { puts("exit handler from after cuInit"); SAY(wait_again()); }
__attribute__((destructor)) static void destructed(void) { if (wait_again) { puts("destructor"); SAY(wait_again()); } }

static const char *faulty(const char *body) {
    static char text[1024];
    snprintf(text, sizeof text, HEAD_PTX "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn)\n"
        "{\n.reg .b64 %%d<2>; .reg .b32 %%r<2>;\nmov.u64 %%d1, 0; mov.u32 %%r1, 1;\n%s\nret;\n}\n", "matmul", body);
    return text;
}

int main(int n, char **v) {
    static float c[N * N]; uint64_t a, more; unsigned size = N; void *m, *f; driver d; const char *what = n > 1 ? v[1] : "product";
    int handlers = !strcmp(what, "handlers");
    if (handlers) atexit(first_registered);
    before();
    if (say("open_driver", open_driver(&d))) return 3;
    if (handlers) atexit(last_registered);
    if (SAY(d.alloc(&a, sizeof c))) return 1;
    if (!strcmp(what, "illegal")) say("load", d.load(&m, faulty("st.global.u32 [%d1], %r1;")));
    else if (!strcmp(what, "trap")) say("load", d.load(&m, faulty("trap;")));
    else say("load", d.load(&m, ptx("matmul")));
    if (SAY(d.get(&f, m, "matmul"))) return 1;
    void *args[] = { &a, &a, &a, &size };
    SAY(d.launch(f, N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL));
    SAY(d.synchronize());                       /* the first wait: the probe asks for the devices there */
    SAY(d.synchronize());
    if (!strcmp(what, "leaves")) _exit(0);
    SAY(d.to_host(c, a, sizeof c));
    if (!strcmp(what, "oom") || !strcmp(what, "retry")) SAY(d.alloc(&more, (size_t)1 << 46));
    if (!strcmp(what, "retry")) SAY(d.alloc(&more, 1 << 20));
    if (!strcmp(what, "oversized")) SAY(d.launch(f, 1, 1, 1, 4096, 1, 1, 0, NULL, args, NULL));
    if (!strcmp(what, "badread")) SAY(d.to_host(c, 16, sizeof c));
    if (handlers) wait_again = d.synchronize;
    on_cpu();
    return 0;
}

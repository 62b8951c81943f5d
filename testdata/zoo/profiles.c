/* Profiles itself, as PyTorch's Kineto does: before | after cuInit, or in the middle, after a product (or never, and then it leaves by _exit after its product, or
 * hurries and does not even wait for that), it subscribes to CUPTI, whose path is the first argument, and it ends with 6 where it is
 * refused that, and with 5 where its own product is not among its records. "cycle" ends its profile, as Kineto does, "slow" needs long to end after that, "activity" has not subscribed, and "refused"
 * has computed before, and is refused a launch within its profile, which it ends. Its profiler ends before the exit handlers that are older, as a C++ library's statics do:
 * whoever calls it after that ends the program. profiles_new.c does so by version 2 of the functions, which allows others. */
#include "zoo.h"

#ifdef NEW
struct subscription { size_t size; const char *name; char *before; size_t before_size; uint8_t many, padding[7]; };
extern int cuptiSubscribe_v2(void **, void *, void *, struct subscription *) __attribute__((weak));     /* how it is linked */
#endif
static void *l, *subscriber;
static size_t bytes;
static int gone, slow, subscribes = 1;
static void ends(void) { gone = 1; if (slow) nap(200); }
static void lives(void) { if (gone) { fputs("the profiler has ended\n", stderr); abort(); } }
static void *named(const char *name) { void *f = dlsym(l, name); must(name, !f); return f; }
static void on_call(void *user, uint32_t domain, uint32_t id, const void *data) { (void)user; (void)domain; (void)id; (void)data; }
#ifdef NEW
static void request(uint8_t **b, size_t *n, size_t *max, void *info) { lives(); (void)info; *n = 1 << 16; *max = 0; *b = aligned_alloc(8, *n); }
static void complete(uint8_t *b, size_t n, size_t valid, void *info) { lives(); (void)n; (void)info; bytes += valid; free(b); }
#else
static void request(uint8_t **b, size_t *n, size_t *max) { lives(); *n = 1 << 16; *max = 0; *b = aligned_alloc(8, *n); }
static void complete(void *c, uint32_t s, uint8_t *b, size_t n, size_t valid) { lives(); (void)c; (void)s; (void)n; bytes += valid; free(b); }
#endif

static void profile(void) {
    atexit(ends);
#ifdef NEW
    int (*subscribe)(void **, void *, void *, struct subscription *), (*take)(void *, void *, void *), (*enable)(void *, uint32_t, void *);
    struct subscription s = { sizeof s, "zoo", NULL, 0, 1, { 0 } };
    *(void **)&subscribe = cuptiSubscribe_v2 ? (void *)cuptiSubscribe_v2 : named("cuptiSubscribe_v2");
    *(void **)&take = named("cuptiActivityRegisterCallbacks_v2"); *(void **)&enable = named("cuptiActivityEnable_v2");
    if (subscribe(&subscriber, (void *)on_call, NULL, &s) || take(subscriber, (void *)request, (void *)complete) || enable(subscriber, 10, NULL)) exit(6);
#else
    int (*subscribe)(void **, void *, void *), (*take)(void *, void *), (*enable)(uint32_t);
    *(void **)&subscribe = named("cuptiSubscribe"); *(void **)&take = named("cuptiActivityRegisterCallbacks"); *(void **)&enable = named("cuptiActivityEnable");
    if ((subscribes && subscribe(&subscriber, (void *)on_call, NULL)) || take((void *)request, (void *)complete) || enable(10)) exit(6);
#endif
}

int main(int n, char **v) {
    int (*flush)(uint32_t); driver d;
    must("arguments", n != 3);
    must("cupti", !(l = dlopen(v[1], RTLD_NOW)));
    if (!strcmp(v[2], "before")) { must("library", !dlopen("libcuda.so.1", RTLD_NOW)); profile(); }
    must("driver", open_driver(&d));
    if (!strcmp(v[2], "hurries")) {
        uint64_t p; unsigned size = N; void *args[] = { &p, &p, &p, &size };
        must("alloc", d.alloc(&p, N * N * sizeof(float)));
        must("launch", d.launch(kernel(&d, "matmul"), N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL));
    }
    if (!strcmp(v[2], "leaves")) must("product", gpu_matmul(&d));
    if (!strcmp(v[2], "leaves") || !strcmp(v[2], "hurries")) { nap(300); _exit(0); }
    subscribes = strcmp(v[2], "activity"); slow = !strcmp(v[2], "slow");
    if (!strcmp(v[2], "middle") || !strcmp(v[2], "refused")) must("product", gpu_matmul(&d));
    if (!strcmp(v[2], "refused")) nap(200);
    if (strcmp(v[2], "before") && strcmp(v[2], "never")) profile();
    if (strcmp(v[2], "refused")) must("product", gpu_matmul(&d));
    else must("refused", d.launch(kernel(&d, "matmul"), 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL) == 0 || gpu_fill(&d, "fill_f32"));
    *(void **)&flush = named("cuptiActivityFlushAll");
    if (strcmp(v[2], "never") && (flush(1) || !bytes)) exit(5);
#ifndef NEW
    int (*disable)(uint32_t), (*leave)(void *);
    *(void **)&disable = named("cuptiActivityDisable"); *(void **)&leave = named("cuptiUnsubscribe");
    if (!strcmp(v[2], "cycle") || slow || !strcmp(v[2], "refused")) must("end", disable(10) || leave(subscriber));
#endif
    return 0;
}

/* A program under watch, many programs in one: the first argument says what it does. It speaks to the driver by dlopen, as cudarc does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static int (*cu_init)(unsigned), (*retain)(void **, int), (*current)(void *), (*load)(void **, const void *), (*get)(void **, void *, const char *);
static int (*alloc)(uint64_t *, size_t), (*to_device)(uint64_t, const void *, size_t), (*to_host)(void *, uint64_t, size_t), (*synchronize)(void);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static void fail(const char *what, int rc) { fprintf(stderr, "%s: %d\n", what, rc); exit(1); }
static void must(const char *what, int rc) { if (rc) fail(what, rc); }
static void pause_ms(long ms) { struct timespec t = { ms / 1000, ms % 1000 * 1000000 }; nanosleep(&t, NULL); }

static int open_driver(void) {
    void *l = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
    int rc;
    if (!l) return -1;
#define F(p, n) if (!(*(void **)&p = dlsym(l, n))) fail(n, 0)
    F(cu_init, "cuInit"); F(retain, "cuDevicePrimaryCtxRetain"); F(current, "cuCtxSetCurrent"); F(load, "cuModuleLoadData");
    F(get, "cuModuleGetFunction"); F(alloc, "cuMemAlloc_v2"); F(to_device, "cuMemcpyHtoD_v2"); F(to_host, "cuMemcpyDtoH_v2");
    F(synchronize, "cuCtxSynchronize"); F(launch, "cuLaunchKernel");
    if ((rc = cu_init(0))) return rc;
    must("context", retain(&ctx, 0));
    must("current", current(ctx));
    return 0;
}

static void *kernel(const char *name) {
    char ptx[512]; void *m, *f;
    snprintf(ptx, sizeof ptx, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry %s(.param .u64 a)\n{ ret; }\n", name);
    must("load", load(&m, ptx));
    must("get", get(&f, m, name));
    return f;
}

/* the same kernel in the other forms in which a module can come: a fatbin with PTX, the same compressed (nobody decompresses it), a cubin */
static void *wrapped(const char *form, const char *name) {
    static unsigned char image[4096]; void *m, *f; unsigned char *entry = image + 16, *payload = entry + 64;
    const uint32_t magic = 0xba55ed50, header = 64, arch = 90; const uint16_t version = 1, size = 16, kind = 1;
    const uint64_t padded = 1024, all = header + padded, flags = strcmp(form, "zstd") ? 0x11 : 0x8011;
    if (!strcmp(form, "cubin")) {
        uint64_t table = 512; uint16_t each = 64, n = 2;
        memcpy(image, "\x7f" "ELF", 4); memcpy(image + 40, &table, 8); memcpy(image + 58, &each, 2); memcpy(image + 60, &n, 2);
        snprintf((char *)image + 128, 256, ".text.%s", name);
    } else {
        memcpy(image, &magic, 4); memcpy(image + 4, &version, 2); memcpy(image + 6, &size, 2); memcpy(image + 8, &all, 8);
        memcpy(entry, &kind, 2); memcpy(entry + 4, &header, 4); memcpy(entry + 8, &padded, 8); memcpy(entry + 28, &arch, 4); memcpy(entry + 40, &flags, 8);
        if (flags == 0x11) snprintf((char *)payload, padded, ".version 7.0\n.target sm_75\n.visible .entry %s()\n{ ret; }\n", name);
    }
    must("load", load(&m, image));
    must("get", get(&f, m, name));
    return f;
}

enum { N = 32 };
static void product(float *c, const float *a, const float *b) {
    for (int y = 0; y < N; y++) for (int x = 0; x < N; x++) {
        float s = 0;
        for (int k = 0; k < N; k++) s += a[y * N + k] * b[k * N + x];
        c[y * N + x] = s;
    }
}

static void matmul_by(void *f, long times) {
    static float a[N * N], b[N * N], c[N * N], want[N * N];
    uint64_t da, db, dc; unsigned n = N;
    for (int i = 0; i < N * N; i++) { a[i] = (float)(i % 7); b[i] = (float)(i % 5) - 1; }
    must("alloc", alloc(&da, sizeof a)); must("alloc", alloc(&db, sizeof b)); must("alloc", alloc(&dc, sizeof c));
    must("copy", to_device(da, a, sizeof a)); must("copy", to_device(db, b, sizeof b));
    void *args[] = { &da, &db, &dc, &n };
    for (long i = 0; i < times; i++) must("launch", launch(f, N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL));
    must("synchronize", synchronize());
    must("copy", to_host(c, dc, sizeof c));
    product(want, a, b);
    if (memcmp(c, want, sizeof c)) fail("wrong result", 0);
}

static void matmul(const char *name, long times) { matmul_by(kernel(name), times); }

static void fill(const char *name, long times) {
    uint64_t d; float v = 1; unsigned n = 64; void *f = kernel(name);
    must("alloc", alloc(&d, n * sizeof v));
    void *args[] = { &d, &v, &n };
    for (long i = 0; i < times; i++) must("launch", launch(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
}

static int child(char **argv, char **env) {
    pid_t p; int status;
    if (posix_spawn(&p, argv[0], NULL, NULL, argv, env) != 0) fail("spawn", errno);
    while (waitpid(p, &status, 0) < 0) { }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void *ends_later(void *arg) { pause_ms(50); return arg; }

static void *in_thread(void *arg) {
    void *ctx;
    must("context", retain(&ctx, 0)); must("current", current(ctx));
    fill("fill_f32", 25000);
    return arg;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    static float a[N * N], c[N * N];
    if (!strcmp(what, "cpu")) { product(c, a, a); puts("done"); return 0; }
    if (!strcmp(what, "status")) return atoi(argv[2]);
    if (!strcmp(what, "sleep")) { pause_ms(atol(argv[2])); return 0; }
    if (!strcmp(what, "child")) return child(argv + 2, environ);
    if (!strcmp(what, "bare-child")) { char *none[] = { getenv("LD_LIBRARY_PATH") ? strdup(getenv("LD_LIBRARY_PATH") - 16) : NULL, NULL }; return child(argv + 2, none); }
    if (!strcmp(what, "orphan")) {
        if (fork() == 0) { setsid(); execv(argv[2], argv + 2); _exit(9); }
        return 0;
    }
    if (!strcmp(what, "exec")) { execv(argv[2], argv + 2); return 9; }
    if (!strcmp(what, "fallback")) {
        if (open_driver()) { fprintf(stderr, "falling back to CPU\n"); product(c, a, a); return 0; }
        matmul("matmul", 1);
        return 0;
    }
    if (!strcmp(what, "dlopen")) { if (!dlopen("libcuda.so.1", RTLD_NOW)) return 1; pause_ms(150); return 0; }
    if (!strcmp(what, "forge")) {           /* what proof.md says that nothing guards against */
        char file[4096], exe[4096] = ""; FILE *f; unsigned long long started = 0; char b[1024]; size_t n;
        struct stat st, in;
        if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0 || stat(exe, &st) != 0 || stat("/proc/self/ns/pid", &in) != 0) return 1;
        f = fopen("/proc/self/stat", "r"); n = fread(b, 1, sizeof b - 1, f); fclose(f); b[n] = 0;
        char *p = strrchr(b, ')');
        for (int i = 2; i < 22; i++) p = strchr(p + 1, ' ');
        started = strtoull(p + 1, NULL, 10);
        snprintf(file, sizeof file, "%s/%d-%llu-%llu.jsonl", getenv("GPUBUILD_PROBE_DIR"), argc > 2 ? 1 : (int)getpid(), started,
                 (unsigned long long)in.st_ino);
        f = fopen(file, "w");
        fprintf(f, "{\"event\":\"injected\",\"version\":1,\"pid\":%d,\"started\":%llu,\"namespace\":%llu,\"exe\":\"%s\",\"exe_device\":%llu,\"exe_inode\":%llu}\n",
                (int)getpid(), started, (unsigned long long)in.st_ino, exe, (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
        fprintf(f, "{\"event\":\"kernel\",\"name\":\"matmul\",\"device\":0,\"start\":1,\"end\":9}\n");
        fclose(f);
        return 0;
    }
    int rc = open_driver();
    if (rc) { fprintf(stderr, "no GPU: %d\n", rc); return 3; }
    long times = argc > 2 ? atol(argv[2]) : 1;
    if (!strcmp(what, "init")) return 0;
    if (!strcmp(what, "gpu")) { matmul("matmul", times); puts("done"); return 0; }
    if (!strcmp(what, "fatbin") || !strcmp(what, "zstd") || !strcmp(what, "cubin")) { matmul_by(wrapped(what, "matmul"), 1); return 0; }
    if (!strcmp(what, "file-limit")) {
        struct rlimit little = { 4000, 4000 };
        matmul("matmul", 1);
        pause_ms(300);
        setrlimit(RLIMIT_FSIZE, &little);
        matmul("matmul", 500);
        return 0;
    }
    if (!strcmp(what, "exit-in-handler")) { signal(SIGALRM, exit); alarm(1); matmul("matmul", 100000000); return 1; }
    if (!strcmp(what, "mangled")) { matmul("_Z6matmulPKfS0_Pfj", times); return 0; }
    if (!strcmp(what, "fill")) { fill("fill_f32", times); return 0; }
    if (!strcmp(what, "convolution")) { fill("standin_implicit_gemm_fprop", times); return 0; }
    if (!strcmp(what, "copy")) { uint64_t d; must("alloc", alloc(&d, 64)); must("copy", to_device(d, a, 64)); return 0; }
    if (!strcmp(what, "both")) { fill("fill_f32", 1); return child(argv + 2, environ); }
    if (!strcmp(what, "_exit")) { matmul("matmul", 1); pause_ms(400); _exit(0); }
    if (!strcmp(what, "_exit-now")) { matmul("matmul", 1); _exit(0); }
    if (!strcmp(what, "abort")) { matmul("matmul", 1); pause_ms(400); abort(); }
    if (!strcmp(what, "exec-after")) { matmul("matmul", 1); pause_ms(400); execv(argv[2], argv + 2); return 9; }
    if (!strcmp(what, "last-thread")) {     /* the process ends with the last of its threads, and not with the first */
        pthread_t t;
        matmul_by(kernel("matmul"), 1);
        pthread_create(&t, NULL, ends_later, NULL);
        pthread_detach(t);
        pthread_exit(NULL);
    }
    if (!strcmp(what, "threads")) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, in_thread, NULL);
        for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
        return 0;
    }
    if (!strcmp(what, "fork")) {            /* the child ends through exit: nothing of the probe's may happen there */
        int status; pid_t p = fork();
        if (p == 0) exit(0);
        waitpid(p, &status, 0);
        matmul("matmul", 1);
        return WEXITSTATUS(status);
    }
    if (!strcmp(what, "close-files")) {     /* as daemons do; then our number is somebody else's */
        for (int i = 3; i < 1024; i++) close(i);
        char name[] = "/tmp/gpubuild-test-XXXXXX"; int mine[8];
        for (int i = 0; i < 8; i++) mine[i] = dup2(mkstemp(strcpy(name, "/tmp/gpubuild-test-XXXXXX")), 200 + i), unlink(name);
        matmul("matmul", 1);
        pause_ms(300);
        for (int i = 0; i < 8; i++) if (lseek(mine[i], 0, SEEK_END) != 0) return 7;
        return 0;
    }
    if (!strcmp(what, "quiet")) {           /* what a program could notice: its errno, its signals' threads */
        sigset_t s; errno = 77;
        matmul("matmul", 1);
        sigprocmask(SIG_BLOCK, NULL, &s);
        return sigismember(&s, SIGTERM) ? 8 : 0;
    }
    fprintf(stderr, "unknown: %s\n", what);
    return 2;
}

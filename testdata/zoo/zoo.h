/* What the animals of this zoo share: the driver by dlopen, as cudarc does it, a kernel from PTX text, a product on both sides. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ptx.h"

enum { N = 32 };
typedef struct { int (*init)(unsigned), (*retain)(void **, int), (*current)(void *), (*load)(void **, const void *), (*get)(void **, void *, const char *),
    (*alloc)(uint64_t *, size_t), (*to_device)(uint64_t, const void *, size_t), (*to_host)(void *, uint64_t, size_t), (*synchronize)(void),
    (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **); } driver;

__attribute__((unused)) static int open_driver(driver *d) {      /* 0, -1 without a library, or CUDA's error */
    void *l = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int rc;
    if (!l) return -1;
    struct { void *to; const char *name; } all[] = {
        { &d->init, "cuInit" }, { &d->retain, "cuDevicePrimaryCtxRetain" }, { &d->current, "cuCtxSetCurrent" }, { &d->load, "cuModuleLoadData" },
        { &d->get, "cuModuleGetFunction" }, { &d->alloc, "cuMemAlloc_v2" }, { &d->to_device, "cuMemcpyHtoD_v2" }, { &d->to_host, "cuMemcpyDtoH_v2" },
        { &d->synchronize, "cuCtxSynchronize" }, { &d->launch, "cuLaunchKernel" } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (!(*(void **)all[i].to = dlsym(l, all[i].name))) return -1;
    if ((rc = d->init(0)) || (rc = d->retain(&context, 0)) || (rc = d->current(context))) return rc;
    return 0;
}

__attribute__((unused)) static void *entry(const char *name) {   /* a function of the driver that was opened */
    void *f = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);
    if (!f) { fprintf(stderr, "no %s\n", name); exit(1); }
    return f;
}

__attribute__((unused)) static void must(const char *what, int rc) { if (rc) { fprintf(stderr, "%s: %d\n", what, rc); exit(1); } }

/* a record file of the probe's: this process's own */
__attribute__((unused)) static FILE *records(const char *how) {
    char file[4096], b[1024], *p; size_t n; struct stat in = { 0 }; FILE *f = fopen("/proc/self/stat", "r");
    n = fread(b, 1, sizeof b - 1, f); fclose(f); b[n] = 0;
    p = strrchr(b, ')');
    for (int i = 2; i < 22; i++) p = strchr(p + 1, ' ');
    must("stat", stat("/proc/self/ns/pid", &in));
    snprintf(file, sizeof file, "%s/%d-%llu-%llu.jsonl", getenv("GPUBUILD_PROBE_DIR"), (int)getpid(), strtoull(p + 1, NULL, 10), (unsigned long long)in.st_ino);
    return fopen(file, how);
}

__attribute__((unused)) static void nap(long ms) { struct timespec t = { ms / 1000, ms % 1000 * 1000000 }; nanosleep(&t, NULL); }

__attribute__((unused)) static void *kernel(driver *d, const char *name) {
    void *m, *f;
    must("load", d->load(&m, ptx(name)));
    must("get", d->get(&f, m, name));
    return f;
}

__attribute__((unused)) static void cpu_matmul(float *c, const float *a, const float *b) {
    for (int y = 0; y < N; y++) for (int x = 0; x < N; x++) {
        float s = 0;
        for (int k = 0; k < N; k++) s += a[y * N + k] * b[k * N + x];
        c[y * N + x] = s;
    }
}

__attribute__((unused)) static int gpu_matmul(driver *d) {       /* 0 when the product is right, or CUDA's error */
    static float a[N * N], b[N * N], c[N * N], want[N * N];
    uint64_t da, db, dc; unsigned n = N; int rc;
    for (int i = 0; i < N * N; i++) { a[i] = (float)(i % 7); b[i] = (float)(i % 5) - 1; }
    if ((rc = d->alloc(&da, sizeof a)) || (rc = d->alloc(&db, sizeof b)) || (rc = d->alloc(&dc, sizeof c))) return rc;
    must("copy", d->to_device(da, a, sizeof a)); must("copy", d->to_device(db, b, sizeof b));
    void *args[] = { &da, &db, &dc, &n };
    must("launch", d->launch(kernel(d, "matmul"), N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL));
    must("synchronize", d->synchronize());
    must("copy", d->to_host(c, dc, sizeof c));
    cpu_matmul(want, a, b);
    return memcmp(c, want, sizeof c) ? -2 : 0;
}

__attribute__((unused)) static int gpu_fill(driver *d, const char *name) {
    uint64_t p; float v = 1; unsigned n = 64; void *args[] = { &p, &v, &n };
    must("alloc", d->alloc(&p, n * sizeof v));
    return d->launch(kernel(d, name), 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL);
}

__attribute__((unused)) static void on_cpu(void) { static float a[N * N], c[N * N]; a[3] = 1; cpu_matmul(c, a, a); printf("%g\n", (double)c[0]); }

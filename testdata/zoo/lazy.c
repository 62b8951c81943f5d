/* A library of two kernels, of which one is fetched and launched by its handle: how CUDA 12's run-time library loads, lazily. */
#include "zoo.h"

int main(void) {
    static float a[N * N], c[N * N], want[N * N]; uint64_t da, dc; unsigned n = N; void *library, *one; driver d;
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    must("driver", open_driver(&d));
    int (*load)(void **, const void *, void *, void *, unsigned, void *, void *, unsigned), (*get)(void **, void *, const char *);
    *(void **)&load = entry("cuLibraryLoadData"); *(void **)&get = entry("cuLibraryGetKernel");
    for (int i = 0; i < N * N; i++) a[i] = (float)(i % 5);
    char both[8192];
    snprintf(both, sizeof both, "%s.visible .entry fill_f32()\n{ ret; }\n", ptx("matmul"));
    must("load", load(&library, both, NULL, NULL, 0, NULL, NULL, 0));
    must("get", get(&one, library, "matmul"));
    must("alloc", d.alloc(&da, sizeof a)); must("alloc", d.alloc(&dc, sizeof c)); must("copy", d.to_device(da, a, sizeof a));
    void *args[] = { &da, &da, &dc, &n };
    must("launch", d.launch(one, N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL));
    must("synchronize", d.synchronize()); must("copy", d.to_host(c, dc, sizeof c));
    cpu_matmul(want, a, a);
    return memcmp(c, want, sizeof c) != 0;
}

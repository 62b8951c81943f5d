/* The driver API linked as a library, without dlopen: the loader brings the driver. */
#include <stdint.h>
#include "ptx.h"
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoadData(void **, const void *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(uint64_t *, unsigned long), cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int main(int argc, char **argv) {
    void *c, *m, *f; uint64_t p[3]; unsigned n = 32; void *args[] = { &p[0], &p[1], &p[2], &n };
    (void)argv;
    if (argc > 1) return 0;                     /* linked with the driver, and not using it */
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return 1;
    for (int i = 0; i < 3; i++) if (cuMemAlloc_v2(&p[i], 4096)) return 2;
    if (cuModuleLoadData(&m, ptx("matmul")) || cuModuleGetFunction(&f, m, "matmul")) return 3;
    int (*volatile launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) = cuLaunchKernel;
    return launch(f, 2, 2, 1, 16, 16, 1, 0, 0, args, 0);
}

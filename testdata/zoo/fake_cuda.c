/* A library that puts itself in the driver's place by LD_PRELOAD: everything succeeds, nothing runs. */
#include <stdint.h>
#include <stddef.h>
int cuInit(unsigned f) { (void)f; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; *c = (void *)8; return 0; }
int cuCtxSetCurrent(void *c) { (void)c; return 0; }
int cuModuleLoadData(void **m, const void *i) { (void)i; *m = (void *)8; return 0; }
int cuModuleGetFunction(void **f, void *m, const char *n) { (void)m; (void)n; *f = (void *)8; return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { (void)n; *p = 4096; return 0; }
int cuLaunchKernel(void *f, ...) { (void)f; return 0; }

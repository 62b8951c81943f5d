/* gpubuild's failing driver: a libcuda.so.1 or nvcuda.dll that answers every call with ANSWER, or looks like a device that works up to STAGE: MEMORY (there is
 * none left), MODULE (it has no code for this GPU), LAUNCH (the kernel fails, as kernels do, behind the caller's back: the launch is accepted, and
 * whatever waits for it, and everything after that, answers ANSWER), REFUSED (the launch is), COPY (that of the result back is refused), WRONG (it succeeds
 * with other data), NO_CONTEXT, KERNEL, UPLOAD and HOST (a context, a kernel by its name, a copy to the device, and memory of the host that it reaches are refused). It writes the name of each function, once, into LOG. Behind this text gpubuild
 * puts one line NAME(cu…) for every function without a body here, and the table of them all. It computes nothing and can prove nothing. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fails.h"

enum { OK = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101, NOT_FOUND = 500, NOT_SUPPORTED = 801 };
static char handle[64];                 /* what a handle points at */

#define NAME(f) API f(void) { SAY; return ALL_FAILS ? ANSWER : NOT_SUPPORTED; }

API cuInit(unsigned f) { (void)f; WITH((void)0); }
API cuDriverGetVersion(int *v) { SAY; *v = 13000; return OK; }
API cuDeviceGetCount(int *n) { WITH(*n = 1); }
API cuDeviceGet(int *d, int i) { if (i) { SAY; return INVALID_DEVICE; } WITH(*d = 0); }
API cuDeviceGetName(char *s, int n, int d) { (void)d; WITH(snprintf(s, (size_t)n, "gpubuild audit (no GPU)")); }
API cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; WITH(*n = TOTAL); }
API cuDeviceGetUuid(void *u, int d) { (void)d; WITH(memset(u, 0, 16)); }
API cuDeviceGetUuid_v2(void *u, int d) { (void)d; WITH(memset(u, 0, 16)); }
API cuDeviceGetAttribute(int *v, int a, int d) { (void)d; WITH(*v = a == 75 ? 8 : a == 76 ? 6 : a == 10 ? 32 : a == 115 ? 1 : a < 14 ? 1024 : 0); }
API cuDeviceComputeCapability(int *a, int *b, int d) { (void)d; WITH(*a = 8; *b = 6); }
API cuDeviceGetDefaultMemPool(void **p, int d) { (void)d; WITH(*p = handle); }
API cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; AT(NO_CONTEXT, *c = handle); }
API cuDevicePrimaryCtxRelease_v2(int d) { (void)d; SAY; return STAGE ? OK : ANSWER; }
API cuDevicePrimaryCtxGetState(int d, unsigned *f, int *a) { (void)d; WITH(*f = 0; *a = 1); }
API cuCtxCreate_v2(void **c, unsigned f, int d) { (void)f; (void)d; AT(NO_CONTEXT, *c = handle); }
API cuCtxDestroy_v2(void *c) { (void)c; SAY; return STAGE ? OK : ANSWER; }
API cuCtxSetCurrent(void *c) { (void)c; WITH((void)0); }
API cuCtxPushCurrent_v2(void *c) { (void)c; WITH((void)0); }
API cuCtxPopCurrent_v2(void **c) { WITH(*c = handle); }
API cuCtxGetCurrent(void **c) { WITH(*c = handle); }
API cuCtxGetDevice(int *d) { WITH(*d = 0); }
API cuCtxGetStreamPriorityRange(int *a, int *b) { WITH(*a = 0; *b = 0); }
API cuCtxSynchronize(void) { WAITS((void)0); }
API cuStreamCreate(void **s, unsigned f) { (void)f; WITH(*s = handle); }
API cuStreamCreateWithPriority(void **s, unsigned f, int p) { (void)f; (void)p; WITH(*s = handle); }
API cuStreamDestroy_v2(void *s) { (void)s; WITH((void)0); }
API cuStreamSynchronize(void *s) { (void)s; WAITS((void)0); }
API cuStreamQuery(void *s) { (void)s; WAITS((void)0); }
API cuStreamWaitEvent(void *s, void *e, unsigned f) { (void)s; (void)e; (void)f; WITH((void)0); }
API cuStreamIsCapturing(void *s, int *v) { (void)s; WITH(*v = 0); }
API cuEventCreate(void **e, unsigned f) { (void)f; WITH(*e = handle); }
API cuEventDestroy_v2(void *e) { (void)e; WITH((void)0); }
API cuEventRecord(void *e, void *s) { (void)e; (void)s; WITH((void)0); }
API cuEventQuery(void *e) { (void)e; WAITS((void)0); }
API cuEventSynchronize(void *e) { (void)e; WAITS((void)0); }
API cuEventElapsedTime(float *ms, void *a, void *b) { (void)a; (void)b; WITH(*ms = 1); }
API cuEventElapsedTime_v2(float *ms, void *a, void *b) { (void)a; (void)b; WITH(*ms = 1); }
API cuModuleLoad(void **m, const char *f) { (void)f; CODE(*m = handle); }
API cuModuleLoadData(void **m, const void *i) { (void)i; CODE(*m = handle); }
API cuModuleLoadDataEx(void **m, const void *i, unsigned n, void *o, void *v) { (void)i; (void)n; (void)o; (void)v; CODE(*m = handle); }
API cuModuleLoadFatBinary(void **m, const void *i) { (void)i; CODE(*m = handle); }
API cuModuleUnload(void *m) { (void)m; WITH((void)0); }
API cuModuleGetFunction(void **f, void *m, const char *n) { (void)m; (void)n; AT(KERNEL, *f = handle); }
API cuLibraryLoadData(void **l, const void *c, void *a, void *b, unsigned n, void *d, void *e, unsigned m) {
    (void)c; (void)a; (void)b; (void)n; (void)d; (void)e; (void)m;
    CODE(*l = handle);
}
API cuLibraryLoadFromFile(void **l, const char *c, void *a, void *b, unsigned n, void *d, void *e, unsigned m) {
    (void)c; (void)a; (void)b; (void)n; (void)d; (void)e; (void)m;
    CODE(*l = handle);
}
API cuLibraryUnload(void *l) { (void)l; WITH((void)0); }
API cuLibraryGetKernel(void **k, void *l, const char *n) { (void)l; (void)n; AT(KERNEL, *k = handle); }
API cuLibraryGetModule(void **m, void *l) { (void)l; WITH(*m = handle); }
API cuKernelGetFunction(void **f, void *k) { (void)k; WITH(*f = handle); }
API cuFuncGetAttribute(int *v, int a, void *f) { (void)f; WITH(*v = a == 0 ? 1024 : 0); }
API cuFuncSetAttribute(void *f, int a, int v) { (void)f; (void)a; (void)v; WITH((void)0); }
API cuFuncSetCacheConfig(void *f, int c) { (void)f; (void)c; WITH((void)0); }
API cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned n, void *s, void **args, void **extra) {
    (void)f; (void)x; (void)y; (void)z; (void)a; (void)b; (void)c; (void)n; (void)s; (void)args; (void)extra;
    LAUNCHES;
}
API cuLaunchKernelEx(const void *c, void *f, void **args, void **extra) { (void)c; (void)f; (void)args; (void)extra; LAUNCHES; }
API cuLaunchCooperativeKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned n, void *s, void **args) {
    (void)f; (void)x; (void)y; (void)z; (void)a; (void)b; (void)c; (void)n; (void)s; (void)args;
    LAUNCHES;
}
API cuMemGetInfo_v2(size_t *f, size_t *t) { WITH(*f = STAGE > MEMORY ? TOTAL : 0; *t = TOTAL); }
API cuMemAlloc_v2(uint64_t *p, size_t n) { GIVES(p, n); }
API cuMemAllocAsync(uint64_t *p, size_t n, void *s) { (void)s; GIVES(p, n); }
API cuMemAllocFromPoolAsync(uint64_t *p, size_t n, void *q, void *s) { (void)q; (void)s; GIVES(p, n); }
API cuMemAllocManaged(uint64_t *p, size_t n, unsigned f) { (void)f; GIVES(p, n); }
API cuMemAllocPitch_v2(uint64_t *p, size_t *q, size_t w, size_t h, unsigned e) { (void)e; if (h && w > TOTAL / h) h = 1, w = (size_t)-1; *q = w; GIVES(p, w * h); }
API cuMemCreate(void *h, size_t n, const void *q, uint64_t f) { (void)h; (void)n; (void)q; (void)f; SAY; return STAGE > MEMORY ? NOT_SUPPORTED : ANSWER; }
API cuMemFree_v2(uint64_t p) { WITH(free((void *)(uintptr_t)p)); }
API cuMemFreeAsync(uint64_t p, void *s) { (void)s; WITH(free((void *)(uintptr_t)p)); }
API cuMemAllocHost_v2(void **p, size_t n) { AT(HOST, if (!(*p = calloc(1, n ? n : 1))) return NO_MEMORY); }
API cuMemHostAlloc(void **p, size_t n, unsigned f) { (void)f; AT(HOST, if (!(*p = calloc(1, n ? n : 1))) return NO_MEMORY); }
API cuMemFreeHost(void *p) { WITH(free(p)); }
API cuMemcpyHtoD_v2(uint64_t d, const void *s, size_t n) { UP; WAITS(memcpy((void *)(uintptr_t)d, s, n)); }
API cuMemcpyDtoH_v2(void *d, uint64_t s, size_t n) { BACK(d, n); WAITS(memcpy(d, (void *)(uintptr_t)s, n)); }
API cuMemcpyDtoD_v2(uint64_t d, uint64_t s, size_t n) { WITH(memmove((void *)(uintptr_t)d, (void *)(uintptr_t)s, n)); }
API cuMemcpyHtoDAsync_v2(uint64_t d, const void *s, size_t n, void *q) { (void)q; UP; WITH(memcpy((void *)(uintptr_t)d, s, n)); }
API cuMemcpyDtoHAsync_v2(void *d, uint64_t s, size_t n, void *q) { (void)q; BACK(d, n); WITH(memcpy(d, (void *)(uintptr_t)s, n)); }
API cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t s, size_t n, void *q) { (void)q; WITH(memmove((void *)(uintptr_t)d, (void *)(uintptr_t)s, n)); }
API cuMemsetD8_v2(uint64_t d, unsigned char v, size_t n) { WITH(memset((void *)(uintptr_t)d, v, n)); }
API cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *q) { (void)q; WITH(memset((void *)(uintptr_t)d, v, n)); }
API cuMemsetD32_v2(uint64_t d, uint32_t v, size_t n) { WITH(for (size_t i = 0; i < n; i++) ((uint32_t *)(uintptr_t)d)[i] = v); }
API cuMemsetD32Async(uint64_t d, uint32_t v, size_t n, void *q) { (void)q; WITH(for (size_t i = 0; i < n; i++) ((uint32_t *)(uintptr_t)d)[i] = v); }
static const char *word(int e) {
    switch (e) {
    case 0: return "CUDA_SUCCESS";
    case 2: return "CUDA_ERROR_OUT_OF_MEMORY";
    case 34: return "CUDA_ERROR_STUB_LIBRARY";
    case 46: return "CUDA_ERROR_DEVICE_UNAVAILABLE";
    case 100: return "CUDA_ERROR_NO_DEVICE";
    case 101: return "CUDA_ERROR_INVALID_DEVICE";
    case 209: return "CUDA_ERROR_NO_BINARY_FOR_GPU";
    case 214: return "CUDA_ERROR_ECC_UNCORRECTABLE";
    case 500: return "CUDA_ERROR_NOT_FOUND";
    case 701: return "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
    case 719: return "CUDA_ERROR_LAUNCH_FAILED";
    case 801: return "CUDA_ERROR_NOT_SUPPORTED";
    case 803: return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    }
    return "CUDA_ERROR_UNKNOWN";
}
API cuGetErrorName(int e, const char **s) { SAY; *s = word(e); return OK; }
API cuGetErrorString(int e, const char **s) { SAY; *s = word(e); return OK; }
API cuGetExportTable(const void **t, const void *id) { (void)id; SAY; *t = NULL; return STAGE ? NOT_FOUND : ANSWER; }   /* libcudart's private door */

static int look(const char *name, void **f);
API cuGetProcAddress(const char *name, void **f, int v, uint64_t flags) { (void)v; (void)flags; SAY; return look(name, f); }
API cuGetProcAddress_v2(const char *name, void **f, int v, uint64_t flags, int *status) {
    int rc;
    (void)v; (void)flags; SAY;
    rc = look(name, f);
    if (status) *status = rc == OK ? 0 : 1;
    return rc;
}

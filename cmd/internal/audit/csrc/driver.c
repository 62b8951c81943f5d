/* gpubuild's failing driver: a libcuda.so.1 that answers every call with ANSWER, or (WORKS) looks like a device whose memory is full. It writes
 * the name of each function, once, into LOG. Behind this text gpubuild puts one line NAME(cu…) for every function without a body here, and the
 * table of them all. It runs nothing and can prove nothing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int
enum { OK = 0, NO_MEMORY = 2, NOT_FOUND = 500, NOT_SUPPORTED = 801 };
static char handle[64];                 /* what a handle points at */

static void say(const char *name, unsigned char *said) {
    char line[160]; int fd, n;
    if (__sync_lock_test_and_set(said, 1)) return;
    n = snprintf(line, sizeof line, "%s\n", name);
    if ((fd = open(LOG, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) < 0) return;
    if (write(fd, line, (size_t)n) < 0) { }
    close(fd);
}
#define SAY do { static unsigned char said; say(__func__, &said); } while (0)
#define NAME(f) API f(void) { SAY; return WORKS ? NOT_SUPPORTED : ANSWER; }
#define WITH(...) do { SAY; if (!WORKS) return ANSWER; __VA_ARGS__; return OK; } while (0)
#define FULL do { SAY; return WORKS ? NO_MEMORY : ANSWER; } while (0)

API cuInit(unsigned f) { (void)f; WITH((void)0); }
API cuDriverGetVersion(int *v) { SAY; *v = 13000; return OK; }
API cuDeviceGetCount(int *n) { WITH(*n = 1); }
API cuDeviceGet(int *d, int i) { if (i) { SAY; return 101; } WITH(*d = 0); }
API cuDeviceGetName(char *s, int n, int d) { (void)d; WITH(snprintf(s, (size_t)n, "gpubuild audit (no GPU)")); }
API cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; WITH(*n = (size_t)8 << 30); }
API cuDeviceGetUuid(void *u, int d) { (void)d; WITH(memset(u, 0, 16)); }
API cuDeviceGetUuid_v2(void *u, int d) { (void)d; WITH(memset(u, 0, 16)); }
API cuDeviceGetAttribute(int *v, int a, int d) { (void)d; WITH(*v = a == 75 ? 8 : a == 76 ? 6 : a == 10 ? 32 : a == 115 ? 1 : a < 14 ? 1024 : 0); }
API cuDeviceComputeCapability(int *a, int *b, int d) { (void)d; WITH(*a = 8; *b = 6); }
API cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; WITH(*c = handle); }
API cuDevicePrimaryCtxRelease_v2(int d) { (void)d; WITH((void)0); }
API cuDevicePrimaryCtxGetState(int d, unsigned *f, int *a) { (void)d; WITH(*f = 0; *a = 1); }
API cuCtxCreate_v2(void **c, unsigned f, int d) { (void)f; (void)d; WITH(*c = handle); }
API cuCtxDestroy_v2(void *c) { (void)c; WITH((void)0); }
API cuCtxSetCurrent(void *c) { (void)c; WITH((void)0); }
API cuCtxPushCurrent_v2(void *c) { (void)c; WITH((void)0); }
API cuCtxPopCurrent_v2(void **c) { WITH(*c = handle); }
API cuCtxGetCurrent(void **c) { WITH(*c = handle); }
API cuCtxGetDevice(int *d) { WITH(*d = 0); }
API cuCtxSynchronize(void) { WITH((void)0); }
API cuStreamCreate(void **s, unsigned f) { (void)f; WITH(*s = handle); }
API cuStreamDestroy_v2(void *s) { (void)s; WITH((void)0); }
API cuStreamSynchronize(void *s) { (void)s; WITH((void)0); }
API cuEventCreate(void **e, unsigned f) { (void)f; WITH(*e = handle); }
API cuEventDestroy_v2(void *e) { (void)e; WITH((void)0); }
API cuModuleLoadData(void **m, const void *i) { (void)i; WITH(*m = handle); }
API cuModuleLoadDataEx(void **m, const void *i, unsigned n, void *o, void *v) { (void)i; (void)n; (void)o; (void)v; WITH(*m = handle); }
API cuModuleUnload(void *m) { (void)m; WITH((void)0); }
API cuModuleGetFunction(void **f, void *m, const char *n) { (void)m; (void)n; WITH(*f = handle); }
API cuMemGetInfo_v2(size_t *f, size_t *t) { WITH(*f = 0; *t = (size_t)8 << 30); }
API cuMemAlloc_v2(uint64_t *p, size_t n) { (void)p; (void)n; FULL; }
API cuMemAllocAsync(uint64_t *p, size_t n, void *s) { (void)p; (void)n; (void)s; FULL; }
API cuMemAllocManaged(uint64_t *p, size_t n, unsigned f) { (void)p; (void)n; (void)f; FULL; }
API cuMemAllocPitch_v2(uint64_t *p, size_t *q, size_t w, size_t h, unsigned e) { (void)p; (void)q; (void)w; (void)h; (void)e; FULL; }
API cuMemCreate(void *h, size_t n, const void *q, uint64_t f) { (void)h; (void)n; (void)q; (void)f; FULL; }
static const char *word(int e) {
    switch (e) {
    case 0: return "CUDA_SUCCESS";
    case 2: return "CUDA_ERROR_OUT_OF_MEMORY";
    case 34: return "CUDA_ERROR_STUB_LIBRARY";
    case 100: return "CUDA_ERROR_NO_DEVICE";
    case 101: return "CUDA_ERROR_INVALID_DEVICE";
    case 500: return "CUDA_ERROR_NOT_FOUND";
    case 801: return "CUDA_ERROR_NOT_SUPPORTED";
    case 803: return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    }
    return "CUDA_ERROR_UNKNOWN";
}
API cuGetErrorName(int e, const char **s) { SAY; *s = word(e); return OK; }
API cuGetErrorString(int e, const char **s) { SAY; *s = word(e); return OK; }
API cuGetExportTable(const void **t, const void *id) { (void)id; SAY; *t = NULL; return WORKS ? NOT_FOUND : ANSWER; }   /* libcudart's private door */

static int look(const char *name, void **f);
API cuGetProcAddress(const char *name, void **f, int v, uint64_t flags) { (void)v; (void)flags; SAY; return look(name, f); }
API cuGetProcAddress_v2(const char *name, void **f, int v, uint64_t flags, int *status) {
    int rc;
    (void)v; (void)flags; SAY;
    rc = look(name, f);
    if (status) *status = rc == OK ? 0 : 1;
    return rc;
}

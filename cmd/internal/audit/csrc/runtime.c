/* gpubuild's failing CUDA run-time library, for a program that loads libcudart.so or cudart64_*.dll: NVIDIA's own uses doors of the driver that nobody else can offer.
 * It fails as driver.c says, in the run-time API's own words (the numbers of both have been the same since CUDA 10.1): a kernel without code for the
 * GPU is refused at its launch, by cudaErrorNoKernelImageForDevice. Registering kernels, which every such program does before main, is not asking
 * for the GPU and is not logged. Declarations: crt/host_runtime.h, cuda_runtime_api.h of CUDA 13.4. */
#define _GNU_SOURCE
#include <string.h>

static int last;        /* what cudaGetLastError answers */
#define SEEN(e) (last = (e))
#include "fails.h"

enum { NOT_SUPPORTED = 801, FORWARDS = 1, BACKWARDS = 2 };        /* cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost */
struct dim { unsigned x, y, z; };
static void *handle[8];
#define NAME(f) API f(void) { SAY; return last = ALL_FAILS ? ANSWER : NOT_SUPPORTED; }
#define QUIET(T) PUBLIC T

QUIET(void **) __cudaRegisterFatBinary(void *f) { (void)f; return handle; }
QUIET(void) __cudaRegisterFatBinaryEnd(void **h) { (void)h; }
QUIET(void) __cudaUnregisterFatBinary(void **h) { (void)h; }
QUIET(void) __cudaRegisterFunction(void **h, const char *f, char *d, const char *n, int l, void *a, void *b, void *c, void *e, int *w) {
    (void)h; (void)f; (void)d; (void)n; (void)l; (void)a; (void)b; (void)c; (void)e; (void)w;
}
QUIET(void) __cudaRegisterVar(void **h, char *v, char *a, const char *n, int e, size_t s, int c, int g) { (void)h; (void)v; (void)a; (void)n; (void)e; (void)s; (void)c; (void)g; }
QUIET(void) __cudaRegisterHostVar(void **h, const char *n, char *v, size_t s) { (void)h; (void)n; (void)v; (void)s; }
QUIET(void) __cudaRegisterManagedVar(void **h, void **v, char *a, const char *n, int e, size_t s, int c, int g) { (void)h; (void)v; (void)a; (void)n; (void)e; (void)s; (void)c; (void)g; }
QUIET(char) __cudaInitModule(void **h) { (void)h; return 1; }

static THREAD struct { struct dim grid, block; size_t shared; void *stream; } configured;
QUIET(unsigned) __cudaPushCallConfiguration(struct dim g, struct dim b, size_t n, void *s) {
    configured.grid = g; configured.block = b; configured.shared = n; configured.stream = s;
    return 0;
}
API __cudaPopCallConfiguration(struct dim *g, struct dim *b, size_t *n, void *s) {
    *g = configured.grid; *b = configured.block; *n = configured.shared; *(void **)s = configured.stream;
    return 0;
}
API __cudaGetKernel(void **k, const void *f) { (void)f; *k = handle; return 0; }
#define STARTS do { if (STAGE == MODULE) { SAY; return last = ANSWER; } LAUNCHES; } while (0)
API __cudaLaunchKernel(void *k, struct dim g, struct dim b, void **a, size_t n, void *s) { (void)k; (void)g; (void)b; (void)a; (void)n; (void)s; STARTS; }
API cudaLaunchKernel(const void *k, struct dim g, struct dim b, void **a, size_t n, void *s) { (void)k; (void)g; (void)b; (void)a; (void)n; (void)s; STARTS; }
API cudaLaunchKernelExC(const void *c, const void *k, void **a) { (void)c; (void)k; (void)a; STARTS; }
API cudaLaunchCooperativeKernel(const void *k, struct dim g, struct dim b, void **a, size_t n, void *s) { (void)k; (void)g; (void)b; (void)a; (void)n; (void)s; STARTS; }
API cudaFuncGetAttributes(void *a, const void *f) { (void)f; CODE(memset(a, 0, 48)); }  /* up to ptxVersion; the rest is not looked at by itself */
API cudaFuncSetAttribute(const void *f, int a, int v) { (void)f; (void)a; (void)v; CODE((void)0); }
API cudaFuncSetCacheConfig(const void *f, int c) { (void)f; (void)c; CODE((void)0); }
API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int b, size_t s) { (void)f; (void)b; (void)s; CODE(*n = 1); }

API cudaDriverGetVersion(int *v) { SAY; *v = 13000; return 0; }
API cudaRuntimeGetVersion(int *v) { SAY; *v = 13000; return 0; }
API cudaGetDeviceCount(int *n) { *n = 0; WITH(*n = 1); }
API cudaSetDevice(int d) { WITH(if (d) return last = 101); }
API cudaGetDevice(int *d) { WITH(*d = 0); }
API cudaSetDeviceFlags(unsigned f) { (void)f; WITH((void)0); }
API cudaInitDevice(int d, unsigned f, unsigned g) { (void)f; (void)g; WITH(if (d) return last = 101); }
API cudaDeviceGetAttribute(int *v, int a, int d) { (void)d; WITH(*v = a == 75 ? 8 : a == 76 ? 6 : a == 10 ? 32 : a == 115 ? 1 : a < 14 ? 1024 : 0); }
/* struct cudaDeviceProp up to its minor has stood since CUDA 12: name, uuid, luid, mask, totalGlobalMem at 288, …, major at 360, minor at 364 */
API cudaGetDeviceProperties(char *p, int d) {
    (void)d;
    WITH(memset(p, 0, 700); strcpy(p, "gpubuild audit (no GPU)"); memcpy(p + 288, &TOTAL, 8); *(int *)(p + 308) = 32; *(int *)(p + 320) = 1024;
         *(int *)(p + 360) = 8; *(int *)(p + 364) = 6);
}
ALIAS(cudaGetDeviceProperties_v2, cudaGetDeviceProperties)
API cudaDeviceSynchronize(void) { WAITS((void)0); }
API cudaDeviceReset(void) { SAY; failed = 0; return STAGE ? 0 : (last = ANSWER); }
API cudaStreamCreate(void **s) { WITH(*s = handle); }
API cudaStreamCreateWithFlags(void **s, unsigned f) { (void)f; WITH(*s = handle); }
API cudaStreamCreateWithPriority(void **s, unsigned f, int p) { (void)f; (void)p; WITH(*s = handle); }
API cudaStreamDestroy(void *s) { (void)s; WITH((void)0); }
API cudaStreamSynchronize(void *s) { (void)s; WAITS((void)0); }
API cudaStreamQuery(void *s) { (void)s; WAITS((void)0); }
API cudaStreamWaitEvent(void *s, void *e, unsigned f) { (void)s; (void)e; (void)f; WITH((void)0); }
API cudaEventCreate(void **e) { WITH(*e = handle); }
API cudaEventCreateWithFlags(void **e, unsigned f) { (void)f; WITH(*e = handle); }
API cudaEventDestroy(void *e) { (void)e; WITH((void)0); }
API cudaEventRecord(void *e, void *s) { (void)e; (void)s; WITH((void)0); }
API cudaEventQuery(void *e) { (void)e; WAITS((void)0); }
API cudaEventSynchronize(void *e) { (void)e; WAITS((void)0); }
API cudaEventElapsedTime(float *ms, void *a, void *b) { (void)a; (void)b; WITH(*ms = 1); }
API cudaMalloc(uint64_t *p, size_t n) { GIVES(p, n); }
API cudaMallocAsync(uint64_t *p, size_t n, void *s) { (void)s; GIVES(p, n); }
API cudaMallocManaged(uint64_t *p, size_t n, unsigned f) { (void)f; GIVES(p, n); }
API cudaMallocHost(void **p, size_t n) { AT(HOST, if (!(*p = calloc(1, n ? n : 1))) return last = NO_MEMORY); }
API cudaHostAlloc(void **p, size_t n, unsigned f) { (void)f; AT(HOST, if (!(*p = calloc(1, n ? n : 1))) return last = NO_MEMORY); }
API cudaFreeHost(void *p) { WITH(free(p)); }
API cudaFree(void *p) { WITH(free(p)); }
API cudaFreeAsync(void *p, void *s) { (void)s; WITH(free(p)); }
API cudaMemGetInfo(size_t *f, size_t *t) { WITH(*f = STAGE > MEMORY ? TOTAL : 0; *t = TOTAL); }
API cudaMemcpy(void *d, const void *s, size_t n, int k) { if (k == FORWARDS) UP; if (k == BACKWARDS) BACK(d, n); WAITS(memmove(d, s, n)); }
API cudaMemcpyAsync(void *d, const void *s, size_t n, int k, void *q) { (void)q; if (k == FORWARDS) UP; if (k == BACKWARDS) BACK(d, n); WITH(memmove(d, s, n)); }
API cudaMemset(void *d, int v, size_t n) { WITH(memset(d, v, n)); }
API cudaMemsetAsync(void *d, int v, size_t n, void *q) { (void)q; WITH(memset(d, v, n)); }
API cudaGetLastError(void) { int e = failed == 2 ? ANSWER : last; last = 0; return e; }
API cudaPeekAtLastError(void) { return failed == 2 ? ANSWER : last; }
static const char *word(int e, int text) {
    switch (e) {
    case 0: return text ? "no error" : "cudaSuccess";
    case 2: return text ? "out of memory" : "cudaErrorMemoryAllocation";
    case 34: return text ? "CUDA driver is a stub library" : "cudaErrorStubLibrary";
    case 100: return text ? "no CUDA-capable device is detected" : "cudaErrorNoDevice";
    case 101: return text ? "invalid device ordinal" : "cudaErrorInvalidDevice";
    case 209: return text ? "no kernel image is available for execution on the device" : "cudaErrorNoKernelImageForDevice";
    case 214: return text ? "uncorrectable ECC error encountered" : "cudaErrorECCUncorrectable";
    case 701: return text ? "too many resources requested for launch" : "cudaErrorLaunchOutOfResources";
    case 719: return text ? "unspecified launch failure" : "cudaErrorLaunchFailure";
    case 801: return text ? "operation not supported" : "cudaErrorNotSupported";
    case 803: return text ? "system has unsupported display driver / cuda driver combination" : "cudaErrorSystemDriverMismatch";
    }
    return text ? "unknown error" : "cudaErrorUnknown";
}
QUIET(const char *) cudaGetErrorName(int e) { return word(e, 0); }
QUIET(const char *) cudaGetErrorString(int e) { return word(e, 1); }

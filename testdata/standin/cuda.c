/* Stand-in libcuda.so.1 for tests on machines without a GPU: one make-believe device whose memory is host memory and whose kernels are
 * the few C functions in kernels[]. A module's kernels are the entry names of the PTX text, cubin or fatbin that is loaded; a name can be
 * launched only if it is in kernels[], and only launches that were really carried out are told to an observer (the stand-in CUPTI).
 * Device code is not executed: the C function of the same name is. In a compressed image names cannot be read; there every known name is
 * accepted, and STANDIN_CUDA_TRACE says so.
 *
 *   STANDIN_CUDA_TRACE=1       name every call on stderr
 *   STANDIN_CUDA_INIT=803      cuInit answers that
 *   STANDIN_CUDA_DEVICES=0     no device: cuInit answers 100, as it does when CUDA_VISIBLE_DEVICES hides all; 2: two devices, of which
 *                              CUDA_VISIBLE_DEVICES chooses by number, as the real one does
 *   STANDIN_CUDA_SKIP=name     accept launches of that kernel but run nothing, and tell nobody
 *   STANDIN_CUDA_MEMORY=4095  an allocation of more bytes than that fails: out of memory
 *   STANDIN_CUDA_LOAD=sm_50    refuse PTX for that target (209), as a driver that has dropped it
 *   STANDIN_CUDA_FAULT="matmul 700 cuCtxSynchronize"   that kernel computes nothing and faults, which cuCtxSynchronize is the first to answer; from then
 *                              on every call that waits in its context does, too
 *   STANDIN_CUDA_ANSWER="matmul 711 cuMemcpyDtoH_v2 1"   once that kernel was launched, which is whole, that function answers 711, but only once (0: each time)
 *   STANDIN_CUDA_VERSION=13030 what cuDriverGetVersion answers
 *   STANDIN_CUDA_COUNT=4294967250   the correlation of the last call, so to say: the first one has the next
 *   STANDIN_CUDA_EXIT=1        it ends before the handlers that were registered at cuInit: to them every call answers 4
 *
 * cuInit opens the file "node" beside this library, where there is one, as the real driver opens its devices.
 *
 * Build: cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden -pthread -Wl,-soname,libcuda.so.1 cuda.c -o libcuda.so.1 -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int result;
typedef uint64_t address;               /* CUdeviceptr: here, of host memory */
enum {
    OK, INVALID_VALUE, NO_MEMORY, NOT_INITIALIZED, DEINITIALIZED, NO_DEVICE = 100, INVALID_DEVICE, INVALID_IMAGE = 200, INVALID_CONTEXT,
    NO_BINARY = 209, INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801
};
#define API __attribute__((visibility("default"))) result
#define SAY(...) do { if (trace) { fprintf(stderr, "standin-cuda: " __VA_ARGS__); fputc('\n', stderr); } } while (0)
#define NEED do { if (!ready) return NOT_INITIALIZED; if (gone) return DEINITIALIZED; SAY("%s", __func__); } while (0)

struct launch { const char *name; uint32_t grid[3], block[3], smem; uint64_t start, end; uint32_t stream, correlation, device, graph; uint64_t node; uint32_t context; };
typedef void observer(const struct launch *);
typedef void caller(int site, const char *function, const result *answer);
struct memory { address at; size_t n; struct memory *next; };
struct function { struct function *next; char name[]; };
struct module { struct function *functions; int any; };
struct stream { uint32_t id; void *in; };         /* 0, 1 and 2 are the default streams, not pointers */
struct event { uint64_t at; };

enum { DEVICES = 2 };
static int trace, ready, gone, lives[DEVICES], contexts[DEVICES], physical[DEVICES], devices;  /* physical: which device a visible number means */
static uint32_t launches, streams = 7;
static struct memory *memories;
static observer *watch;
static caller *calls;
static pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local void *current;

static struct { char kernel[64], function[64]; int rc; struct { int pending, told; } on[DEVICES]; } fault;
static struct { char kernel[64], function[64]; int rc, times, on; } refusal;

static _Thread_local const void *params;    /* of the call that is told next, where CUPTI's client needs them */

/* the device of the thread's context; without one the first */
static int here(void) { return current ? (int)((int *)current - contexts) : 0; }
/* CUPTI's number of the context: of a new one a new one */
static uint32_t stream_number(void *s) { return (uintptr_t)s > 2 ? ((struct stream *)s)->id : 7; }
static uint32_t context_number(void) { return current ? (uint32_t)(1 + here() + DEVICES * lives[here()]) : 0; }

static int refuses(const char *function) {
    if (!refusal.on || strcmp(refusal.function, function)) return 0;
    return refusal.times == 0 || (refusal.times > 0 && (--refusal.times || (refusal.times = -1)));
}

/* what a call that waits for kernels answers */
static result waited(const char *function, result r) {
    if (calls) calls(0, function, NULL);
    if (r == OK && fault.on[here()].pending && (fault.on[here()].told || !strcmp(function, fault.function))) { fault.on[here()].told = 1; r = fault.rc; }
    if (refuses(function)) r = refusal.rc;
    if (calls) calls(1, function, &r);
    params = NULL;
    return r;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int owned(address p, size_t n) { /* wholly inside one allocation? */
    int hit = 0;
    pthread_mutex_lock(&big);
    for (struct memory *m = memories; m && !hit; m = m->next) hit = p >= m->at && n <= m->n && p - m->at <= m->n - n;
    pthread_mutex_unlock(&big);
    return hit;
}

/* The stand-in libcupti asks for the launches that were really carried out, and for the calls that ask for one, before and after. */
__attribute__((visibility("default"))) void standin_cuda_observe(observer *o) { watch = o; }
__attribute__((visibility("default"))) void standin_cuda_calls(caller *c) { calls = c; }
__attribute__((visibility("default"))) const void *standin_cuda_params(void) { return params; }
__attribute__((visibility("default"))) uint32_t standin_cuda_stream(void *s, uint8_t of_thread) { return stream_number(of_thread && !s ? (void *)2 : s); }
__attribute__((visibility("default"))) int standin_cuda_holds(void *context, void *s) { return !context || (uintptr_t)s <= 2 || ((struct stream *)s)->in == context; }
__attribute__((visibility("default"))) uint32_t standin_cuda_context(void) { return context_number(); }
__attribute__((visibility("default"))) uint32_t standin_cuda_context_of(void *context) {
    int i = (int)((int *)context - contexts);
    return (uint32_t)(1 + i + DEVICES * lives[i]);
}
/* the correlation of a call, which grows like those of launches and is the same before (site 0) and after it, and the context that it is made in */
__attribute__((visibility("default"))) uint32_t standin_cuda_number(void **context, int site) {
    static _Thread_local uint32_t of_call;
    *context = current;
    return site ? of_call : (of_call = __sync_add_and_fetch(&launches, 1));
}

/* ---- the kernels this device knows ---------------------------------------------------------------------------------------------------- */
#define ARG(T, i) (*(T *)args[i])
struct shape { const uint32_t *grid, *block; };

/* matmul(const float *a, const float *b, float *c, unsigned n): c = a b, row by row, one thread an element */
static result k_matmul(void **args, struct shape s) {
    uint32_t n = ARG(uint32_t, 3);
    size_t z = (size_t)n * n * sizeof(float);
    if (!owned(ARG(address, 0), z) || !owned(ARG(address, 1), z) || !owned(ARG(address, 2), z)) return ILLEGAL_ADDRESS;
    const float *a = (const float *)ARG(address, 0), *b = (const float *)ARG(address, 1);
    float *c = (float *)ARG(address, 2);
    for (uint32_t y = 0; y < n && y < s.grid[1] * s.block[1]; y++) {    /* only what the grid covers */
        uint32_t columns = s.grid[0] * s.block[0] < n ? s.grid[0] * s.block[0] : n;
        for (uint32_t x = 0; x < columns; x++) c[(size_t)y * n + x] = 0;
        for (uint32_t k = 0; k < n; k++) {
            float f = a[(size_t)y * n + k];
            for (uint32_t x = 0; x < columns; x++) c[(size_t)y * n + x] += f * b[(size_t)k * n + x];
        }
    }
    return OK;
}

/* gpubuild_control(uint32_t *out, uint32_t key): out[i] = i ^ key */
static result k_control(void **args, struct shape s) {
    uint32_t key = ARG(uint32_t, 1), n = s.grid[0] * s.block[0];
    if (!owned(ARG(address, 0), n * sizeof(uint32_t))) return ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < n; i++) ((uint32_t *)ARG(address, 0))[i] = i ^ key;
    return OK;
}

/* a fill: (float *out, float value, unsigned n) */
static result k_fill(void **args, struct shape s) {
    uint32_t n = ARG(uint32_t, 2);
    if (!owned(ARG(address, 0), n * sizeof(float))) return ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < n && i < s.grid[0] * s.block[0]; i++) ((float *)ARG(address, 0))[i] = ARG(float, 1);
    return OK;
}

/* what the stand-in cuBLAS launches: column-major c = alpha a b + beta c, batched by stride */
static result k_sgemm(void **args, struct shape s) {
    int ta = ARG(int, 0), tb = ARG(int, 1), m = ARG(int, 2), n = ARG(int, 3), k = ARG(int, 4);
    int lda = ARG(int, 7), ldb = ARG(int, 10), ldc = ARG(int, 14);
    float alpha = ARG(float, 5), beta = ARG(float, 12);
    long long sa = ARG(long long, 8), sb = ARG(long long, 11), sc = ARG(long long, 15);
    for (uint32_t z = 0; z < s.grid[2]; z++) {
        address a = ARG(address, 6) + 4 * z * sa, b = ARG(address, 9) + 4 * z * sb, c = ARG(address, 13) + 4 * z * sc;
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < m; i++) {
                address to = c + 4 * ((long long)j * ldc + i);
                float sum = 0;
                for (int x = 0; x < k; x++) {
                    address p = a + 4ll * (ta ? (long long)i * lda + x : (long long)x * lda + i);
                    address q = b + 4ll * (tb ? (long long)x * ldb + j : (long long)j * ldb + x);
                    if (!owned(p, 4) || !owned(q, 4)) return ILLEGAL_ADDRESS;
                    sum += *(float *)p * *(float *)q;
                }
                if (!owned(to, 4)) return ILLEGAL_ADDRESS;
                *(float *)to = alpha * sum + (beta != 0 ? beta * *(float *)to : 0);
            }
        }
    }
    return OK;
}

/* e to the power of x for x <= 0, without libm, which not every program has */
static double power_of_e(double x) {
    double r, sum = 1, term = 1; int k = (int)(x / 0.6931471805599453);
    if (x < -700) return 0;
    r = x - k * 0.6931471805599453;
    for (int i = 1; i < 16; i++) sum += term *= r / i;
    for (; k < 0; k++) sum /= 2;
    return sum;
}

/* softmax_f32(const float *from, float *to, int columns), a row each x: SOFTMAX_OP of candle-kernels 0.11.1, reduce.cu */
static result k_softmax(void **args, struct shape s) {
    const float *from = (const float *)ARG(address, 0); float *to = (float *)ARG(address, 1);
    int columns = ARG(int, 2); size_t rows = (size_t)s.grid[0] * s.block[0];
    if (columns < 1 || !owned(ARG(address, 0), rows * (size_t)columns * 4) || !owned(ARG(address, 1), rows * (size_t)columns * 4)) return ILLEGAL_ADDRESS;
    for (; rows; rows--, from += columns, to += columns) {
        double sum = 0; float most = from[0];
        for (int i = 1; i < columns; i++) if (from[i] > most) most = from[i];
        for (int i = 0; i < columns; i++) sum += to[i] = (float)power_of_e((double)from[i] - most);
        for (int i = 0; i < columns; i++) to[i] = (float)(to[i] / sum);
    }
    return OK;
}

static result k_nothing(void **args, struct shape s) { (void)args; (void)s; return OK; }

static const struct kernel { const char *name; result (*run)(void **, struct shape); } kernels[] = {
    { "matmul", k_matmul },
    { "_Z6matmulPKfS0_Pfj", k_matmul },
    { "gpubuild_control", k_control },
    { "fill_f32", k_fill },
    { "standin_implicit_gemm_fprop", k_fill },      /* named like a product, is none */
    { "standin_sgemm", k_sgemm },
    { "softmax_f32", k_softmax },
    /* the names of real kernels, for programs that launch them */
    { "broadcast_matmul_f32", k_matmul }, { "mul_mat_vec_q_memset_fused", k_matmul }, { "gemv_warp_reduce", k_matmul },
    { "_ZN7cutlass7Kernel2I42cutlass_80_simt_sgemm_128x32_8x5_nn_align1EEvNT_6ParamsE", k_matmul },
    { "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute9Copy_AtomEEEEEvNT_6ParamsE", k_matmul },
    { "transpose_for_gemm", k_nothing }, { "gemm_zero_bias_init", k_nothing }, { "elementwise_add_after_gemm", k_nothing },
    { "quantize_mmq_q8_1", k_nothing }, { "mul_mat_q_stream_k_fixup", k_nothing }, { "cast_f32_f16", k_nothing }, { "flash_fwd_kernel", k_nothing },
    { "_ZN2at6native18elementwise_kernelI4gemmEEvT_", k_nothing },
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* ---- start, device, context --------------------------------------------------------------------------------------------------------------- */
static void look_around(void) {
    const char *f = getenv("STANDIN_CUDA_FAULT"), *answer = getenv("STANDIN_CUDA_ANSWER"), *count = getenv("STANDIN_CUDA_COUNT");
    if (count) launches = (uint32_t)strtoul(count, NULL, 10);
    if (answer && sscanf(answer, "%63s %d %63s %d", refusal.kernel, &refusal.rc, refusal.function, &refusal.times) != 4) refusal.kernel[0] = 0;
    if (f && sscanf(f, "%63s %d %63s", fault.kernel, &fault.rc, fault.function) != 3) fault.rc = 0;
    const char *s = getenv("STANDIN_CUDA_DEVICES"), *v = getenv("CUDA_VISIBLE_DEVICES");
    int there = s ? atoi(s) : 1;
    if (there > DEVICES) there = DEVICES;
    for (devices = 0; !v && devices < there; devices++) physical[devices] = devices;
    while (v && *v >= '0' && *v < '0' + there && devices < DEVICES) {       /* the list ends at the first number that means nothing */
        physical[devices++] = *v++ - '0';
        if (*v == ',') v++;
    }
}

static void end_of_driver(void) { gone = 1; }

API cuInit(unsigned flags) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    const char *answer = getenv("STANDIN_CUDA_INIT"), *injection = getenv("CUDA_INJECTION64_PATH");
    trace = getenv("STANDIN_CUDA_TRACE") != NULL;
    SAY("cuInit");
    if (flags) return INVALID_VALUE;
    if (answer && atoi(answer)) return atoi(answer);
    if (!ready) look_around();
    if (!devices) return NO_DEVICE;
    pthread_mutex_lock(&once);
    if (!ready) {
        ready = 1;
#ifndef _WIN32
        Dl_info me;
        if (dladdr(&ready, &me)) {
            char node[4096];
            snprintf(node, sizeof node, "%.*snode", (int)(strrchr(me.dli_fname, '/') ? strrchr(me.dli_fname, '/') + 1 - me.dli_fname : 0), me.dli_fname);
            (void)!open(node, O_RDWR | O_CLOEXEC);
        }
#endif
        if (injection && *injection) {              /* as the real one does */
            void *h = dlopen(injection, RTLD_NOW | RTLD_LOCAL);
            int (*go)(void) = h ? (int (*)(void))dlsym(h, "InitializeInjection") : NULL;
            int rc = go ? go() : 0;
            SAY("injection %s: %s %d", injection, go ? "answered" : "not loaded", rc);
        }
        if (getenv("STANDIN_CUDA_EXIT")) atexit(end_of_driver);
    }
    pthread_mutex_unlock(&once);
    return OK;
}
static result told(const char *function, result r) { if (refuses(function)) r = refusal.rc; if (calls) { calls(0, function, NULL); calls(1, function, &r); } params = NULL; return r; }
API cuDriverGetVersion(int *v) { const char *s = getenv("STANDIN_CUDA_VERSION"); *v = s ? atoi(s) : 13000; return OK; }
API cuDeviceGetCount(int *n) { NEED; *n = devices; return told(__func__, OK); }
API cuDeviceComputeCapability(int *major, int *minor, int d) { NEED; (void)d; *major = 9; *minor = 0; return told(__func__, OK); }
API cuDeviceGet(int *d, int i) { NEED; if (i < 0 || i >= devices) return told(__func__, INVALID_DEVICE); *d = i; return told(__func__, OK); }
API cuDeviceGetName(char *s, int n, int d) { NEED; snprintf(s, (size_t)n, physical[d] ? "Second stand-in device (no GPU)" : "Stand-in device (no GPU)"); return OK; }
API cuDeviceTotalMem_v2(size_t *n, int d) { NEED; (void)d; *n = 1ul << 30; return OK; }
API cuDeviceGetUuid_v2(void *u, int d) { NEED; memcpy(u, physical[d] ? "standin-device-1" : "standin-device-0", 16); return OK; }
API cuDeviceGetUuid(void *u, int d) { return cuDeviceGetUuid_v2(u, d); }
API cuDeviceGetAttribute(int *v, int a, int d) {
    NEED; (void)d;
    switch (a) {
    case 1: case 2: case 3: *v = 1024; break;       /* threads a block; block x, y */
    case 4: *v = 64; break;                         /* block z */
    case 5: *v = 2147483647; break;                 /* grid x */
    case 6: case 7: *v = 65535; break;              /* grid y, z */
    case 8: *v = 49152; break;                      /* shared memory a block */
    case 10: *v = 32; break;                        /* warp */
    case 16: *v = 1; break;                         /* multiprocessors */
    case 41: *v = 1; break;                         /* unified addressing */
    case 75: *v = 9; break;                         /* capability 9.0 */
    case 115: *v = 1; break;                        /* memory pools */
    default: *v = 0;
    }
    return OK;
}
API cuDevicePrimaryCtxRetain(void **c, int d) { NEED; if (d < 0 || d >= devices) return INVALID_DEVICE; struct { void **c; int d; } with = { c, d }; contexts[d] = 1; *c = &contexts[d]; params = &with; return told(__func__, OK); }
API cuDevicePrimaryCtxRelease_v2(int d) { NEED; (void)d; return OK; }
API cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) { NEED; if (d < 0 || d >= devices) return INVALID_DEVICE; *flags = 0; *active = contexts[d]; return OK; }
API cuCtxCreate_v2(void **c, unsigned f, int d) { struct { void **c; unsigned f; int d; } with = { c, f, d }; NEED; if (d < 0 || d >= devices) return INVALID_DEVICE; current = *c = &contexts[d]; params = &with; return told(__func__, OK); }
static void end_context(int d) { fault.on[d].pending = fault.on[d].told = 0; lives[d]++; }
API cuCtxDestroy_v2(void *c) { NEED; (void)c; end_context(here()); return told(__func__, OK); }     /* an error goes with its context */
API cuDevicePrimaryCtxReset_v2(int d) { NEED; end_context(d >= 0 && d < DEVICES ? d : 0); return told(__func__, OK); }
API cuCtxSetCurrent(void *c) { NEED; current = c; return OK; }
API cuCtxGetCurrent(void **c) { NEED; *c = current; return OK; }
API cuCtxGetDevice(int *d) { NEED; if (!current) return INVALID_CONTEXT; *d = (int)((int *)current - contexts); return OK; }
API cuCtxSynchronize(void) { NEED; return waited(__func__, current ? OK : INVALID_CONTEXT); }
API cuGetErrorName(result e, const char **s) {
    switch (e) {
    case OK: *s = "CUDA_SUCCESS"; break;
    case INVALID_VALUE: *s = "CUDA_ERROR_INVALID_VALUE"; break;
    case NO_MEMORY: *s = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case NOT_INITIALIZED: *s = "CUDA_ERROR_NOT_INITIALIZED"; break;
    case NO_DEVICE: *s = "CUDA_ERROR_NO_DEVICE"; break;
    case INVALID_IMAGE: *s = "CUDA_ERROR_INVALID_IMAGE"; break;
    case NO_BINARY: *s = "CUDA_ERROR_NO_BINARY_FOR_GPU"; break;
    case NOT_FOUND: *s = "CUDA_ERROR_NOT_FOUND"; break;
    case ILLEGAL_ADDRESS: *s = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case NOT_SUPPORTED: *s = "CUDA_ERROR_NOT_SUPPORTED"; break;
    case 803: *s = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; break;
    default: *s = "CUDA_ERROR_UNKNOWN";
    }
    return OK;
}
API cuGetErrorString(result e, const char **s) { return cuGetErrorName(e, s); }

/* ---- memory ---------------------------------------------------------------------------------------------------------------------------------- */
API cuMemAlloc_v2(address *p, size_t n) {
    struct memory *m;
    NEED;
    if (!n) return INVALID_VALUE;
    if (!current) return INVALID_CONTEXT;
    const char *most = getenv("STANDIN_CUDA_MEMORY");
    if (n > 1ul << 30 || (most && n > strtoul(most, NULL, 10))) return told(__func__, NO_MEMORY);
    if ( !(m = malloc(sizeof *m))) return NO_MEMORY;
    if (!(m->at = (address)aligned_alloc(256, (n + 255) & ~255ul))) { free(m); return NO_MEMORY; }
    memset((void *)m->at, 0xA5, n);     /* device memory is not zeroed */
    m->n = n;
    pthread_mutex_lock(&big);
    m->next = memories; memories = m;
    pthread_mutex_unlock(&big);
    *p = m->at;
    return told(__func__, OK);
}
API cuMemFree_v2(address p) {
    result r = p ? INVALID_VALUE : OK;
    NEED;
    pthread_mutex_lock(&big);
    for (struct memory **at = &memories; *at; at = &(*at)->next) if ((*at)->at == p) {
        struct memory *m = *at;
        *at = m->next; free((void *)m->at); free(m); r = OK;
        break;
    }
    pthread_mutex_unlock(&big);
    return r;
}
static result copy(void *to, const void *from, size_t n, int ours) {    /* ours: bit 0 `to`, bit 1 `from` is device memory */
    if ((ours & 1 && !owned((address)to, n)) || (ours & 2 && !owned((address)from, n))) return INVALID_VALUE;
    memmove(to, from, n);
    return OK;
}
API cuMemAllocAsync(address *p, size_t n, void *s) { (void)s; return cuMemAlloc_v2(p, n); }
API cuMemFreeAsync(address p, void *s) { (void)s; return cuMemFree_v2(p); }
API cuMemGetInfo_v2(size_t *f, size_t *t) { NEED; *f = *t = 1ul << 30; return OK; }
API cuMemcpyHtoD_v2(address d, const void *s, size_t n) { NEED; return waited(__func__, copy((void *)d, s, n, 1)); }
API cuMemcpyDtoH_v2(void *d, address s, size_t n) { struct { void *d; address s; size_t n; } with = { d, s, n }; NEED; params = &with; return waited(__func__, copy(d, (void *)s, n, 2)); }
API cuMemcpyDtoD_v2(address d, address s, size_t n) { NEED; return waited(__func__, copy((void *)d, (void *)s, n, 3)); }
API cuMemcpy(address d, address s, size_t n) { NEED; return waited(__func__, copy((void *)d, (void *)s, n, 0)); }
API cuMemcpyPeer(address d, void *dc, address s, void *sc, size_t n) { NEED; (void)dc; (void)sc; return waited(__func__, copy((void *)d, (void *)s, n, 3)); }
/* CUDA_MEMCPY2D_v2 and CUDA_MEMCPY3D_v2, between linear memories; of the box the first layer */
struct rows { size_t from_x, from_y; unsigned from_kind; const char *from_host; address from; void *from_array; size_t from_pitch;
    size_t to_x, to_y; unsigned to_kind; char *to_host; address to; void *to_array; size_t to_pitch, width, height; };
struct box { size_t from_x, from_y, from_z, from_lod; unsigned from_kind; const char *from_host; address from; void *from_array, *none; size_t from_pitch, from_height;
    size_t to_x, to_y, to_z, to_lod; unsigned to_kind; char *to_host; address to; void *to_array, *none_2; size_t to_pitch, to_height, width, height, depth; };
static result copy_rows(const struct rows *c) {
    result r = OK;
    for (size_t y = 0; y < c->height && r == OK; y++)
        r = copy((c->to_kind == 1 ? c->to_host : (char *)c->to) + y * c->to_pitch, (c->from_kind == 1 ? c->from_host : (const char *)c->from) + y * c->from_pitch,
                 c->width, (c->to_kind == 2) | (c->from_kind == 2) << 1);
    return r;
}
API cuMemcpy2D_v2(const struct rows *c) { NEED; params = &c; return waited(__func__, copy_rows(c)); }
API cuMemcpy3D_v2(const struct box *b) {
    NEED; params = &b;
    struct rows c = { .from_kind = b->from_kind, .from_host = b->from_host, .from = b->from, .from_pitch = b->from_pitch,
        .to_kind = b->to_kind, .to_host = b->to_host, .to = b->to, .to_pitch = b->to_pitch, .width = b->width, .height = b->height };
    return waited(__func__, copy_rows(&c));
}
API cuMemcpyHtoDAsync_v2(address d, const void *s, size_t n, void *q) { NEED; (void)q; return copy((void *)d, s, n, 1); }
API cuMemcpyDtoHAsync_v2(void *d, address s, size_t n, void *q) { NEED; (void)q; return waited(__func__, copy(d, (void *)s, n, 2)); }
API cuMemcpyDtoDAsync_v2(address d, address s, size_t n, void *q) { NEED; (void)q; return copy((void *)d, (void *)s, n, 3); }
API cuMemcpyPeerAsync(address d, void *dc, address s, void *sc, size_t n, void *q) {
    NEED; (void)dc; (void)sc; (void)q;
    return copy((void *)d, (void *)s, n, 3);
}
API cuMemsetD8_v2(address d, unsigned char v, size_t n) { NEED; if (!owned(d, n)) return told(__func__, INVALID_VALUE); memset((void *)d, v, n); return told(__func__, OK); }
API cuMemsetD8Async(address d, unsigned char v, size_t n, void *q) { (void)q; return cuMemsetD8_v2(d, v, n); }
API cuMemHostAlloc(void **p, size_t n, unsigned f) { NEED; (void)f; return told(__func__, (*p = malloc(n)) ? OK : NO_MEMORY); }
API cuMemFreeHost(void *p) { NEED; free(p); return OK; }

/* ---- streams, events: everything is done when it is asked for ---------------------------------------------------------------------------------- */
API cuStreamCreate(struct stream **s, unsigned f) {
    struct { struct stream **s; unsigned f; } with = { s, f };
    NEED;
    if (!(*s = malloc(sizeof **s))) return NO_MEMORY;
    (*s)->id = __sync_add_and_fetch(&streams, 1);
    (*s)->in = current;
    params = &with;
    return told(__func__, OK);
}
API cuStreamDestroy_v2(struct stream *s) { NEED; free(s); return OK; }
API cuStreamSynchronize(void *s) { NEED; params = &s; return waited(__func__, OK); }
API cuStreamQuery(void *s) { NEED; params = &s; return waited(__func__, OK); }
API cuStreamQuery_ptsz(void *s) { NEED; params = &s; return waited(__func__, OK); }
API cuStreamWaitEvent(void *s, void *e, unsigned f) { void *p[2] = { s, e }; NEED; (void)f; params = p; return told(__func__, OK); }
API cuStreamIsCapturing(void *s, int *v) { NEED; (void)s; *v = 0; return OK; }
API cuEventCreate(struct event **e, unsigned f) { NEED; (void)f; return (*e = calloc(1, sizeof **e)) ? OK : NO_MEMORY; }
API cuEventDestroy_v2(struct event *e) { NEED; free(e); return OK; }
API cuEventRecord(struct event *e, void *s) { void *p[2] = { e, s }; NEED; e->at = now(); params = p; return told(__func__, OK); }
API cuEventQuery(struct event *e) { NEED; params = &e; return waited(__func__, OK); }
API cuEventSynchronize(struct event *e) { NEED; params = &e; return waited(__func__, OK); }
API cuEventElapsedTime(float *ms, struct event *a, struct event *b) { NEED; *ms = (float)(b->at - a->at) / 1e6f; return OK; }
API cuEventElapsedTime_v2(float *ms, struct event *a, struct event *b) { return cuEventElapsedTime(ms, a, b); }

/* ---- modules ------------------------------------------------------------------------------------------------------------------------------------ */
static result add(struct module *m, const char *name, size_t n) {
    struct function *f = calloc(1, sizeof *f + n + 1);
    if (!f || !n || n > 1 << 16) { free(f); return INVALID_IMAGE; }
    memcpy(f->name, name, n);
    f->next = m->functions; m->functions = f;
    SAY("entry %s", f->name);
    return OK;
}

static result add_ptx(struct module *m, const char *text) {
    const char *refused = getenv("STANDIN_CUDA_LOAD"), *target = strstr(text, ".target");
    if (!strstr(text, ".version") || !target) return INVALID_IMAGE;
    target += 7; target += strspn(target, " \t");
    if (refused && !strncmp(target, refused, strlen(refused))) return NO_BINARY;
    for (const char *s = text; (s = strstr(s, ".entry")); ) {
        s += 6; s += strspn(s, " \t\r\n");
        if (add(m, s, strcspn(s, " \t\r\n(")) != OK) return INVALID_IMAGE;
    }
    return OK;
}

/* A cubin's kernels are its sections .text.NAME; a known name is looked for as it stands in the section names. */
static void add_cubin(struct module *m, const uint8_t *at, size_t n) {
    char section[300];
    for (size_t i = 0; i < KERNELS; i++) {
        int len = snprintf(section, sizeof section, ".text.%s", kernels[i].name);
        if (memmem(at, n, section, (size_t)len + 1)) add(m, kernels[i].name, strlen(kernels[i].name));
    }
}

static uint64_t word(const uint8_t *p, size_t n) { uint64_t v = 0; memcpy(&v, p, n); return v; }

/* The header of a fatbin: magic u32, version u16, size u16, size of all entries u64; entries step by header and padded payload. */
static result add_fatbin(struct module *m, const uint8_t *at) {
    const uint8_t *end = at + word(at + 6, 2) + word(at + 8, 8);
    for (const uint8_t *e = at + word(at + 6, 2); e + 64 <= end; ) {
        uint64_t kind = word(e, 2), header = word(e + 4, 4), padded = word(e + 8, 8), flags = word(e + 40, 8), n = word(e + 16, 4);
        const uint8_t *payload = e + header;
        if (header < 64 || padded > (uint64_t)(end - payload)) return INVALID_IMAGE;
        if (flags & 0xa000) { m->any = 1; SAY("compressed image: every known kernel is taken to be in it"); }
        else if (kind == 1) {
            char *text = strndup((const char *)payload, padded);
            if (text) add_ptx(m, text);
            free(text);
        } else if (kind == 2) add_cubin(m, payload, n && n <= padded ? n : padded);
        e = payload + padded;
    }
    return m->functions || m->any ? OK : NO_BINARY;
}

API cuModuleLoadData(struct module **out, const void *image) {
    const uint8_t *at = image;
    struct module *m;
    result r;
    NEED;
    if (!at) return INVALID_VALUE;
    if (!(m = calloc(1, sizeof *m))) return NO_MEMORY;
    if (word(at, 4) == 0x466243b1) at = (const uint8_t *)(uintptr_t)word(at + 8, 8);    /* a wrapper: the fatbin's address */
    if (word(at, 4) == 0xba55ed50) r = add_fatbin(m, at);
    else if (!memcmp(at, "\x7f" "ELF", 4)) {
        add_cubin(m, at, word(at + 40, 8) + word(at + 58, 2) * word(at + 60, 2));       /* to the end of the section table */
        r = m->functions ? OK : NO_BINARY;
    } else r = add_ptx(m, (const char *)at);
    if (r == OK) *out = m;
    return told(__func__, r);
}
API cuModuleLoadDataEx(struct module **out, const void *i, unsigned n, void *o, void *v) {
    (void)n; (void)o; (void)v;
    return cuModuleLoadData(out, i);
}
API cuModuleLoadFatBinary(struct module **out, const void *i) { return cuModuleLoadData(out, i); }
API cuModuleLoad(struct module **out, const char *file) {
    FILE *f = fopen(file, "rb");
    char *data = f ? calloc(1, 64 << 20) : NULL;    /* stays: an image must outlive its module */
    NEED;
    if (!data || !fread(data, 1, (64 << 20) - 1, f)) { if (f) fclose(f); free(data); return told(__func__, f ? INVALID_IMAGE : 301); }
    fclose(f);
    return cuModuleLoadData(out, data);
}
API cuModuleUnload(struct module *m) { NEED; (void)m; return OK; }      /* functions stay: a late record may name one */
static struct function *find(struct module *m, const char *name) {
    for (struct function *f = m->functions; f; f = f->next) if (!strcmp(f->name, name)) return f;
    return NULL;
}
API cuModuleGetFunction(struct function **out, struct module *m, const char *name) {
    NEED;
    for (size_t i = 0; m->any && i < KERNELS; i++)
        if (!strcmp(kernels[i].name, name) && !find(m, name)) add(m, name, strlen(name));
    return told(__func__, (*out = find(m, name)) ? OK : NOT_FOUND);
}
API cuFuncGetAttribute(int *v, int a, void *f) { NEED; (void)f; *v = a == 0 ? 1024 : 0; return OK; }
API cuFuncSetAttribute(void *f, int a, int v) { NEED; (void)f; (void)a; (void)v; return OK; }

/* ---- launches ----------------------------------------------------------------------------------------------------------------------------------- */
struct node { struct node *next; struct function *f; unsigned grid[3], block[3], smem; void **args; uint64_t id; };
struct graph { struct node *first, *last; uint32_t id; };
static uint32_t graphs; static uint64_t nodes;

static const struct kernel *known(const char *name) {
    static const struct kernel many = { "standin_many_", k_nothing };       /* every name that begins so: a program with thousands of kernels */
    for (size_t i = 0; i < KERNELS; i++) if (!strcmp(kernels[i].name, name)) return &kernels[i];
    return strncmp(name, many.name, strlen(many.name)) ? NULL : &many;
}

static result carry_out(struct function *f, const struct graph *graph, const struct node *node, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned smem, struct stream *st, void **args, void **extra) {
    struct launch l = { f ? f->name : "", { gx, gy, gz }, { bx, by, bz }, smem, 0, 0, stream_number(st), 0, 0,
        graph ? graph->id : 0, node ? node->id : 0, 0 };
    const char *skip = getenv("STANDIN_CUDA_SKIP");
    result r = NOT_SUPPORTED;
    if (!f) return INVALID_HANDLE;
    if (!current) return INVALID_CONTEXT;
    if (extra || !gx || !gy || !gz || !bx || !by || !bz || (uint64_t)bx * by * bz > 1024) return INVALID_VALUE;
    if (skip && !strcmp(skip, f->name)) return OK;
    const struct kernel *k = known(f->name);
    if (k) {
        l.device = (uint32_t)((int *)current - contexts);
        l.start = now();
        l.context = context_number();
        if (!strcmp(refusal.kernel, f->name)) refusal.on = 1;
        if (fault.rc && !strcmp(fault.kernel, f->name)) { fault.on[here()].pending = 1; r = OK; }
        else r = k->run(args, (struct shape){ l.grid, l.block });
        l.end = now();
        if (l.end <= l.start) l.end = l.start + 1;
    }
    l.correlation = __sync_add_and_fetch(&launches, 1);
    SAY("launch %s -> %d", f->name, r);
    if (r == OK && watch) watch(&l);
    return r;
}
struct config { unsigned grid[3], block[3], smem; struct stream *st; };     /* CUlaunchConfig, its beginning */
static result counted(const char *function, struct function *f, const struct config *c, void **args, void **extra) {
    result r;
    if (calls) calls(0, function, NULL);
    r = fault.on[here()].told ? fault.rc : carry_out(f, NULL, NULL, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->smem, c->st, args, extra);
    if (calls) calls(1, function, &r);
    return r;
}
API cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned smem, struct stream *st, void **args, void **extra) {
    NEED;
    return counted(__func__, f, &(struct config){ { gx, gy, gz }, { bx, by, bz }, smem, st }, args, extra);
}
API cuLaunchKernelEx(const struct config *c, struct function *f, void **args, void **extra) { NEED; return counted(__func__, f, c, args, extra); }
API cuLaunchCooperativeKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned smem, struct stream *st, void **args) {
    NEED;
    return counted(__func__, f, &(struct config){ { gx, gy, gz }, { bx, by, bz }, smem, st }, args, NULL);
}

/* ---- graphs of kernels: one after the other, in the order in which they were added. Arguments are not copied: they must outlive the graph. -------- */
struct kernel_node { struct function *f; unsigned grid[3], block[3], smem; void **args, **extra; };     /* CUDA_KERNEL_NODE_PARAMS, its beginning */
API cuGraphCreate(struct graph **g, unsigned flags) {
    NEED; (void)flags;
    if (!(*g = calloc(1, sizeof **g))) return NO_MEMORY;
    (*g)->id = __sync_add_and_fetch(&graphs, 1);
    return OK;
}
API cuGraphAddKernelNode_v2(struct node **out, struct graph *g, const void *after, size_t n, const struct kernel_node *p) {
    struct node *m;
    NEED; (void)after; (void)n;
    if (!p->f || p->extra) return INVALID_VALUE;
    if (!(m = calloc(1, sizeof *m))) return NO_MEMORY;
    m->f = p->f; m->smem = p->smem; m->args = p->args; m->id = __sync_add_and_fetch(&nodes, 1);
    memcpy(m->grid, p->grid, sizeof m->grid); memcpy(m->block, p->block, sizeof m->block);
    if (g->last) g->last->next = m; else g->first = m;
    g->last = *out = m;
    return OK;
}
API cuGraphInstantiateWithFlags(struct graph **exec, struct graph *g, unsigned long long flags) { NEED; (void)flags; *exec = g; return told(__func__, OK); }
API cuGraphLaunch(struct graph *g, struct stream *st) {
    result r = OK;
    NEED;
    if (calls) calls(0, "cuGraphLaunch", NULL);
    for (struct node *m = g->first; m && r == OK; m = m->next)
        r = carry_out(m->f, g, m, m->grid[0], m->grid[1], m->grid[2], m->block[0], m->block[1], m->block[2], m->smem, st, m->args, NULL);
    if (calls) calls(1, "cuGraphLaunch", &r);
    return r;
}
API cuGraphExecDestroy(struct graph *g) { NEED; (void)g; return OK; }      /* a late record may name one */
API cuGraphDestroy(struct graph *g) { NEED; (void)g; return OK; }

/* ---- libraries: modules of no context, as CUDA 12's run-time library loads them, each kernel when it is first asked for ----------------------------- */
API cuLibraryLoadData(struct module **l, const void *code, void *a, void *b, unsigned n, void *c, void *d, unsigned m) {
    (void)a; (void)b; (void)n; (void)c; (void)d; (void)m;
    return cuModuleLoadData(l, code);
}
API cuLibraryGetKernel(struct function **k, struct module *l, const char *name) { return cuModuleGetFunction(k, l, name); }
API cuKernelGetFunction(struct function **f, struct function *k) { NEED; *f = k; return told(__func__, OK); }
/* by these code is loaded when it is first used, or linked */
API cuFuncLoad(struct function *f) { NEED; (void)f; return told(__func__, OK); }
API cuLibraryGetModule(struct module **m, struct module *l) { NEED; *m = l; return told(__func__, OK); }
API cuLinkAddData_v2(void *link) { NEED; (void)link; return told(__func__, OK); }
API cuArrayCreate_v2(void **array, const void *how) { NEED; (void)how; *array = NULL; return told(__func__, OK); }
API cuLibraryUnload(struct module *l) { NEED; (void)l; return OK; }

/* ---- lookup by name ------------------------------------------------------------------------------------------------------------------------------ */
API cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *status) {
    char v2[128];
    void *me = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    (void)version; (void)flags;
    snprintf(v2, sizeof v2, "%s_v2", name);
    if (!(*fn = dlsym(me, v2))) *fn = dlsym(me, name);
    SAY("cuGetProcAddress %s -> %s", name, *fn ? "found" : "missing");
    if (status) *status = *fn ? 0 : 1;
    return *fn ? OK : NOT_FOUND;
}
API cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags) { return cuGetProcAddress_v2(name, fn, version, flags, NULL); }
API cuGetExportTable(const void **t, const void *id) {   /* libcudart's private door: not offered */
    const uint8_t *u = id;
    (void)u;
    SAY("cuGetExportTable %02x%02x%02x%02x..", u[0], u[1], u[2], u[3]);
    *t = NULL;
    return NOT_FOUND;
}

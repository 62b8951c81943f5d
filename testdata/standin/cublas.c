/* Stand-in libcublas (-DBLAS) and libcurand, one source: just what candle and cudarc call to come up and to do an f32 product. The product
 * is computed by a kernel of the stand-in driver, launched through it, so that the launch is recorded like any other.
 *
 * Build: cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden -DBLAS -Wl,-soname,libcublas.so.13 cublas.c -o libcublas.so.13 -L. -l:libcuda.so.1
 *        cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden -Wl,-soname,libcurand.so.10 cublas.c -o libcurand.so.10 */
#include <stdint.h>
#include <stdlib.h>

#define API __attribute__((visibility("default"))) int

#ifdef BLAS
enum { OK, NOT_INITIALIZED, ALLOC_FAILED = 3, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

int cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

struct handle { void *stream, *kernel; int pointer_mode; };

API cublasCreate_v2(struct handle **h) {
    static const char ptx[] = ".version 7.0\n.target sm_75\n.visible .entry standin_sgemm(";
    void *module;
    if (!(*h = calloc(1, sizeof **h))) return ALLOC_FAILED;
    if (cuModuleLoadData(&module, ptx) || cuModuleGetFunction(&(*h)->kernel, module, "standin_sgemm")) return NOT_INITIALIZED;
    return OK;
}
API cublasDestroy_v2(struct handle *h) { free(h); return OK; }
API cublasSetStream_v2(struct handle *h, void *s) { h->stream = s; return OK; }
API cublasGetPointerMode_v2(struct handle *h, int *m) { *m = h->pointer_mode; return OK; }
API cublasSetPointerMode_v2(struct handle *h, int m) { h->pointer_mode = m; return OK; }
API cublasGetVersion_v2(struct handle *h, int *v) { (void)h; *v = 130000; return OK; }
API cublasGemmStridedBatchedEx(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha,
        const void *a, int at, int lda, long long sa, const void *b, int bt, int ldb, long long sb,
        const void *beta, void *c, int ct, int ldc, long long sc, int batch, int compute, int algo) {
    float al = *(const float *)alpha, be = *(const float *)beta;
    void *args[] = { &ta, &tb, &m, &n, &k, &al, &a, &lda, &sa, &b, &ldb, &sb, &be, &c, &ldc, &sc };
    (void)compute; (void)algo;
    if (at || bt || ct) return NOT_SUPPORTED;       /* CUDA_R_32F is 0 */
    if (m <= 0 || n <= 0 || batch <= 0) return OK;
    return cuLaunchKernel(h->kernel, (unsigned)(m + 31) / 32, (unsigned)(n + 31) / 32, (unsigned)batch, 32, 32, 1, 0, h->stream, args, 0)
           ? EXECUTION_FAILED : OK;
}
API cublasDgemmStridedBatched(void) { return NOT_SUPPORTED; }
#else
API curandCreateGenerator(void **g, int t) { (void)t; return (*g = calloc(1, 8)) ? 0 : 102; }
API curandDestroyGenerator(void *g) { free(g); return 0; }
API curandSetStream(void *g, void *s) { (void)g; (void)s; return 0; }
API curandSetPseudoRandomGeneratorSeed(void *g, unsigned long long s) { (void)g; (void)s; return 0; }
#endif

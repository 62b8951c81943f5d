/* Stand-in libcupti: hands the launches that the stand-in libcuda.so.1 really carried out to its client, in the buffers and the record
 * layout of the real one.
 *
 *   STANDIN_CUPTI_VERSION=130500  what cuptiGetVersion says; picks the size of a record
 *   STANDIN_CUPTI_ENABLE=35       what cuptiActivityEnable answers
 *   STANDIN_CUPTI_DROP=1          drop every record, and count it
 *   STANDIN_CUPTI_LOSE=name       drop that kernel's records, and tell nobody (CUPTI 12.4 update 1 lost cuBLAS kernels so)
 *   STANDIN_CUPTI_SUBSCRIBE=39    what cuptiSubscribe answers
 *   STANDIN_CUPTI_UNTIMED=name    that kernel's times could not be collected: 0
 *   STANDIN_CUPTI_NOT_INITIALIZED=part   cuptiSubscribe answers 15 in a CUPTI whose path holds that, as one that is newer than the driver
 *   STANDIN_CUPTI_FLUSH=7         what a forced flush, as the probe does one at the end, answers, and hands nothing over
 *   STANDIN_CUPTI_UNFINISHED=1    hand records over without an end, as a forced flush does with kernels that still run
 *
 * Build: cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden -pthread -Wl,-soname,libcupti.so.13 cupti.c -o libcupti.so.13 -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default"))) int
enum {
    OK, INVALID_PARAMETER, INVALID_OPERATION = 7, MAX_LIMIT_REACHED = 12, NOT_INITIALIZED = 15, INVALID_KIND = 21,
    INSUFFICIENT_PRIVILEGES = 35, MULTIPLE_SUBSCRIBERS = 39
};
struct launch { const char *name; uint32_t grid[3], block[3], smem; uint64_t start, end; uint32_t stream, correlation, device, graph; uint64_t node; uint32_t context; };

static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint8_t *buffer;
static size_t capacity, used, dropped;
static int enabled, drop, unfinished, finalized;
static const char *lose, *untimed;
static uint32_t kind, version = 130500;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Sizes of the newest kernel record by release, measured from the headers. */
static size_t record_size(void) {
    uint32_t v = version;
    return v < 18 ? 176 : v < 100 ? 208 : v < 130100 ? 216 : v < 130300 ? 224 : v < 130400 ? 232 : 248;
}

static void hand_over(void) {           /* mutex held; the client calls back GetNextRecord and GetNumDroppedRecords only */
    uint8_t *b = buffer;
    size_t c = capacity, u = used;
    buffer = NULL; capacity = used = 0;
    if (b) complete(NULL, 0, b, c, u);
}

#define PUT(offset, T, v) do { T t_ = (T)(v); memcpy(r + (offset), &t_, sizeof t_); } while (0)
static void on_launch(const struct launch *l) {
    size_t z = record_size(), max = 0;
    uint8_t *r;
    pthread_mutex_lock(&mutex);
    if (!enabled || (lose && !strcmp(lose, l->name))) goto out;
    if (buffer && used + z > capacity) hand_over();
    if (!buffer && !drop) request(&buffer, &capacity, &max);
    if (!buffer || capacity < z) { dropped++; goto out; }
    r = buffer + used;
    used += z;
    memset(r, 0, z);
    PUT(0, uint32_t, kind);
    if (!untimed || strcmp(untimed, l->name)) { PUT(16, uint64_t, l->start); PUT(24, uint64_t, unfinished ? 0 : l->end); }
    PUT(40, uint32_t, l->device); PUT(44, uint32_t, l->context); PUT(48, uint32_t, l->stream);
    memcpy(r + 52, l->grid, 12); memcpy(r + 64, l->block, 12);
    PUT(80, int32_t, l->smem);
    PUT(92, uint32_t, l->correlation); PUT(96, int64_t, l->correlation);
    PUT(104, const char *, l->name);
    PUT(144, uint64_t, l->node); PUT(156, uint32_t, l->graph);      /* graphNodeId and graphId: 0 outside of a graph */
out:
    pthread_mutex_unlock(&mutex);
}

/* ---- callbacks: cupti_driver_cbid.h ---- */
static const struct { const char *function; uint32_t id; } known_calls[] = {
    { "cuLaunchKernel", 307 }, { "cuGraphLaunch", 514 }, { "cuCtxSynchronize", 17 }, { "cuEventQuery", 120 }, { "cuEventSynchronize", 121 },
    { "cuStreamQuery", 125 }, { "cuStreamQuery_ptsz", 439 }, { "cuMemcpyDtoD_v2", 280 }, { "cuMemcpyHtoD_v2", 276 }, { "cuMemcpy", 305 }, { "cuMemcpyPeer", 318 }, { "cuStreamSynchronize", 126 }, { "cuMemcpyDtoH_v2", 278 }, { "cuMemcpyDtoHAsync_v2", 279 },
    { "cuMemAlloc_v2", 243 }, { "cuModuleLoadData", 19 }, { "cuCtxDestroy_v2", 322 }, { "cuDevicePrimaryCtxReset_v2", 545 }, { "cuLaunchKernelEx", 652 }, { "cuLaunchCooperativeKernel", 477 } };
enum { KNOWN_CALLS = sizeof known_calls / sizeof *known_calls };
static uint8_t wanted_calls[1024];
struct call_data {                      /* as CUpti_CallbackData begins and ends */
    uint32_t site; const char *function; const void *params; const void *answer; const char *symbol; void *context;
    uint32_t context_id; uint64_t *correlation_data; uint32_t correlation;
};
static void (*callback)(void *, uint32_t, uint32_t, const void *);
static void *callback_user;
static uint32_t (*number)(void **context), (*context_number)(void);

static void on_call(int site, const char *function, const int *answer) {
    struct call_data d = { .site = (uint32_t)site, .function = function, .answer = answer };
    d.correlation = number(&d.context);
    if (context_number) d.context_id = context_number();
    for (size_t i = 0; i < KNOWN_CALLS; i++)
        if (!strcmp(known_calls[i].function, function) && wanted_calls[known_calls[i].id]) callback(callback_user, 1, known_calls[i].id, &d);
}
API cuptiSubscribe(void **subscriber, void (*f)(void *, uint32_t, uint32_t, const void *), void *user) {
    const char *s = getenv("STANDIN_CUPTI_SUBSCRIBE");
    if (s && atoi(s)) return atoi(s);
#ifndef _WIN32
    const char *newer = getenv("STANDIN_CUPTI_NOT_INITIALIZED");
    Dl_info me;
    if (newer && dladdr(known_calls, &me) && strstr(me.dli_fname, newer)) return NOT_INITIALIZED;
#endif
    if (!f) return INVALID_PARAMETER;
    if (callback) return MULTIPLE_SUBSCRIBERS;
    callback = f; callback_user = user; *subscriber = &callback;
    return OK;
}
API cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t id) {
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*calls)(void (*)(int, const char *, const int *)) = NULL;
    if (subscriber != &callback || domain != 1) return INVALID_PARAMETER;
    if (id >= sizeof wanted_calls) return INVALID_PARAMETER;
    wanted_calls[id] = (uint8_t)enable;
    if (cuda) { *(void **)&calls = dlsym(cuda, "standin_cuda_calls"); *(void **)&number = dlsym(cuda, "standin_cuda_number"); *(void **)&context_number = dlsym(cuda, "standin_cuda_context"); }
    if (!calls || !number) return NOT_INITIALIZED;
    calls(on_call);
    return OK;
}

API cuptiGetVersion(uint32_t *v) {
    const char *s = getenv("STANDIN_CUPTI_VERSION");
    if (s) version = (uint32_t)strtoul(s, NULL, 10);
    *v = version;
    return OK;
}
API cuptiGetResultString(int rc, const char **s) {
    *s = rc == OK ? "CUPTI_SUCCESS" : rc == NOT_INITIALIZED ? "CUPTI_ERROR_NOT_INITIALIZED"
       : rc == INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
       : rc == MULTIPLE_SUBSCRIBERS ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
    return OK;
}
API cuptiActivityRegisterCallbacks(void (*a)(uint8_t **, size_t *, size_t *), void (*b)(void *, uint32_t, uint8_t *, size_t, size_t)) {
    if (!a || !b) return INVALID_PARAMETER;
    request = a; complete = b;
    return OK;
}
API cuptiActivityEnable(uint32_t k) {
    const char *s = getenv("STANDIN_CUPTI_ENABLE");
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*observe)(void (*)(const struct launch *)) = NULL;
    if (cuda) *(void **)&observe = dlsym(cuda, "standin_cuda_observe");
    if (s && atoi(s)) return atoi(s);
    if (!observe) return NOT_INITIALIZED;
    if (k != 3 && k != 10) return INVALID_KIND;
    drop = getenv("STANDIN_CUPTI_DROP") != NULL;
    lose = getenv("STANDIN_CUPTI_LOSE"); untimed = getenv("STANDIN_CUPTI_UNTIMED");
    unfinished = getenv("STANDIN_CUPTI_UNFINISHED") != NULL;
    kind = k; enabled = 1;
    observe(on_launch);
    return OK;
}
API cuptiActivityDisable(uint32_t k) { (void)k; enabled = 0; return OK; }
API cuptiActivityFlushAll(uint32_t f) {
    const char *refused = getenv("STANDIN_CUPTI_FLUSH");
    if (f && refused) return atoi(refused);
    if (!complete) return INVALID_OPERATION;
    if (finalized) return NOT_INITIALIZED;
    pthread_mutex_lock(&mutex);
    hand_over();
    pthread_mutex_unlock(&mutex);
    return OK;
}
API cuptiActivityFlushPeriod(uint32_t ms) { (void)ms; return OK; }
API cuptiActivityGetNextRecord(uint8_t *b, size_t valid, void **rec) {
    uint8_t *n = *rec ? (uint8_t *)*rec + record_size() : b;
    if (!b || n + record_size() > b + valid) return MAX_LIMIT_REACHED;
    *rec = n;
    return OK;
}
API cuptiActivityGetNumDroppedRecords(void *c, uint32_t s, size_t *n) { (void)c; (void)s; *n = dropped; dropped = 0; return OK; }
API cuptiFinalize(void) { enabled = 0; finalized = 1; memset(wanted_calls, 0, sizeof wanted_calls); return OK; }

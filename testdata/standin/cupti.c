/* Stand-in libcupti: hands the launches that the stand-in libcuda.so.1 really carried out to its client, in the buffers and the record
 * layout of the real one.
 *
 *   STANDIN_CUPTI_VERSION=130500  what cuptiGetVersion says; picks the size of a record
 *   STANDIN_CUPTI_ENABLE=35       what cuptiActivityEnable answers
 *   STANDIN_CUPTI_DROP=1          drop every record, and count it
 *   STANDIN_CUPTI_LOSE=name       drop that kernel's records, and tell nobody (CUPTI 12.4 update 1 lost cuBLAS kernels so)
 *   STANDIN_CUPTI_SUBSCRIBE=39    what cuptiSubscribe and cuptiSubscribe_v2 answer
 *   STANDIN_CUPTI_UNTIMED=name    that kernel's times could not be collected: 0
 *   STANDIN_CUPTI_NOT_INITIALIZED=part   cuptiSubscribe answers 15 in a CUPTI whose path holds that, as one that is newer than the driver
 *   STANDIN_CUPTI_FLUSH=7         what a forced flush, as the probe does one at the end, answers, and hands nothing over
 *   STANDIN_CUPTI_COARSE=1        a kernel ends when it starts: a clock that is too coarse for it
 *   STANDIN_CUPTI_MUTE=cuLaunchKernel    calls of that function are not told: the run-time library's may not be
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

/* One client: of version 1 of the functions clients[0], of version 2 each subscriber. */
struct client {
    void (*request)(uint8_t **, size_t *, size_t *);
    void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
    void (*request_2)(uint8_t **, size_t *, size_t *, void *);
    void (*complete_2)(uint8_t *, size_t, size_t, void *);
    uint8_t *buffer;
    size_t capacity, used, dropped;
    int kernels, calls, waits;      /* which kinds are enabled: 3 or 10, 4, and 38 */
    void (*callback)(void *, uint32_t, uint32_t, const void *);
    void *user;
    uint8_t wanted[1024];
};
enum { CLIENTS = 4 };
static struct client clients[CLIENTS];
static int way;                     /* 1 or 2: the version of the functions that were called first; the others answer 39 from then on */
static int many;                    /* the first subscriber allows others */
static int drop, unfinished, finalized, all_waits = 1;
static const char *lose, *untimed;
static uint32_t version = 130500;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Sizes of the newest kernel record by release, measured from the headers. */
static size_t record_size(void) {
    uint32_t v = version;
    return v < 18 ? 176 : v < 100 ? 208 : v < 130100 ? 216 : v < 130300 ? 224 : v < 130400 ? 232 : 248;
}

static int in_way(int v) { if (!way) way = v; return way == v; }

static void hand_over(struct client *c) {       /* mutex held; the client calls back GetNextRecord and GetNumDroppedRecords only */
    uint8_t *b = c->buffer;
    size_t n = c->capacity, u = c->used;
    c->buffer = NULL; c->capacity = c->used = 0;
    if (b && c->complete_2) c->complete_2(b, n, u, NULL);
    else if (b) c->complete(NULL, 0, b, n, u);
}

/* room for a record in a client's buffer */
static uint8_t *room(struct client *c) {
    size_t z = record_size(), max = 0;
    if (!c->complete && !c->complete_2) return NULL;
    if (c->buffer && c->used + z > c->capacity) hand_over(c);
    if (!c->buffer && !drop && c->request_2) c->request_2(&c->buffer, &c->capacity, &max, NULL);
    else if (!c->buffer && !drop) c->request(&c->buffer, &c->capacity, &max);
    if (!c->buffer || c->capacity < z) { c->dropped++; return NULL; }
    c->used += z;
    return memset(c->buffer + c->used - z, 0, z);
}

static int old_driver(void) {
    const char *s = getenv("STANDIN_CUDA_VERSION");     /* what the stand-in driver's cuDriverGetVersion answers */
    return !s || atoi(s) < 13030;
}

#define PUT(offset, T, v) do { T t_ = (T)(v); memcpy(r + (offset), &t_, sizeof t_); } while (0)
static void on_launch(const struct launch *l) {
    uint8_t *r;
    pthread_mutex_lock(&mutex);
    for (struct client *c = clients; c < clients + CLIENTS; c++) {
        if (!c->kernels || (many && old_driver()) || (lose && !strcmp(lose, l->name)) || !(r = room(c))) continue;
        PUT(0, uint32_t, c->kernels);
        if (!untimed || strcmp(untimed, l->name)) { PUT(16, uint64_t, l->start); PUT(24, uint64_t, unfinished ? 0 : getenv("STANDIN_CUPTI_COARSE") ? l->start : l->end); }
        PUT(40, uint32_t, l->device); PUT(44, uint32_t, l->context); PUT(48, uint32_t, l->stream);
        memcpy(r + 52, l->grid, 12); memcpy(r + 64, l->block, 12);
        PUT(80, int32_t, l->smem);
        PUT(92, uint32_t, l->correlation); PUT(96, int64_t, l->correlation);
        PUT(104, const char *, l->name);
        PUT(144, uint64_t, l->node); PUT(156, uint32_t, l->graph);      /* graphNodeId and graphId: 0 outside of a graph */
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- callbacks: cupti_driver_cbid.h ---- */
static const struct { const char *function; uint32_t id; } known_calls[] = {
    { "cuDeviceGetCount", 4 }, { "cuDeviceComputeCapability", 6 }, { "cuLaunchKernel", 307 }, { "cuGraphLaunch", 514 }, { "cuCtxSynchronize", 17 }, { "cuEventRecord", 119 }, { "cuStreamCreate", 124 }, { "cuStreamWaitEvent", 295 }, { "cuEventQuery", 120 }, { "cuEventSynchronize", 121 },
    { "cuStreamQuery", 125 }, { "cuStreamQuery_ptsz", 439 }, { "cuMemcpyDtoD_v2", 280 }, { "cuMemcpy2D_v2", 287 }, { "cuMemcpy3D_v2", 290 }, { "cuMemcpyHtoD_v2", 276 }, { "cuMemcpy", 305 }, { "cuMemcpyPeer", 318 }, { "cuStreamSynchronize", 126 }, { "cuMemcpyDtoH_v2", 278 }, { "cuMemcpyDtoHAsync_v2", 279 },
    { "cuMemAlloc_v2", 243 }, { "cuCtxCreate_v2", 235 }, { "cuDevicePrimaryCtxRetain", 386 }, { "cuModuleGetFunction", 23 }, { "cuModuleLoad", 18 }, { "cuModuleLoadData", 19 }, { "cuMemHostAlloc", 39 }, { "cuMemsetD8_v2", 249 }, { "cuCtxDestroy_v2", 322 }, { "cuDevicePrimaryCtxReset_v2", 545 }, { "cuLaunchKernelEx", 652 }, { "cuLaunchCooperativeKernel", 477 },
    { "cuDeviceGet", 3 }, { "cuGraphInstantiateWithFlags", 643 }, { "cuKernelGetFunction", 683 }, { "cuFuncLoad", 742 }, { "cuLibraryGetModule", 682 }, { "cuLinkAddData_v2", 382 }, { "cuArrayCreate_v2", 272 } };
enum { KNOWN_CALLS = sizeof known_calls / sizeof *known_calls };
struct call_data {                      /* as CUpti_CallbackData begins and ends */
    uint32_t site; const char *function; const void *params; const void *answer; const char *symbol; void *context;
    uint32_t context_id; uint64_t *correlation_data; uint32_t correlation;
};
static uint32_t (*number)(void **context, int site), (*context_number)(void), (*stream_number)(void *, uint8_t);
static const void *(*params)(void);
static int (*holds)(void *, void *);

static void on_call(int site, const char *function, const int *answer) {
    struct call_data d = { .site = (uint32_t)site, .function = function, .answer = answer };
    uint8_t *r; size_t i = 0; const char *mute = getenv("STANDIN_CUPTI_MUTE");
    if (mute && !strcmp(mute, function)) return;
    d.correlation = number(&d.context, site);
    if (params) d.params = params();
    if (context_number) d.context_id = context_number();
    while (i < KNOWN_CALLS && strcmp(known_calls[i].function, function)) i++;
    if (i == KNOWN_CALLS) return;
    for (struct client *c = clients; c < clients + CLIENTS; c++) {
        pthread_mutex_lock(&mutex);
        if (c->calls && site == 1 && (r = room(c))) {
            PUT(0, uint32_t, 4); PUT(4, uint32_t, known_calls[i].id); PUT(32, uint32_t, d.correlation); PUT(36, int, *answer);
        }
        int of_stream = !strcmp(function, "cuStreamSynchronize");
        if (c->waits && site == 1 && (of_stream || !strcmp(function, "cuCtxSynchronize")) && (!*answer || all_waits) && (r = room(c))) {
            PUT(0, uint32_t, 38); PUT(4, uint32_t, of_stream ? 3 : 4); PUT(24, uint32_t, d.correlation); PUT(28, uint32_t, d.context_id);
            PUT(32, uint32_t, of_stream ? stream_number(*(void *const *)d.params, 0) : UINT32_MAX);
        }
        pthread_mutex_unlock(&mutex);
        if (c->callback && c->wanted[known_calls[i].id]) c->callback(c->user, 1, known_calls[i].id, &d);
    }
}

/* the driver calls on_call from now on */
static int listen_to_calls(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*calls)(void (*)(int, const char *, const int *)) = NULL;
    if (cuda) { *(void **)&calls = dlsym(cuda, "standin_cuda_calls"); *(void **)&number = dlsym(cuda, "standin_cuda_number"); *(void **)&context_number = dlsym(cuda, "standin_cuda_context");
        *(void **)&params = dlsym(cuda, "standin_cuda_params"); *(void **)&stream_number = dlsym(cuda, "standin_cuda_stream");
        *(void **)&holds = dlsym(cuda, "standin_cuda_holds"); }
    if (!calls || !number) return NOT_INITIALIZED;
    calls(on_call);
    return OK;
}

static int subscribes(void **subscriber, void (*f)(void *, uint32_t, uint32_t, const void *), void *user, int v) {
    const char *s = getenv("STANDIN_CUPTI_SUBSCRIBE");
    struct client *c = clients;
    if (s && atoi(s)) return atoi(s);
#ifndef _WIN32
    const char *newer = getenv("STANDIN_CUPTI_NOT_INITIALIZED");
    Dl_info me;
    if (newer && dladdr(known_calls, &me) && strstr(me.dli_fname, newer)) return NOT_INITIALIZED;
#endif
    if (!f) return INVALID_PARAMETER;
    if (!in_way(v)) return MULTIPLE_SUBSCRIBERS;
    while (v == 2 && many && c < clients + CLIENTS - 1 && c->callback) c++;
    if (c->callback) return MULTIPLE_SUBSCRIBERS;
    c->callback = f; c->user = user; *subscriber = c;
    return OK;
}
API cuptiSubscribe(void **subscriber, void (*f)(void *, uint32_t, uint32_t, const void *), void *user) { return subscribes(subscriber, f, user, 1); }
struct subscription { size_t size; const char *name; char *before; size_t before_size; uint8_t many, padding[7]; };
/* More than one: from 13.3 on, and where the first one allowed it. A driver older than r610 accepts one, too, and records nothing for it (see on_launch), as
 * CUPTI 13.3 did on driver 580.159.04 (CUDA 13.0). */
API cuptiSubscribe_v2(void **subscriber, void (*f)(void *, uint32_t, uint32_t, const void *), void *user, struct subscription *s) {
    if (!s || s->size != sizeof *s) return INVALID_PARAMETER;
    if (s->many && version < 130300) return MULTIPLE_SUBSCRIBERS;
    if (clients[0].callback && many != s->many) return MULTIPLE_SUBSCRIBERS;
    many = s->many;
    return subscribes(subscriber, f, user, 2);
}
API cuptiUnsubscribe(void *subscriber) { struct client *c = subscriber; c->callback = NULL; memset(c->wanted, 0, sizeof c->wanted); return OK; }
API cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t id) {
    struct client *c = subscriber;
    if (c < clients || c >= clients + CLIENTS || domain != 1 || id >= sizeof c->wanted) return INVALID_PARAMETER;
    c->wanted[id] = (uint8_t)enable;
    return listen_to_calls();
}
API cuptiGetCallbackName(uint32_t domain, uint32_t id, const char **name) {
    for (size_t i = 0; domain == 1 && i < KNOWN_CALLS; i++) if (known_calls[i].id == id) { *name = known_calls[i].function; return OK; }
    return INVALID_PARAMETER;
}
API cuptiGetContextId(void *context, uint32_t *id) {
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); uint32_t (*of)(void *);
    if (!cuda || !(*(void **)&of = dlsym(cuda, "standin_cuda_context_of"))) return NOT_INITIALIZED;
    *id = of(context);
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
       : rc == MULTIPLE_SUBSCRIBERS ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
       : rc == 33 ? "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED" : rc == 40 ? "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES"
       : rc == 41 ? "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED" : rc == 43 ? "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED"
       : rc == 45 ? "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
    return OK;
}
API cuptiActivityRegisterCallbacks(void (*a)(uint8_t **, size_t *, size_t *), void (*b)(void *, uint32_t, uint8_t *, size_t, size_t)) {
    if (!a || !b) return INVALID_PARAMETER;
    if (!in_way(1)) return MULTIPLE_SUBSCRIBERS;
    clients->request = a; clients->complete = b;
    return OK;
}
API cuptiActivityRegisterCallbacks_v2(void *subscriber, void (*a)(uint8_t **, size_t *, size_t *, void *), void (*b)(uint8_t *, size_t, size_t, void *)) {
    struct client *c = subscriber;
    if (!c || !a || !b) return INVALID_PARAMETER;
    if (!in_way(2)) return MULTIPLE_SUBSCRIBERS;
    c->request_2 = a; c->complete_2 = b;
    return OK;
}
static int enables(struct client *c, uint32_t k) {
    const char *s = getenv("STANDIN_CUPTI_ENABLE");
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*observe)(void (*)(const struct launch *)) = NULL;
    if (cuda) *(void **)&observe = dlsym(cuda, "standin_cuda_observe");
    if (s && atoi(s)) return atoi(s);
    if (!observe) return NOT_INITIALIZED;
    if (k == 4) { c->calls = 1; return listen_to_calls(); }
    if (k == 38) { c->waits = 1; return listen_to_calls(); }
    if (k != 3 && k != 10) return INVALID_KIND;
    drop = getenv("STANDIN_CUPTI_DROP") != NULL;
    lose = getenv("STANDIN_CUPTI_LOSE"); untimed = getenv("STANDIN_CUPTI_UNTIMED");
    unfinished = getenv("STANDIN_CUPTI_UNFINISHED") != NULL;
    c->kernels = (int)k;
    observe(on_launch);
    return OK;
}
API cuptiActivityEnable(uint32_t k) { return in_way(1) ? enables(clients, k) : MULTIPLE_SUBSCRIBERS; }
API cuptiActivityEnable_v2(void *subscriber, uint32_t k, void *config) { (void)config; return in_way(2) ? enables(subscriber, k) : MULTIPLE_SUBSCRIBERS; }
static int disables(struct client *c, uint32_t k) { if (k == 4) c->calls = 0; else c->kernels = 0; return OK; }
API cuptiActivityDisable(uint32_t k) { return in_way(1) ? disables(clients, k) : MULTIPLE_SUBSCRIBERS; }
API cuptiActivityDisable_v2(void *subscriber, uint32_t k, void *config) { (void)config; return disables(subscriber, k); }
API cuptiActivityFlushAll(uint32_t f) {
    const char *refused = getenv("STANDIN_CUPTI_FLUSH");
    int any = 0;
    if (f && refused) return atoi(refused);
    for (struct client *c = clients; c < clients + CLIENTS; c++) any += c->complete || c->complete_2;
    if (!any) return INVALID_OPERATION;
    if (finalized) return OK;       /* as CUPTI 13.0 on an H100 */
    pthread_mutex_lock(&mutex);
    for (struct client *c = clients; c < clients + CLIENTS; c++) hand_over(c);
    pthread_mutex_unlock(&mutex);
    return OK;
}
API cuptiGetStreamIdEx(void *context, void *stream, uint8_t of_thread, uint32_t *id) {
    if (!stream_number || !holds) return NOT_INITIALIZED;
    if (!holds(context, stream)) return 1;
    *id = stream_number(stream, of_thread);
    return OK;
}
API cuptiActivityEnableAllSyncRecords(uint8_t on) { all_waits = on; return OK; }
API cuptiActivityFlushPeriod(uint32_t ms) { (void)ms; return OK; }
API cuptiActivityGetNextRecord(uint8_t *b, size_t valid, void **rec) {
    uint8_t *n = *rec ? (uint8_t *)*rec + record_size() : b;
    if (!b || n + record_size() > b + valid) return MAX_LIMIT_REACHED;
    *rec = n;
    return OK;
}
static int drops(struct client *c, size_t *n) { *n = c->dropped; c->dropped = 0; return OK; }
API cuptiActivityGetNumDroppedRecords(void *c, uint32_t s, size_t *n) { (void)c; (void)s; return in_way(1) ? drops(clients, n) : MULTIPLE_SUBSCRIBERS; }
API cuptiActivityGetNumDroppedRecords_v2(void *subscriber, void *c, uint32_t s, size_t *n) { (void)c; (void)s; return drops(subscriber, n); }
/* with more than one subscriber it does nothing */
API cuptiFinalize(void) {
    if (clients[1].callback) return OK;
    finalized = 1;
    for (struct client *c = clients; c < clients + CLIENTS; c++) { c->kernels = c->calls = c->waits = 0; memset(c->wanted, 0, sizeof c->wanted); }
    return OK;
}

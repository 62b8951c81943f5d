/* gpubuild's probe: the CUDA driver loads it into a process at cuInit, because CUDA_INJECTION64_PATH names it, and it writes CUPTI's
 * kernel-activity records down as JSON lines. It needs no CUDA header: it reads only the beginning of a kernel record, which has kept
 * its layout from CUPTI 11.7 to 13.5 (offsets below), and steps from record to record with CUPTI's own function. What differs between
 * Linux and Windows is in os_linux.h and os_windows.h.
 *
 *   GPUBUILD_PROBE_DIR    directory for the records, one file a process: see name_records; unset: the probe does nothing
 *   GPUBUILD_PROBE_CUPTI  libcupti to load; unset: the usual names
 *   GPUBUILD_PROBE_UNTIL_PROVED   set: gpubuild waits for a proof while the program runs
 *
 * It never changes what the program prints, answers or does: errno is kept, its thread takes no signal, its file has a high number and
 * is checked before each write (a daemon closes files that it does not know), and everything that fails only ends the recording.
 * A program's thread may have a small stack: what is large is static, and used once or under the lock.
 * Memory is bounded: the first DETAIL launches are written one by one, later ones summed up per name and buffer. */
#ifdef _WIN32
#include "os_windows.h"
#else
#include "os_linux.h"
#endif

#include "lines.h"

enum { KIND_KERNEL = 3, KIND_DRIVER = 4, KIND_CONCURRENT_KERNEL = 10, KIND_SYNCHRONIZATION = 38, FLUSH_FORCED = 1, OK = 0, MAX_LIMIT_REACHED = 12, MULTIPLE_SUBSCRIBERS = 39 };
enum {
    MANY_SUBSCRIBERS = 130300,  /* the first CUPTI with more than one subscriber (documentation 13.5, 2.4) */
    MANY_DRIVER = 13030,        /* and r610's version: on an older driver (580.159 was tried) it accepts the subscriber and hands over no record */
    BUFFER = 256 << 10,   /* bytes of one activity buffer: about 1,100 records */
    DETAIL = 1000,        /* launches written one by one */
    NAMES = 64,           /* names summed up at once */
    LAST_MS = 5000,       /* how long the last flush is waited for */
    WAIT_MS = 2000,       /* how long the devices are waited for, once */
    MOST_LENT = 1024,     /* buffers with CUPTI: 256 MB */
    MOST_INTERPOSERS = 16, /* that are named */
    PERIOD_MS = 100       /* how often completed buffers are asked for: what a kill can lose */
};

struct kernel_record {              /* CUpti_ActivityKernel with 64-bit pointers, CUPTI 11.7 to 13.5 */
    uint32_t kind;
    uint8_t opaque[12];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t smem_static, smem_dynamic;
    uint32_t lmem_thread, lmem_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
};
/* a _Static_assert that cl knows without /std:c11 */
#define HOLDS(name, what) typedef char name##_is_where_it_should_be[(what) ? 1 : -1]
HOLDS(start, offsetof(struct kernel_record, start) == 16);
HOLDS(device, offsetof(struct kernel_record, device) == 40);
HOLDS(grid, offsetof(struct kernel_record, grid) == 52);
HOLDS(correlation, offsetof(struct kernel_record, correlation) == 92);
HOLDS(name, offsetof(struct kernel_record, name) == 104);

struct call_data {                  /* CUpti_CallbackData, its beginning */
    uint32_t site;                  /* 0 enter, 1 exit */
    const char *function;
    const void *params;
    const void *answer;             /* at exit: the driver's CUresult */
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *correlation_data;
    uint32_t correlation;           /* of the call: grows from call to call, and a kernel's record has that of its launch */
};
HOLDS(correlation_of_call, sizeof(void *) != 8 || offsetof(struct call_data, correlation) == 64);

struct api_record {                 /* CUpti_ActivityAPI: one call of the driver */
    uint32_t kind, id;
    uint64_t start, end;
    uint32_t process, thread, correlation, answer;
};

struct wait_record {                /* CUpti_ActivitySynchronization, its beginning */
    uint32_t kind, type;            /* type: see on_wait */
    uint64_t start, end;
    uint32_t correlation, context, stream, event;
};

struct subscription {               /* CUpti_SubscriberParams */
    size_t size;
    const char *name;
    char *before;
    size_t before_size;
    uint8_t many, padding[7];
};

/* launches of one name on one device, summed up */
struct tally { struct kernel_record first; uint64_t start, end, count, total, last; };
struct chunk { uint8_t records[BUFFER]; struct tally names[NAMES]; };

static int (*p_version)(uint32_t *), (*p_flush)(uint32_t), (*p_enable)(uint32_t);
static int (*p_errstr)(int, const char **);
static int (*p_register)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
static int (*p_next)(uint8_t *, size_t, void **);
static int (*p_dropped)(void *, uint32_t, size_t *);
static int (*p_subscribe)(void **, void (*)(void *, uint32_t, uint32_t, const void *), void *);
static int (*p_callback)(uint32_t, void *, uint32_t, uint32_t);
static int (*p_attribute)(uint32_t, size_t *, void *);
static int (*p_stream)(void *, void *, uint8_t, uint32_t *);
static int (*p_unsubscribe)(void *), (*p_name)(uint32_t, uint32_t, const char **), (*p_context)(void *, uint32_t *);
/* the same for one subscriber of many: version 2 of CUPTI's functions, which do not go together with the others */
static int (*p_subscribe_2)(void **, void (*)(void *, uint32_t, uint32_t, const void *), void *, struct subscription *);
static int (*p_enable_2)(void *, uint32_t, void *), (*p_dropped_2)(void *, void *, uint32_t, size_t *), (*p_attribute_2)(void *, uint32_t, size_t *, void *);
static int (*p_register_2)(void *, void (*)(uint8_t **, size_t *, size_t *, void *), void (*)(uint8_t *, size_t, size_t, void *));
static int (*successes_only)(uint8_t);  /* cuptiActivityEnableAllSyncRecords: with 0 no wait is recorded that answered anything else than success */
static void *cuda;                  /* the driver's handle */
static void *subscriber;
static int one_of_many;             /* we subscribed by version 2, so that others can */
static counter heard;               /* calls of cuDeviceGetCount that CUPTI has told of */
static int by_records;              /* not subscribed: the program has a profiler of its own, which can be the only one; calls come as records */
static int until_proved;            /* gpubuild waits for a proof while the program runs */
static counter answers;             /* records of calls that came */
static counter marks, marked;       /* calls of ours that are to come as records, and those that came: see mark */

static uint64_t owner, owner_in;    /* the process that this state belongs to, and its PID namespace; a forked child is another */
static counter seen, unfinished, untimed, dropped, accepted, detailed, forks, refusals;
static counter ended;               /* it has written its end */
static counter made;                /* contexts */
static int contexts_left = -1;      /* primary contexts in use at the end; -1: not known */
static flag devices_written, recording, settling, taken;     /* taken: by another profiler, the records, or CUPTI was taken down */
static int flush_rc = -1;           /* of the last flush */

/* A context in which kernels were launched. CUPTI's number of it is in a kernel's record, too, and is never given twice. */
struct context { volatile uint32_t id; void *volatile handle; };
/* What was waited for with success: the kernels of one stream, or of all (WHOLE), that were launched before. */
struct wait { uint32_t context, stream; uint64_t waited, told; const char *function; };
enum { WAITS = 256, WHOLE = -1, NOWHERE = -2 };
static struct wait waits[WAITS];
enum { CONTEXTS = 64 };             /* kernels of further ones are not waited for, and so prove nothing */
static struct context contexts[CONTEXTS];

/* CUPTI's correlation numbers have 32 bits and begin again at 0; what is written down has 64. A number is taken for the one that is nearest to the newest that
 * was seen. 0 is none. */
static counter newest;
static uint64_t widened(uint32_t correlation) {
    uint64_t at = GET(newest), wide;
    if (!at) at = (uint64_t)1 << 32 | correlation;
    wide = at + (uint64_t)(int64_t)(int32_t)(correlation - (uint32_t)at);
    if (wide > GET(newest)) newest = wide;  /* that another thread may have seen a newer one meanwhile makes no difference */
    return wide;
}

/* ---- forks --------------------------------------------------------------------------------------------------------------------------- */
#ifndef _WIN32
/* What the watcher knows of children it knows of those that were waited for. */
static void in_parent(void) { ADD(forks, 1); }
static void before_fork(void) { error_state e = keep_error(); if (owner && !copied(owner_in, owner)) tell_childless(); restore_error(e); }

/* CUDA does not work in a forked child, but its silence must differ from that of a process that nobody watched. */
static void in_child(void) {
    error_state e = keep_error();
    if (!owner) return;
    owner = 0; recording = 0; pending_n = 0; ended = 0;
    if (own_records()) heartbeat(1, NULL);
    close_records();
    restore_error(e);
}
#endif

/* A function of the driver's that the program reaches elsewhere than in the driver was put there to change or to count its calls. */
static counter interposers;
static void look_at_function(const char *name) {
    static char by[4096];
    if (GET(interposers) >= MOST_INTERPOSERS || !interposed(cuda, name, by, sizeof by)) return;
    ADD(interposers, 1);
    begin("interposed"); field_s("symbol", name); field_s("by", by); finish(1);
}
static void look_for_interposers(void) {
    look_at_function("dlsym");
    each_function(cuda, look_at_function);
}

/* Devices are asked for only when something was launched (cuInit is over then), and never from inside a callback of CUPTI's. */
static void write_devices(void) {
    static once_lock once = ONCE_LOCK;
    static const char digits[] = "0123456789abcdef";
    int (*count)(int *), (*get)(int *, int), (*uuid)(void *, int), (*whole)(void *, int), (*attr)(int *, int, int), (*name)(char *, int, int);
    int n = 0;
    if (devices_written || !try_once(&once)) return;
    *(void **)&count = symbol(cuda, "cuDeviceGetCount"); *(void **)&get = symbol(cuda, "cuDeviceGet");
    *(void **)&attr = symbol(cuda, "cuDeviceGetAttribute"); *(void **)&name = symbol(cuda, "cuDeviceGetName");
    *(void **)&whole = symbol(cuda, "cuDeviceGetUuid");
    if (!(*(void **)&uuid = symbol(cuda, "cuDeviceGetUuid_v2"))) uuid = whole;
    if (!devices_written && count && get && uuid && attr && name && count(&n) == OK && n > 0) {
        for (int i = 0; i < n && i < 64; i++) {
            int dev, major = 0, minor = 0; unsigned char u[16], of[16]; char hex[32], called[256] = "";
            if (get(&dev, i) != OK || uuid(u, dev) != OK) continue;
            attr(&major, 75, dev); attr(&minor, 76, dev);     /* COMPUTE_CAPABILITY_MAJOR and _MINOR */
            name(called, sizeof called, dev);
            called[sizeof called - 1] = 0;
            for (int k = 0; k < 16; k++) { hex[2 * k] = digits[u[k] >> 4]; hex[2 * k + 1] = digits[u[k] & 15]; }
            begin("device");
            field_n("ordinal", (uint64_t)i);
            /* of a slice (MIG) the newer function answers the slice's UUID, the older one that of the whole device */
            field("uuid"); text(whole && whole(of, dev) == OK && memcmp(u, of, sizeof u) ? "\"MIG-" : "\"GPU-"); put(hex, 8); text("-"); put(hex + 8, 4); text("-"); put(hex + 12, 4); text("-");
            put(hex + 16, 4); text("-"); put(hex + 20, 12); text("\"");
            field_s("name", called); field_n("major", (uint64_t)major); field_n("minor", (uint64_t)minor);
            finish(0);
        }
        gather_drivers();
        begin("driver"); list("drivers", each_driver); list("nodes", each_node); finish(1);
        devices_written = 1;
    }
    leave_once(&once);
}

/* ---- CUPTI's buffers ---------------------------------------------------------------------------------------------------------------- */
/* The buffers of ours that CUPTI has; under the lock. A profiler that registers its own functions after us is handed ours, too, and may free them. */
static struct { const struct chunk *at; uint64_t number; } lent[MOST_LENT];
static uint64_t lent_so_far;
static counter foreign;             /* buffers that were handed to us and are not ours */

/* 0: there are too many */
static int lend(const struct chunk *c) {
    int i = 0;
    hold();
    while (i < MOST_LENT && lent[i].at) i++;
    if (i < MOST_LENT) { lent[i].at = c; lent[i].number = ++lent_so_far; }
    release();
    return i < MOST_LENT;
}

/* takes one back, or answers 0: it is not ours, and is left alone */
static int came_back(const struct chunk *c) {
    int i = 0;
    hold();
    while (i < MOST_LENT && lent[i].at != c) i++;
    if (i < MOST_LENT) lent[i].at = NULL;
    release();
    return i < MOST_LENT;
}

/* How many are with CUPTI, of those up to a number? */
static int still_lent(uint64_t up_to) {
    int n = 0;
    hold();
    for (int i = 0; i < MOST_LENT; i++) n += lent[i].at && lent[i].number <= up_to;
    release();
    return n;
}

static counter flushing;            /* we are */
static uint64_t by_another;         /* how many marks we had made when a buffer came back that we had not asked for */

static int flush(uint32_t how) {
    int rc;
    ADD(flushing, 1);
    rc = p_flush(how);
    ADD(flushing, (uint64_t)-1);
    return rc;
}

/* Our thread's calls also call the functions of a profiler of the program's, which may be gone once the program's exit handlers run, as those of a C++ library's
 * statics are. So it makes none from then on until on_end(), which sees to it that ours are called. */
static once_lock calling = ONCE_LOCK;
static flag leaving;
static void on_leave(void *unused) {
    (void)unused;
    if (!owner || copied(owner_in, owner)) return;
    leaving = 1;
    for (int i = 0; i < LAST_MS && !try_once(&calling); i++) nap(1);
}
static int begin_calls(void) { return !leaving && try_once(&calling); }    /* leave_once() when they are made */

static void on_request(uint8_t **buf, size_t *size, size_t *max) {
    error_state e = keep_error(); struct chunk *c = take(sizeof *c);
    before_end(on_leave);
    if (c && !lend(c)) { give(c); c = NULL; }
    *buf = c ? c->records : NULL; *size = c ? BUFFER : 0; *max = 0;
    if (!devices_written && recording) ask_thread();   /* the first launch: the thread may ask for the devices now */
    restore_error(e);
}

static void write_tally(const struct tally *t) {
    const struct kernel_record *k = &t->first;
    begin("kernel");
    field("name");
    if (quoted(k->name)) text(",\"cut\":true");
    field_n("device", k->device); field_n("context", k->context); field_n("stream", k->stream);
    field_3("grid", k->grid); field_3("block", k->block);
    field_n("start", t->start); field_n("end", t->end);
    if (t->count > 1) { field_n("count", t->count); field_n("total", t->total); }
    field_n("correlation", t->last);
    finish(0);
}

static void on_record(const struct api_record *r);
static void on_wait(const struct wait_record *r);
static int drops(size_t *n) {
    if (one_of_many) return p_dropped_2 ? p_dropped_2(subscriber, NULL, 0, n) : -1;
    return p_dropped ? p_dropped(NULL, 0, n) : -1;
}

static void on_complete(void *ctx, uint32_t stream, uint8_t *buf, size_t size, size_t valid) {
    struct chunk *c = (struct chunk *)(void *)buf; void *rec = NULL; int rc, n = 0; size_t drop = 0; error_state e = keep_error();
    (void)ctx; (void)stream; (void)size;
    if (!c) return;
    if (!came_back(c)) { ADD(foreign, 1); restore_error(e); return; }
    if (!GET(flushing)) by_another = GET(marks);
    while ((rc = p_next(buf, valid, &rec)) == OK) {
        const struct kernel_record *k = rec; struct tally one, *t = NULL;
        if (k->kind == KIND_DRIVER) on_record(rec);
        if (k->kind == KIND_SYNCHRONIZATION) on_wait(rec);
        if (k->kind != KIND_CONCURRENT_KERNEL && k->kind != KIND_KERNEL) continue;
        if (!k->start && !k->end) { ADD(untimed, 1); continue; }                 /* CUPTI's header: the times could not be collected */
        if (!k->start || k->end < k->start) { ADD(unfinished, 1); continue; }   /* a forced flush hands over running kernels with end 0 */
        ADD(seen, 1);
        one.first = *k; one.last = widened(k->correlation); one.count = 1;
        one.start = k->start; one.end = k->end > k->start ? k->end : k->start + 1;  /* a clock that is too coarse, as on Windows: the shortest time */
        one.total = one.end - one.start;
        if (GET(detailed) < DETAIL && ADD(detailed, 1) < DETAIL) {
            write_tally(&one);
            continue;
        }
        for (int i = n - 1; i >= 0 && !t; i--)
            if (c->names[i].first.name == k->name && c->names[i].first.device == k->device && c->names[i].first.context == k->context && c->names[i].first.stream == k->stream) t = &c->names[i];
        if (t) {
            t->count++; t->total += one.total;
            if (one.last > t->last) t->last = one.last;
            if (k->start < t->start) t->start = k->start;
            if (one.end > t->end) t->end = one.end;
            continue;
        }
        if (n == NAMES) { for (int i = 0; i < n; i++) write_tally(&c->names[i]); n = 0; }
        c->names[n++] = one;
    }
    for (int i = 0; i < n; i++) write_tally(&c->names[i]);
    if (rc != MAX_LIMIT_REACHED) { begin("bad-buffer"); field_n("rc", (uint64_t)rc); finish(0); }
    if (drops(&drop) == OK && drop) {
        ADD(dropped, drop);
        begin("dropped"); field_n("count", drop); finish(0);
    }
    hold();
    if (pending_n) drain();
    release();
    give(c);
    restore_error(e);
}

static void on_request_2(uint8_t **buf, size_t *size, size_t *max, void *info) { (void)info; on_request(buf, size, max); }
static void on_complete_2(uint8_t *buf, size_t size, size_t valid, void *info) { (void)info; on_complete(NULL, 0, buf, size, valid); }

/* ---- calls of the driver ------------------------------------------------------------------------------------------------------------- */
/* What a watched call does, as far as a verdict depends on it. calls.h has the calls by their numbers (cupti_driver_cbid.h); an old CUPTI does not know them
 * all. READ is a copy that returns when the host has the data: its success is a wait for the default stream. USE and DEVICE are heard only with the numbers of
 * refused code, and of a device that is not there: programs ask them for much that they can do without. */
enum kind { NONE, LAUNCH, WAIT, STREAM, EVENT, READ, COPY, MEMORY, CODE, END, OTHER, COUNT, CREATE, LOOKUP, UPLOAD, PINNED, GRAPH, DEVICE, USE, KINDS };
static const char *const kind_names[] = { "", "launch", "wait", "wait", "wait", "copy", "copy", "memory", "code", "", "other", "", "context", "lookup", "upload", "pinned", "launch", "device", "code" };
static const struct { uint16_t id; uint8_t kind; } watched_calls[] = {
#include "calls.h"
};
enum { WATCHED_CALLS = sizeof watched_calls / sizeof *watched_calls, CALL_IDS = 1024, MOST_REFUSALS = 1000, NOT_READY = 600, NOT_INITIALIZED = 3, DRIVER_ENDED = 4, MARK = 6, NOT_FOUND = 500 };
static int reports_count;           /* CUPTI tells of calls of cuDeviceGetCount */
static uint8_t kind_of[CALL_IDS];
static volatile uint32_t failed[CALL_IDS];  /* by call, and below KINDS by kind: where it was refused last, until it succeeds there; 1: anywhere */

/* Was anything launched? Where the run-time library calls the driver by tables of its own, CUPTI may not report the launch, and there is only its record. */
static int worked(void) { return GET(accepted) || GET(seen); }

static struct context *context_of(uint32_t id) {
    struct context *c = NULL; int i = 0;
    if (!id) return NULL;
    for (; i < CONTEXTS && contexts[i].id; i++) if (contexts[i].id == id) return &contexts[i];
    hold();
    for (i = 0; i < CONTEXTS && !c; i++) if (!contexts[i].id || contexts[i].id == id) c = &contexts[i];
    if (c) c->id = id;
    release();
    return c;
}

/* The device that a context is to be made on; where the parameters have its number (generated_cuda_meta.h). -1: not known, or another call. */
static int device_of(const struct call_data *d) {
    static const struct { const char *function; size_t at; } calls[] = { { "cuDevicePrimaryCtxRetain", 8 }, { "cuCtxCreate_v2", 12 }, { "cuCtxCreate_v3", 24 },
        { "cuCtxCreate_v4", 20 }, { "cuGreenCtxCreate", 16 } };
    int device = -1;
    for (size_t i = 0; d->params && d->function && i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].function, d->function)) memcpy(&device, (const uint8_t *)d->params + calls[i].at, sizeof device);
    return device;
}

/* more: a field of its own, or "" */
static void answer(const char *event, const struct call_data *d, int rc, enum kind kind, const char *more) {
    int device = kind == CREATE ? device_of(d) : -1;
    begin(event); field_n("context", d->context_id); field_n("rc", (uint64_t)rc); field_s("function", d->function ? d->function : "");
    field_s("kind", kind_names[kind]); field_n("correlation", widened(d->correlation));
    if (device >= 0) field_n("on", (uint64_t)device);
    text(more); finish(1);
}

/* under the lock */
static void tell_wait(struct wait *w) {
    if (w->waited <= w->told) return;
    w->told = w->waited;
    compose("waited"); field_n("context", w->context); field_s("function", w->function ? w->function : ""); field_n("correlation", w->waited);
    if (w->stream != (uint32_t)WHOLE) field_n("stream", w->stream);
    close_line(1);
}
static void tell_waits(void) {
    hold();
    for (int i = 0; i < WAITS && waits[i].context; i++) tell_wait(&waits[i]);
    release();
}

/* Something was refused: what that means is for the judge, also where CUPTI has reported no launch before, as it does not of the run-time library. A query that says
 * "not yet", and the refusals of a stream that is being captured (900 to 907), come by the thousand and mean nothing. Of the same refusal again and again, with
 * no other call in between, one line is enough. What was waited for before is written down first: the judge asks for the order. */
static volatile uint64_t last_refusal[3];
/* Is it a context that is made, and not a stream, which is its context's? */
static int makes_context(const struct call_data *d, enum kind kind) { return kind == CREATE && d->function && strncmp(d->function, "cuStream", 8) != 0; }
/* The devices on which a context was refused since one was made there. Nothing makes up for one on a device that is not known. */
static volatile uint8_t lacks_context[64];
static int known(int device) { return device >= 0 && device < (int)sizeof lacks_context; }
/* cuda.h: INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED, UNSUPPORTED_DEVSIDE_SYNC,
 * INSUFFICIENT_LOADER_VERSION, INVALID_SOURCE, SHARED_OBJECT_INIT_FAILED; NO_DEVICE, INVALID_DEVICE, INVALID_CONTEXT */
static int passed_over(enum kind kind, int rc) {
    static const int code[] = { 200, 209, 218, 221, 222, 223, 225, 227, 300, 303 };
    for (size_t i = 0; i < sizeof code / sizeof *code; i++) if (rc == code[i]) return kind == DEVICE;
    return kind == USE || (kind == DEVICE && rc != 100 && rc != 101 && rc != 201);
}
static void refused(const struct call_data *d, int rc, uint32_t id, enum kind kind) {
    volatile uint64_t *last = last_refusal; uint64_t n, before = last[0], at = widened(d->correlation), what = (uint64_t)id << 32 | (uint32_t)rc; int early = !worked();
    static counter noted[KINDS]; int waits = kind == WAIT || kind == STREAM || kind == EVENT;
    if (passed_over(kind, rc)) return;
    if (kind == USE || (kind == LOOKUP && rc != NOT_FOUND)) kind = CODE;     /* code that is loaded when it is first used is refused only here */
    /* programs can do without some kernels and without pinned memory, and no context is made while the driver ends, not even by us */
    if (((kind == LOOKUP || kind == PINNED) && ADD(noted[kind], 1)) || (kind == CREATE && (settling || rc == DRIVER_ENDED))) return;
    if (waits && ((rc == NOT_READY && d->function && strstr(d->function, "Query")) || (rc >= 900 && rc <= 907))) return;
    if (makes_context(d, kind)) { if (known(device_of(d))) lacks_context[device_of(d)] = 1; }
    else if (kind == MEMORY || kind == CODE) failed[kind] = 1;
    else failed[id] = d->context_id + 1;
    last[0] = at;
    if (before + 1 == at && last[1] == what && last[2] == d->context_id) return;
    last[1] = what; last[2] = d->context_id;
    if ((early && GET(refusals) >= MOST_REFUSALS / 2) || (n = ADD(refusals, 1)) >= MOST_REFUSALS) return;
    tell_waits();
    answer(early ? "early" : "refused", d, rc, kind, n + 1 < MOST_REFUSALS ? "" : ",\"last\":true");    /* what comes after is not listed */
}

static void recovered(const struct call_data *d, uint32_t id, enum kind kind) {
    uint32_t at = kind == MEMORY || kind == CODE ? kind : id;
    if (makes_context(d, kind)) {
        int device = device_of(d);
        if (!known(device) || !lacks_context[device]) return;
        lacks_context[device] = 0;
    } else if (!failed[at] || (failed[at] != 1 && failed[at] != d->context_id + 1)) return;
    else failed[at] = 0;
    last_refusal[0] = UINT64_MAX;   /* the same again is another */
    answer("recovered", d, OK, kind, "");
}

/* under the lock: its place, or that of the stream that was waited for the longest time ago, which is written down first; NULL: there is none */
static struct wait *wait_of(uint32_t context, uint32_t stream) {
    struct wait *oldest = NULL, *w = waits;
    for (; w < waits + WAITS && w->context; w++) {
        if (w->context == context && w->stream == stream) return w;
        if (w->stream != (uint32_t)WHOLE && (!oldest || w->waited < oldest->waited)) oldest = w;
    }
    if (w == waits + WAITS && !(w = oldest)) return NULL;
    tell_wait(w);
    w->stream = stream; w->context = context; w->waited = w->told = 0;
    return w;
}

/* CUPTI's number of a stream, as its kernels' records have it. NOWHERE: it is another context's, or has no name. */
static uint32_t stream_of(const struct call_data *d, void *stream) {
    uint32_t id = 0; size_t n = d->function ? strlen(d->function) : 0;
    int of_thread = stream == (void *)2 || (n > 5 && (!strcmp(d->function + n - 5, "_ptsz") || !strcmp(d->function + n - 5, "_ptds")));
    if (p_stream && p_stream(d->context, stream, (uint8_t)of_thread, &id) == OK) return id;
    /* a default stream is always the thread's context's */
    return p_stream && (uintptr_t)stream <= 2 && p_stream(NULL, stream, (uint8_t)of_thread, &id) == OK ? id : (uint32_t)NOWHERE;
}

/* All in a stream that was launched before this call is done. What that stream itself waited for is not followed, and neither is an event. */
static void confirm(const struct call_data *d, uint32_t context, uint32_t stream) {
    struct wait *w; uint64_t at = widened(d->correlation);
    if (stream == (uint32_t)NOWHERE) return;
    hold();
    if ((w = wait_of(context, stream)) && at > w->waited) { w->function = d->function; w->waited = at; }
    release();
}

/* Does a copy to the host (READ) have anything to wait for? Its last parameter is how much (generated_cuda_meta.h). No CUDA of today calls the versions before _v2. */
static int reads(const struct call_data *d) {
    const size_t *params = d->params;
    if (!params || !d->function) return 0;
    return (!strncmp(d->function, "cuMemcpyDtoH_v2", 15) && params[2]) || (!strncmp(d->function, "cuMemcpyAtoH_v2", 15) && params[3]);
}

/* Does a copy of rows or of a box go from the device (2; an array: 3) to the host (1)? Then it returns when the host has the data. CUDA_MEMCPY2D_v2 and
 * CUDA_MEMCPY3D_v2 (cuda.h) have the kinds of memory at these places; the calls that do not wait (Async) and the versions before _v2 have other names. */
static int lands_on_host(const struct call_data *d) {
    const uint8_t *copy = d->params ? *(const uint8_t *const *)d->params : NULL; uint32_t from, to; int box = d->function && !strncmp(d->function, "cuMemcpy3D_v2", 13);
    if (!copy || !d->function || (!box && strncmp(d->function, "cuMemcpy2D_v2", 13) && strncmp(d->function, "cuMemcpy2DUnaligned_v2", 22))) return 0;
    memcpy(&from, copy + (box ? 32 : 16), sizeof from); memcpy(&to, copy + (box ? 120 : 72), sizeof to);
    for (int i = 0; i < (box ? 3 : 2); i++) {       /* width, height, depth: nobody need wait for a copy of nothing */
        size_t extent; memcpy(&extent, copy + (box ? 176 : 112) + 8 * i, sizeof extent);
        if (!extent) return 0;
    }
    return to == 1 && (from == 2 || from == 3);
}

/* What a call that succeeded has waited for. A copy to the host (READ) waits for the default stream. */
static void waited_for(const struct call_data *d, enum kind kind) {
    void *const *params = d->params; uint32_t context = d->context_id;
    if (!context) return;
    /* since CUDA 13 it may name another context than the thread's */
    if (kind == WAIT && params && d->function && !strcmp(d->function, "cuCtxSynchronize_v2") && params[0] && params[0] != d->context &&
        (!p_context || p_context(params[0], &context) != OK)) return;
    if (kind == WAIT) confirm(d, context, (uint32_t)WHOLE);
    else if ((kind == READ && reads(d)) || (kind == COPY && lands_on_host(d))) confirm(d, context, stream_of(d, NULL));
    else if (kind == STREAM && params) confirm(d, context, stream_of(d, params[0]));
}

/* Records that are complete are fetched when the program waits for its kernels, so that a process which then ends at once has left them. Not each time:
 * a program may launch and wait a hundred thousand times a second. */
static void hand_over(void) {
    static counter before, times, fresh, last, at, asked; uint64_t now = nanoseconds(), n = GET(accepted);
    int early = (worked() ? ADD(times, 1) : ADD(before, 1)) < 64 || (n != GET(at) && ADD(fresh, 1) < 64);
    if (!early && now - GET(last) < 10000000u) return;
    last = now; at = n;
    flush(0);
    tell_waits();
    /* The devices, too, once: they may not be asked for in a callback, so our thread does, and is not waited for longer than a moment. */
    if (GET(seen) && !ADD(asked, 1)) for (int i = 0; has_thread() && i < WAIT_MS && !devices_written && !leaving; i++) { ask_thread(); nap(1); }
}

/* Launches that the driver accepted are counted on their own: CUPTI has lost records (12.4 update 1), and then silence is no evidence. */
static void on_call(void *user, uint32_t domain, uint32_t id, const void *data) {
    const struct call_data *d = data; enum kind kind = id < CALL_IDS ? (enum kind)kind_of[id] : NONE; struct context *c; int rc; error_state e;
    (void)user; (void)domain;
    if (kind == END) {              /* nobody may make an ended context current: settle */
        void *gone = d->params && d->function && !strncmp(d->function, "cuCtxDestroy", 12) ? *(void *const *)d->params : NULL;
        for (int i = 0; i < CONTEXTS; i++) if (!gone || contexts[i].handle == gone) contexts[i].handle = NULL;
    }
    if (d->site != 1 || !d->answer || kind == NONE || kind == END) return;
    e = keep_error();
    rc = *(const int *)d->answer;
    if (rc == OK && kind == LAUNCH) {
        if ((c = context_of(d->context_id))) c->handle = d->context;
        ADD(accepted, 1);
        if (GET(ended)) { begin("late"); finish(1); }
    } else if (kind == COUNT) {
        ADD(heard, 1);
        if (rc != OK) refused(d, rc, id, DEVICE);
    } else if (settling && kind == WAIT) answer("settled", d, rc, kind, "");
    else if (rc != OK) refused(d, rc, id, kind);
    else {
        if (makes_context(d, kind) && !settling) {
            ADD(made, 1);
#ifndef _WIN32
            tell_childless();       /* of posix_spawn and vfork nobody tells us, as of a fork: what follows may be theirs, what was opened is not */
#endif
        }
        if (kind != CREATE || !settling) recovered(d, id, kind);    /* a context that settle() retained makes up for none of the program's */
        if (recording && kind >= WAIT && kind <= COPY) { waited_for(d, kind); hand_over(); }
    }
    restore_error(e);
}

/* A call of the driver that came as a record: without its context, and perhaps late. What it answered counts in any context, and it confirms none. */
static void on_record(const struct api_record *r) {
    enum kind kind = r->id < CALL_IDS ? (enum kind)kind_of[r->id] : NONE; struct call_data d; const char *name = NULL;
    ADD(answers, 1);
    if (r->id == MARK) ADD(marked, 1);
    if (kind == NONE || kind == END || kind == COUNT) return;
    if (kind == LAUNCH && r->answer == OK) { ADD(accepted, 1); return; }
    memset(&d, 0, sizeof d);
    d.correlation = r->correlation;
    if (p_name && p_name(1, r->id, &name) == OK) d.function = name;
    if (r->answer != OK) refused(&d, (int)r->answer, r->id, kind); else if (kind != CREATE) recovered(&d, r->id, kind);  /* settle() retains one, too */
}

/* A wait that came as a record: that went well (see successes_only). The run-time library's waits do, too, by whatever tables it calls the driver. */
static void on_wait(const struct wait_record *r) {
    enum { STREAM_WAITED = 3, CONTEXT_WAITED = 4 };
    struct call_data d;
    memset(&d, 0, sizeof d);
    d.correlation = r->correlation;
    d.function = r->type == STREAM_WAITED ? "cuStreamSynchronize" : "cuCtxSynchronize";
    if (r->context && (r->type == STREAM_WAITED || r->type == CONTEXT_WAITED))
        confirm(&d, r->context, r->type == STREAM_WAITED ? r->stream : (uint32_t)WHOLE);
}

/* Answers CUPTI's refusal, or 0; -1: this CUPTI has no callbacks. A program that has brought CUPTI with it may profile itself, and one that subscribes in the
 * old way can do so only if nobody else has. So we do not, and take the driver's calls as records; where it will subscribe in the new way, so do we. */
static int watch_calls(uint32_t version, int driver, int brought) {
    struct subscription s; int rc = -1;
    memset(&s, 0, sizeof s);
    s.size = sizeof s; s.name = "gpubuild"; s.many = 1;
    for (size_t i = 0; i < WATCHED_CALLS; i++) kind_of[watched_calls[i].id] = watched_calls[i].kind;
    if (!p_callback) return -1;
    if (version >= MANY_SUBSCRIBERS && driver >= MANY_DRIVER && p_subscribe_2 && p_register_2 && p_enable_2 && brought != OLD_WAY) {
        rc = p_subscribe_2(&subscriber, on_call, NULL, &s);
        one_of_many = rc == OK;
    }
    if (rc != OK) rc = p_subscribe ? p_subscribe(&subscriber, on_call, NULL) : -1;
    if (rc != OK) return rc;                                    /* another records already: its buffers stay its own */
    if (!one_of_many && brought != NONE_BROUGHT) {
        by_records = 1;
        if (!p_unsubscribe || (rc = p_unsubscribe(subscriber)) != OK || (rc = p_enable(KIND_DRIVER)) != OK) return rc;
        /* Without that only the probe's own wait counts, at the end. The program's profiler would get these records, too. */
        if (until_proved && successes_only && successes_only(0) == OK) p_enable(KIND_SYNCHRONIZATION);
        return OK;
    }
    if ((rc = p_callback(1, subscriber, 1, watched_calls[0].id)) != OK) return rc;
    for (size_t i = 1; i < WATCHED_CALLS; i++) if (p_callback(1, subscriber, 1, watched_calls[i].id) == OK && watched_calls[i].kind == COUNT) reports_count = 1;
    return OK;
}

/* CUPTI keeps up to 250 buffers of 3 MB a context on the device by default. Ours are fetched ten times a second. */
static void bound_device_memory(void) {
    enum { DEVICE_BUFFER_SIZE = 0, DEVICE_BUFFER_POOL_LIMIT = 2 };
    size_t bytes = 1 << 20, most = 64, size = sizeof(size_t);
    if (one_of_many && p_attribute_2) {
        p_attribute_2(subscriber, DEVICE_BUFFER_SIZE, &size, &bytes);
        p_attribute_2(subscriber, DEVICE_BUFFER_POOL_LIMIT, &size, &most);
    } else if (!one_of_many && !by_records && p_attribute) {
        p_attribute(DEVICE_BUFFER_SIZE, &size, &bytes);
        p_attribute(DEVICE_BUFFER_POOL_LIMIT, &size, &most);
    }
}

/* Where nobody calls on_call, it is written down here. */
static void wait_for(void *context, int (*synchronize)(void)) {
    struct call_data d; int rc = synchronize();
    memset(&d, 0, sizeof d);
    d.function = "cuCtxSynchronize"; d.correlation = (uint32_t)GET(newest);
    if (by_records && context && p_context && p_context(context, &d.context_id) == OK) answer("settled", &d, rc, WAIT, ",\"all\":true");
}

/* A call of ours whose record must come to us; programs hardly make it. */
static int mark(void) {
    static int (*capability)(int *, int *, int); int major, minor, rc;
    if (!capability && !(*(void **)&capability = symbol(cuda, "cuDeviceComputeCapability"))) return 0;
    if ((rc = capability(&major, &minor, 0)) == OK) ADD(marks, 1);
    return rc;
}

/* Has a profiler of the program's registered itself since? Then it was handed buffers of ours, or marks of ours, which are made from the start on and all the time.
 * Its functions may be gone by now, as those of a C++ library are that ended before us, so ours take their place before they are called. After that all that
 * comes back must be ours. Where no mark ever came and other calls did, this CUPTI does not record the marks. Where the program itself has fetched the last of them,
 * and CUPTI has none, nothing would tell. */
static int records_are_taken(void) {
    uint64_t until; int untold = by_another && by_another == GET(marks) && !still_lent(UINT64_MAX);
    p_register(on_request, on_complete);
    until = lent_so_far;
    flush(FLUSH_FORCED);
    mark();
    flush(FLUSH_FORCED);
    return untold || !GET(answers) || (GET(marked) && GET(marked) < GET(marks)) || GET(foreign) || still_lent(until);
}

/* Does CUPTI still tell us of calls? What cuDeviceGetCount answers depends on no context. */
static int is_heard(int (*count)(int *)) {
    uint64_t before = GET(heard); int n;
    return !reports_count || !count || count(&n) == DRIVER_ENDED || GET(heard) != before;
}

/* A kernel that nobody waited for may still fail, and its error would be lost with the process. What the driver answers to a wait of ours on_call writes down;
 * where it answers nothing, because it has ended before us, nothing is written, and nothing taken for granted. Contexts: those of launches, and each
 * device's primary one where it is in use. In our own thread where there is one: it may hang. */
static void settle(void) {
    int (*set)(void *), (*synchronize)(void), (*count)(int *), (*get)(int *, int), (*state)(int, unsigned *, int *), (*retain)(void **, int), (*leave)(int);
    int n = 0, dev, active; unsigned flags; void *context;
    *(void **)&set = symbol(cuda, "cuCtxSetCurrent"); *(void **)&synchronize = symbol(cuda, "cuCtxSynchronize");
    *(void **)&count = symbol(cuda, "cuDeviceGetCount"); *(void **)&get = symbol(cuda, "cuDeviceGet");
    *(void **)&state = symbol(cuda, "cuDevicePrimaryCtxGetState"); *(void **)&retain = symbol(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&leave = symbol(cuda, "cuDevicePrimaryCtxRelease_v2");
    tell_waits();
    if (!set || !synchronize) return;
    if (by_records && (taken = records_are_taken())) return;
    if (!is_heard(count)) { taken = 1; return; }
    if (!worked()) flush(0);
    if (state && count && get && count(&n) == OK)
        for (int i = contexts_left = 0; i < n && contexts_left >= 0; i++)
            contexts_left = get(&dev, i) == OK && state(dev, &flags, &active) == OK ? contexts_left + (active != 0) : -1;
    if (!worked()) return;
    settling = 1;
    for (int i = 0; i < CONTEXTS && contexts[i].id; i++)
        if ((context = contexts[i].handle) && set(context) == OK) wait_for(NULL, synchronize);
    if (count && get && state && retain && leave && count(&n) == OK)
        for (int i = 0; i < n; i++) {
            if (get(&dev, i) != OK || state(dev, &flags, &active) != OK || !active || retain(&context, dev) != OK) continue;
            if (set(context) == OK) wait_for(context, synchronize);
            leave(dev);
        }
    settling = 0;
}

static int last_flush(void) {
    size_t drop = 0; int rc = flush(FLUSH_FORCED);
    if (drops(&drop) == OK) ADD(dropped, drop);
    if (taken) rc = MULTIPLE_SUBSCRIBERS;
    if (GET(seen) || GET(unfinished) || GET(untimed)) write_devices();
    return rc;
}

/* status: what the process ended with; -1: not known */
static void write_end(int rc, int64_t status) {
    if (!devices_written) gather_drivers();
    if (!hold_for_end(LAST_MS)) return;
    compose("driver");
    if (!devices_written) { list("drivers", each_driver); list("nodes", each_node); }
    list("apis", each_api);
    close_line(0);
    ended = 1;                      /* before the launches are read: one that is accepted from now on is reported */
    compose("end");
    field("flush"); integer(rc); field_n("kernels", GET(seen)); field_n("unfinished", GET(unfinished)); field_n("dropped", GET(dropped));
    field_n("accepted", GET(accepted)); field_n("lost_writes", GET(lost_writes));
    if (status >= 0) field_n("status", (uint64_t)status);
    if (GET(untimed)) field_n("untimed", GET(untimed));
    if (contexts_left >= 0 || GET(made)) field_n("contexts", GET(made) + (contexts_left > 0 ? (uint64_t)contexts_left : 0));
    if (GET(forks)) field_n("forks", GET(forks));
    if (ignores_children()) text(",\"ignores\":true");
    if (sandboxed()) text(",\"sandboxed\":true");
    close_line(1);
    release();
}

/* CUPTI's own periodic flush hands over full buffers only, so that a program that aborts would leave nothing. Where the program may have a profiler, whose buffers
 * we would flush, too, this ends once ours have not come back for a while, unless somebody waits for a proof. */
static void flusher(void) {
    enum { MOST_SILENT = 100, SHORT_MS = 20 };
    int silent = 0;
    for (int i = 0, rc = NOT_INITIALIZED; by_records && i < WAIT_MS && rc == NOT_INITIALIZED && begin_calls(); i++, nap(1)) { rc = mark(); leave_once(&calling); }
    for (;;) {
        int asked = wait_for_work(by_records ? SHORT_MS : PERIOD_MS);   /* a profiler of the program's lacks what is in our buffer when it begins */
        if (asked & (LAST | ALONE)) {
            recording = 0;
            settle();
            flush_rc = last_flush();
            if (asked & LAST) break;
            owner = 0;
            write_end(flush_rc, alone_status());
            leave_alone();
        } else if (!begin_calls()) continue;
        else if (asked & ASKED) write_devices();
        else if (!by_records || until_proved || silent < MOST_SILENT) {
            uint64_t until = lent_so_far; int any = still_lent(until);
            flush(0);
            tell_waits();
            silent = any && still_lent(until) == any ? silent + 1 : 0;
            if (by_records) mark();
        }
        leave_once(&calling);
    }
    thread_done();
}

/* The thread does the last flush and is out of CUPTI for good before CUPTI is taken down, which happens after us. It is not waited for
 * longer than LAST_MS: a device may hang, and exit() may have been called by a signal's handler that interrupted CUPTI itself. */
static void on_end(int64_t status) {
    error_state e = keep_error(); int rc = -1;
    if (!owner || copied(owner_in, owner)) return;
    recording = 0;
    switch (end_thread(LAST_MS)) {
    case -1: settle(); rc = last_flush(); break;
    case 1: rc = flush_rc; break;
    }
    write_end(rc, status);
    restore_error(e);
}

/* ---- start -------------------------------------------------------------------------------------------------------------------------- */
static int unavailable(const char *step, int rc, const char *why) {
    const char *s = NULL;
    if (!why && p_errstr && p_errstr(rc, &s) == OK) why = s;   /* 13.x without a driver leaves it unset */
    begin("unavailable"); field_s("step", step); field("rc"); integer(rc); field_s("why", why ? why : ""); finish(1);
    return 1;
}

static int load(void) {
    const char *cannot = cannot_host();
    static char given[4096], why[512], file[4096]; void *h; int rc, counting, brought, driver_version = 0, (*driver)(int *); uint32_t v = 0;
    if (cannot) return unavailable("program", 0, cannot);
    /* With no driver in the process CUPTI 13.2 recurses to death: look first. */
    if (!(cuda = loaded_driver())) return unavailable("driver", 0, "no " DRIVER " in this process");
    look_for_interposers();
    until_proved = setting("GPUBUILD_PROBE_UNTIL_PROVED", given, sizeof given) != 0;
    if (!setting("GPUBUILD_PROBE_CUPTI", given, sizeof given)) given[0] = 0;
    /* A subscriber of another CUPTI's keeps out the program's own, too (39, seen with 580.159 and PyTorch 2.11): it is recorded by the one that it has brought. */
    brought = cupti_brought(file);
    if (!(h = load_cupti(brought == OLD_WAY ? file : given, why, sizeof why))) return unavailable("load", 0, why);
#define SYMBOL(p, n, must) if (!(*(void **)&p = symbol(h, n)) && must) return unavailable("symbol", 0, n)
    SYMBOL(p_version, "cuptiGetVersion", 1); SYMBOL(p_errstr, "cuptiGetResultString", 0);
    SYMBOL(p_enable, "cuptiActivityEnable", 1); SYMBOL(p_flush, "cuptiActivityFlushAll", 1);
    SYMBOL(p_register, "cuptiActivityRegisterCallbacks", 1); SYMBOL(p_next, "cuptiActivityGetNextRecord", 1);
    SYMBOL(p_dropped, "cuptiActivityGetNumDroppedRecords", 0);
#undef SYMBOL
    *(void **)&p_subscribe = symbol(h, "cuptiSubscribe"); *(void **)&p_callback = symbol(h, "cuptiEnableCallback");
    *(void **)&p_attribute = symbol(h, "cuptiActivitySetAttribute"); *(void **)&p_attribute_2 = symbol(h, "cuptiActivitySetAttribute_v2");
    *(void **)&p_subscribe_2 = symbol(h, "cuptiSubscribe_v2"); *(void **)&p_enable_2 = symbol(h, "cuptiActivityEnable_v2");
    *(void **)&p_register_2 = symbol(h, "cuptiActivityRegisterCallbacks_v2");
    *(void **)&p_dropped_2 = symbol(h, "cuptiActivityGetNumDroppedRecords_v2");
    *(void **)&p_stream = symbol(h, "cuptiGetStreamIdEx"); *(void **)&successes_only = symbol(h, "cuptiActivityEnableAllSyncRecords");
    *(void **)&p_unsubscribe = symbol(h, "cuptiUnsubscribe"); *(void **)&p_name = symbol(h, "cuptiGetCallbackName"); *(void **)&p_context = symbol(h, "cuptiGetContextId");
    if ((rc = p_version(&v)) != OK) return unavailable("version", rc, NULL);
    *(void **)&driver = symbol(cuda, "cuDriverGetVersion");
    if (driver) driver(&driver_version);
    if ((counting = watch_calls(v, driver_version, brought)) > 0) return unavailable("subscribe", counting, NULL);
    bound_device_memory();
    rc = one_of_many ? p_register_2(subscriber, on_request_2, on_complete_2) : p_register(on_request, on_complete);
    if (rc != OK) return unavailable("register", rc, NULL);
    rc = one_of_many ? p_enable_2(subscriber, KIND_CONCURRENT_KERNEL, NULL) : p_enable(KIND_CONCURRENT_KERNEL);
    if (rc != OK) return unavailable("enable", rc, NULL);

    gather_drivers();
    begin("recording");
    field_n("cupti", v);
    file_of(*(void **)&p_enable, file, sizeof file); field_s("libcupti", file);
    file_of(symbol(cuda, "cuInit"), file, sizeof file); field_s("libcuda", file);
    field_n("driver", (uint64_t)driver_version);
    field("callbacks"); integer(counting);
    if (by_records) text(",\"by_records\":true");
#ifndef _WIN32
    if (in_own_namespace(cuda)) text(",\"own_namespace\":true");
#endif
    list("drivers", each_driver);
    finish(1);
    begin("driver"); list("drivers", each_driver); list("nodes", each_node); finish(1);      /* later it may not let us look */

#ifndef _WIN32
    in_forks(before_fork, in_parent, in_child);
#endif
    recording = 1;
    before_end(on_leave);
    if (begin_thread(flusher) != 0) { begin("note"); field_s("why", "no thread: records come at exit only"); finish(1); }
    if (at_end(on_end) != 0) { begin("note"); field_s("why", "the end of the process cannot be met"); finish(1); }
    return 1;
}

#ifndef _WIN32
/* After the program's exit handlers and its own destructors: of a process without this line they did not all come to their end. */
__attribute__((destructor)) static void exited(void) {
    if (GET(ended) && !copied(owner_in, owner)) { begin("exited"); finish(1); }
}
#endif

EXPORT int InitializeInjection(void) {
    static counter once; static char caller[4096];
    static char dir[4096]; char *another; enum { ANOTHER = 4096 }; error_state e = keep_error();
    if (ADD(once, 1)) {             /* a second driver: CUPTI records the first one's kernels */
        if (owner == process_id() && (another = take(ANOTHER))) {
            file_of(CALLER(), another, ANOTHER);
            if (strcmp(caller, another)) { begin("another"); field_s("caller", another); finish(1); }
            give(another);
        }
        restore_error(e);
        return 1;
    }
    if (!setting("GPUBUILD_PROBE_DIR", dir, sizeof dir)) return 1;
    owner = process_id(); owner_in = pid_namespace();
    mark_process();
    mark_program();
    if (begin_records(dir) == 0) {
        file_of(CALLER(), caller, sizeof caller);
        if (recorded_by_another()) { owner = 0; begin("another"); field_s("caller", caller); finish(1); restore_error(e); return 1; }
        hold();
        heartbeat(0, caller);
        release();
        load();
    }
    restore_error(e);
    return 1;
}

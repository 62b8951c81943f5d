/* gpubuild's probe: the CUDA driver loads it into a process at cuInit, because CUDA_INJECTION64_PATH names it, and it writes CUPTI's
 * kernel-activity records down as JSON lines. It needs no CUDA header: it reads only the beginning of a kernel record, which has kept
 * its layout from CUPTI 11.7 to 13.5 (offsets below), and steps from record to record with CUPTI's own function.
 *
 *   GPUBUILD_PROBE_DIR    directory for the records, one file a process: <pid>-<start time>.jsonl; unset: the probe does nothing
 *   GPUBUILD_PROBE_CUPTI  libcupti to load; unset: the usual names
 *
 * It never changes what the program prints, answers or does: errno is kept, its thread takes no signal, its file has a high number and
 * is checked before each write (a daemon closes files that it does not know), and everything that fails only ends the recording.
 * Memory is bounded: the first DETAIL launches are written one by one, later ones summed up per name and buffer. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lines.h"

enum { KIND_KERNEL = 3, KIND_CONCURRENT_KERNEL = 10, FLUSH_FORCED = 1, OK = 0, MAX_LIMIT_REACHED = 12 };
enum {
    BUFFER = 256 << 10,   /* bytes of one activity buffer: about 1,100 records */
    DETAIL = 1000,        /* launches written one by one */
    NAMES = 64,           /* names summed up at once */
    LAST_MS = 5000,       /* how long the last flush is waited for */
    PERIOD_MS = 100       /* how often completed buffers are asked for: what a kill can lose */
};

struct kernel_record {              /* CUpti_ActivityKernel, LP64, CUPTI 11.7 to 13.5 */
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
_Static_assert(offsetof(struct kernel_record, start) == 16, "start");
_Static_assert(offsetof(struct kernel_record, device) == 40, "device");
_Static_assert(offsetof(struct kernel_record, grid) == 52, "grid");
_Static_assert(offsetof(struct kernel_record, correlation) == 92, "correlation");
_Static_assert(offsetof(struct kernel_record, name) == 104, "name");

struct call_data {                  /* CUpti_CallbackData, its beginning */
    uint32_t site;                  /* 0 enter, 1 exit */
    const char *function;
    const void *params;
    const void *answer;             /* at exit: the driver's CUresult */
};

/* launches of one name on one device, summed up */
struct tally { struct kernel_record first; uint64_t start, end, count, total; };
struct chunk { uint8_t records[BUFFER]; struct tally names[NAMES]; };

static int (*p_version)(uint32_t *), (*p_flush)(uint32_t), (*p_enable)(uint32_t);
static int (*p_errstr)(int, const char **);
static int (*p_register)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
static int (*p_next)(uint8_t *, size_t, void **);
static int (*p_dropped)(void *, uint32_t, size_t *);
static int (*p_subscribe)(void **, void (*)(void *, uint32_t, uint32_t, const void *), void *);
static int (*p_callback)(uint32_t, void *, uint32_t, uint32_t);
static void *cuda;                  /* the driver's handle */

static pid_t owner;                 /* the process that this state belongs to; a forked child is another */
static _Atomic uint64_t seen, unfinished, dropped, accepted;
static _Atomic int detail = DETAIL, devices_told, recording;

static pthread_mutex_t waking = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake, done;
static int woken, last, flushed = -1, flush_rc;     /* flushed: -1 there is no thread, 0 not yet, 1 the last flush is done */

/* ---- what this process is --------------------------------------------------------------------------------------------------------- */
/* Start time in clock ticks since boot: with the pid it names a process for good. Source: proc(5), field 22. */
static unsigned long long start_time(void) {
    char b[1024], *p; ssize_t n; unsigned long long t = 0; int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    n = read(fd, b, sizeof b - 1);
    close(fd);
    if (n <= 0) return 0;
    b[n] = 0;
    if (!(p = strrchr(b, ')'))) return 0;
    for (int i = 2; i < 22 && p; i++) p = strchr(p + 1, ' ');
    if (p) t = strtoull(p + 1, NULL, 10);
    return t;
}

static void heartbeat(int forked, const char *caller) {   /* under `writing`, or in a forked child, alone */
    char exe[4096]; ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1); struct timespec t; struct stat st;
    exe[n > 0 ? n : 0] = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    compose("injected");
    field_n("version", 1);
    field_n("pid", (uint64_t)getpid()); field_n("ppid", (uint64_t)getppid()); field_n("started", start_time());
    field_n("time", (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
    field_s("exe", exe);
    if (stat("/proc/self/exe", &st) == 0) { field_n("exe_device", st.st_dev); field_n("exe_inode", st.st_ino); }
    if (caller) field_s("caller", caller);
    if (forked) text(",\"forked\":true");
    close_line(1);
}

/* CUDA does not work in a forked child, but silence there should be told from a process that nobody watched. Nothing here takes a
 * lock or allocates: another thread may have held one at the fork. */
static void in_child(void) {
    int e = errno; char *slash;
    if (!owner) return;
    owner = 0; recording = 0; pending_n = 0;
    if (out >= 0) { struct stat st; if (fstat(out, &st) == 0 && st.st_dev == out_dev && st.st_ino == out_ino) close(out); }
    out = -1;
    if ((slash = strrchr(path, '/'))) {
        snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "%d-%llu.jsonl", (int)getpid(), start_time());
        heartbeat(1, NULL);
        if (out >= 0) close(out);
        out = -1;
    }
    errno = e;
}

static int starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* every file called libcuda.so* that is mapped: more than one, or another than the one that we hold, is for the judge */
static void list_drivers(void) {
    char line[4400], last[4400] = ""; int any = 0; FILE *f = fopen("/proc/self/maps", "re");
    field("drivers"); text("[");
    while (f && any < 8 && fgets(line, sizeof line, f)) {
        char *p = strchr(line, '/'), *base;
        if (!p) continue;
        p[strcspn(p, "\n")] = 0;
        if (!(base = strrchr(p, '/')) || !starts(base + 1, "libcuda.so") || !strcmp(p, last)) continue;
        snprintf(last, sizeof last, "%s", p);
        if (any++) text(",");
        quoted(p);
    }
    if (f) fclose(f);
    text("]");
}

/* the NVIDIA device nodes that this process has open: a stand-in driver has none */
static void list_nodes(void) {
    DIR *d = opendir("/proc/self/fd"); struct dirent *e; int any = 0; char link[64], to[256];
    field("nodes"); text("[");
    while (d && any < 32 && (e = readdir(d))) {
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", e->d_name);
        ssize_t n = readlink(link, to, sizeof to - 1);
        if (n <= 0) continue;
        to[n] = 0;
        if (!starts(to, "/dev/nvidia") && !starts(to, "/dev/dxg") && !starts(to, "/dev/nvhost") && !starts(to, "/dev/nvmap")) continue;
        if (any++) text(",");
        quoted(to);
    }
    if (d) closedir(d);
    text("]");
}

/* a function of the driver's that the program reaches elsewhere than in the driver was put there to change or to count its calls */
static void look_for_interposers(void) {
    Dl_info finder; const char *base; void *(*find)(void *, const char *) = dlsym;
    if (dladdr(*(void **)&find, &finder) && (base = strrchr(finder.dli_fname, '/')) &&
        !starts(base + 1, "libc") && !starts(base + 1, "libdl") && !starts(base + 1, "ld-")) {
        begin("interposed"); field_s("symbol", "dlsym"); field_s("by", finder.dli_fname); finish(1);
    }
    static const char *const names[] = { "cuInit", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuMemcpyDtoH_v2", "cuGetProcAddress_v2" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Dl_info own, met; void *a = dlsym(cuda, names[i]), *b = dlsym(RTLD_DEFAULT, names[i]);
        if (!a || !b || a == b || !dladdr(a, &own) || !dladdr(b, &met) || own.dli_fbase == met.dli_fbase) continue;
        begin("interposed"); field_s("symbol", names[i]); field_s("by", met.dli_fname); finish(1);
    }
}

/* Devices are asked for only when something was launched (cuInit is over then), and never from inside a callback of CUPTI's. */
static void tell_devices(void) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    int (*count)(int *), (*get)(int *, int), (*uuid)(void *, int), (*attr)(int *, int, int), (*name)(char *, int, int);
    int n = 0;
    if (devices_told || pthread_mutex_trylock(&once) != 0) return;
    *(void **)&count = dlsym(cuda, "cuDeviceGetCount"); *(void **)&get = dlsym(cuda, "cuDeviceGet");
    *(void **)&attr = dlsym(cuda, "cuDeviceGetAttribute"); *(void **)&name = dlsym(cuda, "cuDeviceGetName");
    if (!(*(void **)&uuid = dlsym(cuda, "cuDeviceGetUuid_v2"))) *(void **)&uuid = dlsym(cuda, "cuDeviceGetUuid");
    if (!devices_told && count && get && uuid && attr && name && count(&n) == OK && n > 0) {
        for (int i = 0; i < n && i < 64; i++) {
            int dev, major = 0, minor = 0; unsigned char u[16]; char hex[33], called[256] = "";
            if (get(&dev, i) != OK || uuid(u, dev) != OK) continue;
            attr(&major, 75, dev); attr(&minor, 76, dev);     /* COMPUTE_CAPABILITY_MAJOR and _MINOR */
            name(called, sizeof called, dev);
            called[sizeof called - 1] = 0;
            for (int k = 0; k < 16; k++) snprintf(hex + 2 * k, 3, "%02x", u[k]);
            begin("device");
            field_n("ordinal", (uint64_t)i);
            field("uuid"); text("\"GPU-"); put(hex, 8); text("-"); put(hex + 8, 4); text("-"); put(hex + 12, 4); text("-");
            put(hex + 16, 4); text("-"); put(hex + 20, 12); text("\"");
            field_s("name", called); field_n("major", (uint64_t)major); field_n("minor", (uint64_t)minor);
            finish(0);
        }
        begin("driver"); list_drivers(); list_nodes(); finish(1);
        devices_told = 1;
    }
    pthread_mutex_unlock(&once);
}

/* ---- CUPTI's buffers ---------------------------------------------------------------------------------------------------------------- */
static void on_request(uint8_t **buf, size_t *size, size_t *max) {
    int e = errno; struct chunk *c = malloc(sizeof *c);
    *buf = c ? c->records : NULL; *size = c ? BUFFER : 0; *max = 0;
    if (!devices_told && recording) {            /* the first launch: the thread may ask for the devices now */
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_mutex_lock(&waking); woken = 1; pthread_cond_signal(&wake); pthread_mutex_unlock(&waking);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    errno = e;
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
    finish(0);
}

static void on_complete(void *ctx, uint32_t stream, uint8_t *buf, size_t size, size_t valid) {
    struct chunk *c = (struct chunk *)(void *)buf; void *rec = NULL; int rc, e = errno, n = 0; size_t drop = 0;
    (void)size;
    if (!c) return;
    while ((rc = p_next(buf, valid, &rec)) == OK) {
        const struct kernel_record *k = rec; struct tally one, *t = NULL;
        if (k->kind != KIND_CONCURRENT_KERNEL && k->kind != KIND_KERNEL) continue;
        if (!k->start || k->end <= k->start) { unfinished++; continue; }   /* a forced flush hands over running kernels with end 0 */
        seen++;
        if (detail > 0 && detail-- > 0) {
            one = (struct tally){ *k, k->start, k->end, 1, k->end - k->start };
            write_tally(&one);
            continue;
        }
        for (int i = n - 1; i >= 0 && !t; i--)
            if (c->names[i].first.name == k->name && c->names[i].first.device == k->device) t = &c->names[i];
        if (t) {
            t->count++; t->total += k->end - k->start;
            if (k->start < t->start) t->start = k->start;
            if (k->end > t->end) t->end = k->end;
            continue;
        }
        if (n == NAMES) { for (int i = 0; i < n; i++) write_tally(&c->names[i]); n = 0; }
        c->names[n++] = (struct tally){ *k, k->start, k->end, 1, k->end - k->start };
    }
    for (int i = 0; i < n; i++) write_tally(&c->names[i]);
    if (rc != MAX_LIMIT_REACHED) { begin("bad-buffer"); field_n("rc", (uint64_t)rc); finish(0); }
    if (p_dropped && p_dropped(ctx, stream, &drop) == OK && drop) {
        dropped += drop;
        begin("dropped"); field_n("count", drop); finish(0);
    }
    hold();
    if (pending_n) drain();
    release();
    free(c);
    errno = e;
}

/* A launch that the driver accepted, counted on its own: CUPTI has lost records (12.4 update 1), and then silence is no evidence. */
static void on_call(void *user, uint32_t domain, uint32_t id, const void *data) {
    const struct call_data *d = data;
    (void)user; (void)domain; (void)id;
    if (d->site == 1 && d->answer && *(const int *)d->answer == OK) atomic_fetch_add_explicit(&accepted, 1, memory_order_relaxed);
}

/* answers CUPTI's refusal, or 0; -1: this CUPTI has no callbacks */
static int count_calls(void) {
    /* cuLaunch, Grid, GridAsync; Kernel, _ptsz; CooperativeKernel, _ptsz, MultiDevice; GraphLaunch, _ptsz; KernelEx, _ptsz (cupti_driver_cbid.h).
     * An old CUPTI does not know the last ones. */
    static const uint32_t ids[] = { 307, 115, 116, 117, 442, 477, 478, 480, 514, 515, 652, 653 };
    void *subscriber = NULL; int rc;
    if (!p_subscribe || !p_callback) return -1;
    if ((rc = p_subscribe(&subscriber, on_call, NULL)) != OK) return rc;
    if ((rc = p_callback(1, subscriber, 1, ids[0])) != OK) return rc;
    for (size_t i = 1; i < sizeof ids / sizeof *ids; i++) p_callback(1, subscriber, 1, ids[i]);
    return OK;
}

static struct timespec in_ms(long ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000; t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) { t.tv_nsec -= 1000000000; t.tv_sec++; }
    return t;
}

static int last_flush(void) {
    size_t drop = 0; int rc = p_flush(FLUSH_FORCED);
    if (p_dropped && p_dropped(NULL, 0, &drop) == OK) dropped += drop;
    if (seen || unfinished) tell_devices();
    return rc;
}

/* CUPTI's own periodic flush hands over full buffers only, so that a program that aborts would leave nothing. */
static void *flusher(void *arg) {
    for (int ending = 0; !ending; ) {
        struct timespec t = in_ms(PERIOD_MS); int asked;
        pthread_mutex_lock(&waking);
        while (!woken && pthread_cond_timedwait(&wake, &waking, &t) != ETIMEDOUT) { }
        asked = woken; woken = 0; ending = last;
        pthread_mutex_unlock(&waking);
        if (ending) flush_rc = last_flush();
        else if (asked) tell_devices();
        else p_flush(0);
    }
    pthread_mutex_lock(&waking);
    flushed = 1;
    pthread_cond_signal(&done);
    pthread_mutex_unlock(&waking);
    return arg;
}

/* The thread does the last flush and is out of CUPTI for good before CUPTI is taken down, which happens after us. It is not waited for
 * longer than LAST_MS: a device may hang, and exit() may have been called by a signal's handler that interrupted CUPTI itself. */
static void at_exit(void) {
    int e = errno, rc = -1;
    if (!owner || getpid() != owner) return;
    recording = 0;
    if (flushed < 0) rc = last_flush();
    else {
        struct timespec until = in_ms(LAST_MS);
        pthread_mutex_lock(&waking);
        woken = last = 1;
        pthread_cond_signal(&wake);
        while (flushed == 0 && pthread_cond_timedwait(&done, &waking, &until) != ETIMEDOUT) { }
        if (flushed == 1) rc = flush_rc;
        pthread_mutex_unlock(&waking);
    }
    if (!devices_told) { begin("driver"); list_drivers(); list_nodes(); finish(0); }
    begin("end");
    field("flush"); integer(rc); field_n("kernels", seen); field_n("unfinished", unfinished); field_n("dropped", dropped);
    field_n("accepted", accepted); field_n("lost_writes", lost_writes);
    finish(1);
    errno = e;
}

/* ---- start -------------------------------------------------------------------------------------------------------------------------- */
static int unavailable(const char *step, int rc, const char *why) {
    const char *s = NULL;
    if (!why && p_errstr && p_errstr(rc, &s) == OK) why = s;   /* 13.x without a driver leaves it unset */
    begin("unavailable"); field_s("step", step); field("rc"); integer(rc); field_s("why", why ? why : ""); finish(1);
    return 1;
}

static int load(const char *cupti) {
    static const char *const usual[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so", NULL };
    void *h = NULL; int rc; uint32_t v = 0; Dl_info at; pthread_t thread; pthread_condattr_t attr; sigset_t all, old;
    int (*driver)(int *); int driver_version = 0;
    /* With no driver in the process CUPTI 13.2 recurses to death: look first. */
    if (!(cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD))) return unavailable("driver", 0, "no libcuda.so.1 in this process");
    look_for_interposers();
    if (cupti && *cupti) h = dlopen(cupti, RTLD_NOW | RTLD_LOCAL);
    else for (int i = 0; !h && usual[i]; i++) h = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    if (!h) { const char *why = dlerror(); return unavailable("load", 0, why ? why : "libcupti could not be loaded"); }
#define SYMBOL(p, n, must) if (!(*(void **)&p = dlsym(h, n)) && must) return unavailable("symbol", 0, n)
    SYMBOL(p_version, "cuptiGetVersion", 1); SYMBOL(p_errstr, "cuptiGetResultString", 0);
    SYMBOL(p_enable, "cuptiActivityEnable", 1); SYMBOL(p_flush, "cuptiActivityFlushAll", 1);
    SYMBOL(p_register, "cuptiActivityRegisterCallbacks", 1); SYMBOL(p_next, "cuptiActivityGetNextRecord", 1);
    SYMBOL(p_dropped, "cuptiActivityGetNumDroppedRecords", 0);
#undef SYMBOL
    *(void **)&p_subscribe = dlsym(h, "cuptiSubscribe"); *(void **)&p_callback = dlsym(h, "cuptiEnableCallback");
    if ((rc = p_version(&v)) != OK) return unavailable("version", rc, NULL);
    if ((rc = p_register(on_request, on_complete)) != OK) return unavailable("register", rc, NULL);
    if ((rc = p_enable(KIND_CONCURRENT_KERNEL)) != OK) return unavailable("enable", rc, NULL);
    int counting = count_calls();
    if (atexit(at_exit) != 0) return unavailable("atexit", 0, "no room for an exit handler");

    *(void **)&driver = dlsym(cuda, "cuDriverGetVersion");
    if (driver) driver(&driver_version);
    begin("recording");
    field_n("cupti", v);
    field_s("libcupti", dladdr(*(void **)&p_enable, &at) ? at.dli_fname : "");
    void *init = dlsym(cuda, "cuInit");
    field_s("libcuda", init && dladdr(init, &at) ? at.dli_fname : "");
    field_n("driver", (uint64_t)driver_version);
    field("callbacks"); integer(counting);
    list_drivers();
    finish(1);

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &attr);
    pthread_cond_init(&done, &attr);
    pthread_condattr_destroy(&attr);
    pthread_atfork(NULL, NULL, in_child);
    recording = 1; flushed = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);       /* the new thread inherits it: no signal of the program's is delivered there */
    rc = pthread_create(&thread, NULL, flusher, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0) pthread_detach(thread);
    else { flushed = -1; begin("note"); field_s("why", "no thread: records come at exit only"); finish(1); }
    return 1;
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
    static _Atomic int once;
    const char *dir = getenv("GPUBUILD_PROBE_DIR"); int e = errno; Dl_info caller;
    if (once++ || !dir || !*dir) return 1;
    owner = getpid();
    if (snprintf(path, sizeof path, "%s/%d-%llu.jsonl", dir, (int)owner, start_time()) < (int)sizeof path && open_records() == 0) {
        hold();
        heartbeat(0, dladdr(__builtin_return_address(0), &caller) ? caller.dli_fname : "");
        release();
        load(getenv("GPUBUILD_PROBE_CUPTI"));
    }
    errno = e;
    return 1;
}

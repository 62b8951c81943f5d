/* gpubuild's Vulkan layer: the Vulkan loader puts it between a program and its driver, because VK_INSTANCE_LAYERS names it, and it writes
 * down, in the probe's form, which compute pipelines were dispatched on which device, once the device has completed them.
 *
 * A dispatch counts when the submission that it was in has completed: behind each submission the layer submits a fence of its own, and asks
 * for it when the program waits or polls. Where the device has timestamps, two of them enclose a dispatch. Draws, copies and what other
 * APIs do are not recorded; of what else runs shaders (OTHER_WORK) it is recorded only that it was there. GPUBUILD_PROBE_DIR is the
 * directory for the records; unset: the layer only passes calls on. */
#include "os_linux.h"
#include "lines.h"
#include "vulkan.h"

enum { SLOTS = 4096, SLOTS_OF_BUFFER = 64, PERIOD_NS = 100000000, LAST_NS = 2000000000, FIRST_NS = 20000000, MOST_NAMED = 255, MOST_REFUSALS = 16 };

typedef struct { uint64_t *keys; void **values; size_t n, cap; } Table;
typedef struct Instance {
    struct Instance *next; Handle handle; GetProc get; uint32_t api;
    void (*DestroyInstance)(Handle, const void *);
    int (*EnumeratePhysicalDevices)(Handle, uint32_t *, Handle *);
    void (*GetPhysicalDeviceProperties)(Handle, Properties *), (*GetPhysicalDeviceProperties2)(Handle, Properties2 *);
} Instance;
typedef struct { uint32_t *code; size_t words; } Module;

/* what completed since it was last written down */
typedef struct { int32_t grid[3]; uint64_t count, timed, total, start, end, last; } Tally;
/* unsure: of dispatches whose size only the device knows, or that depend on a condition: perhaps nothing ran */
typedef struct Pipeline {
    struct Pipeline *next; struct Device *device; char name[MOST_NAMED + 1], shape[160]; int32_t block[3]; Tally sure, unsure;
} Pipeline;
typedef struct { Pipeline *pipeline; uint64_t count; int slot, unsure; int32_t grid[3]; } Work;
typedef struct { struct Device *device; Pipeline *bound; Work *work; size_t n, cap; int slots, conditional; } Commands;
typedef struct Submission { struct Submission *next; Object fence; uint64_t start; Work *work; size_t n; uint64_t order; } Submission;

typedef int (*Wait)(Handle, uint32_t, const Object *, uint32_t, uint64_t);

/* Commands of extensions that run shaders or kernels otherwise than by a dispatch whose size the host knows. TestVulkanHeader compares
 * the list with Khronos' headers. */
#define OTHER_WORK(X) \
    X(CmdExecuteGeneratedCommandsEXT, (Handle b, uint32_t ready, const void *info), (b, ready, info)) \
    X(CmdExecuteGeneratedCommandsNV, (Handle b, uint32_t ready, const void *info), (b, ready, info)) \
    X(CmdCudaLaunchKernelNV, (Handle b, const void *info), (b, info)) \
    X(CmdCuLaunchKernelNVX, (Handle b, const void *info), (b, info)) \
    X(CmdDispatchGraphAMDX, (Handle b, uint64_t at, uint64_t size, const void *info), (b, at, size, info)) \
    X(CmdDispatchGraphIndirectAMDX, (Handle b, uint64_t at, uint64_t size, const void *info), (b, at, size, info)) \
    X(CmdDispatchGraphIndirectCountAMDX, (Handle b, uint64_t at, uint64_t size, uint64_t info), (b, at, size, info)) \
    X(CmdDispatchDataGraphARM, (Handle b, Object session, const void *info), (b, session, info)) \
    X(CmdDispatchTileQCOM, (Handle b, const void *info), (b, info)) \
    X(CmdSubpassShadingHUAWEI, (Handle b), (b)) \
    X(CmdTraceRaysKHR, (Handle b, const void *g, const void *m, const void *h, const void *c, uint32_t x, uint32_t y, uint32_t z), \
        (b, g, m, h, c, x, y, z)) \
    X(CmdTraceRaysIndirectKHR, (Handle b, const void *g, const void *m, const void *h, const void *c, uint64_t at), (b, g, m, h, c, at)) \
    X(CmdTraceRaysIndirect2KHR, (Handle b, uint64_t at), (b, at)) \
    X(CmdTraceRaysNV, (Handle b, Object g, uint64_t g0, Object m, uint64_t m0, uint64_t ms, Object h, uint64_t h0, uint64_t hs, Object c, \
        uint64_t c0, uint64_t cs, uint32_t x, uint32_t y, uint32_t z), (b, g, g0, m, m0, ms, h, h0, hs, c, c0, cs, x, y, z))

typedef struct Device {
    struct Device *next; Handle handle; GetProc get; int ordinal; float period; Object pool; uint16_t free_slots[SLOTS]; int free_n;
    Submission *first, *last, *spare;
    Table commands, modules, pipelines;
    Pipeline *all, *unnamed, *other;
    void (*DestroyDevice)(Handle, const void *);
    int (*CreateShaderModule)(Handle, const ModuleInfo *, const void *, Object *);
    void (*DestroyShaderModule)(Handle, Object, const void *);
    int (*CreateComputePipelines)(Handle, Object, uint32_t, const PipelineInfo *, const void *, Object *);
    int (*AllocateMemory)(Handle, const void *, const void *, Object *);
    int (*SetDebugUtilsObjectNameEXT)(Handle, const NameInfo *);
    int (*BeginCommandBuffer)(Handle, const BeginInfo *);
    void (*CmdBindPipeline)(Handle, int, Object);
    void (*CmdDispatch)(Handle, uint32_t, uint32_t, uint32_t);
    void (*CmdDispatchBase)(Handle, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);
    void (*CmdDispatchBaseKHR)(Handle, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);
    void (*CmdDispatchIndirect)(Handle, Object, uint64_t), (*CmdDispatchIndirect2KHR)(Handle, const void *);
    void (*CmdBindShadersEXT)(Handle, uint32_t, const uint32_t *, const Object *);
    void (*CmdBeginConditionalRenderingEXT)(Handle, const void *), (*CmdBeginConditionalRendering2EXT)(Handle, const void *);
    void (*CmdEndConditionalRenderingEXT)(Handle);
#define FIELD(f, takes, gives) void (*f) takes;
    OTHER_WORK(FIELD)
#undef FIELD
    void (*CmdExecuteCommands)(Handle, uint32_t, const Handle *);
    void (*CmdResetQueryPool)(Handle, Object, uint32_t, uint32_t);
    void (*CmdWriteTimestamp)(Handle, uint32_t, Object, uint32_t);
    int (*QueueSubmit)(Handle, uint32_t, const Submit *, Object);
    int (*QueueSubmit2)(Handle, uint32_t, const Submit2 *, Object);
    int (*QueueSubmit2KHR)(Handle, uint32_t, const Submit2 *, Object);
    int (*QueueWaitIdle)(Handle), (*DeviceWaitIdle)(Handle);
    Wait WaitForFences;
    int (*GetFenceStatus)(Handle, Object), (*ResetFences)(Handle, uint32_t, const Object *);
    int (*CreateFence)(Handle, const FenceInfo *, const void *, Object *);
    int (*WaitSemaphores)(Handle, const void *, uint64_t), (*WaitSemaphoresKHR)(Handle, const void *, uint64_t);
    int (*GetSemaphoreCounterValue)(Handle, Object, uint64_t *), (*GetSemaphoreCounterValueKHR)(Handle, Object, uint64_t *);
    int (*CreateQueryPool)(Handle, const QueryPoolInfo *, const void *, Object *);
    void (*DestroyQueryPool)(Handle, Object, const void *), (*DestroyFence)(Handle, Object, const void *);
    int (*GetQueryPoolResults)(Handle, Object, uint32_t, uint32_t, size_t, void *, uint64_t, uint32_t);
} Device;

static pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER;      /* of all that follows; no call that waits for long is made under it */
static Instance *instances;
static Device *devices;
static uint64_t owner, ended, written_at;
static counter kernels, accepted, forks, faults, refusals;
static uint64_t order;                  /* of submissions and of what the driver refused */
static uint64_t ordinals_written;
static int recording;

static void lock(void) { pthread_mutex_lock(&state); }
static void unlock(void) { pthread_mutex_unlock(&state); }

/* ---- handles ------------------------------------------------------------------------------------------------------------------------- */
static size_t place(const Table *t, uint64_t key) {
    size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> 20) & (t->cap - 1);
    while (t->keys[i] && t->keys[i] != key) i = (i + 1) & (t->cap - 1);
    return i;
}
static void *get(const Table *t, uint64_t key) { return t->cap && key ? t->values[place(t, key)] : NULL; }
/* without memory a handle is not known, and what it does is not recorded: the judge misses it among the accepted dispatches */
static int set(Table *t, uint64_t key, void *value) {
    if (2 * t->n >= t->cap) {
        Table more = { NULL, NULL, t->n, t->cap ? 2 * t->cap : 64 };
        more.keys = calloc(more.cap, sizeof *more.keys); more.values = calloc(more.cap, sizeof *more.values);
        if (!more.keys || !more.values) { free(more.keys); free(more.values); return 0; }
        for (size_t i = 0; i < t->cap; i++)
            if (t->keys[i]) { size_t at = place(&more, t->keys[i]); more.keys[at] = t->keys[i]; more.values[at] = t->values[i]; }
        free(t->keys); free(t->values);
        *t = more;
    }
    size_t i = place(t, key);
    if (!t->keys[i]) t->n++;
    t->keys[i] = key; t->values[i] = value;
    return 1;
}
static void drop_table(Table *t) { free(t->keys); free(t->values); memset(t, 0, sizeof *t); }

/* Something dispatchable begins with the loader's table: that of a queue or a command buffer is its device's. */
static void *key(Handle h) { return *(void **)h; }
static Device *device_of(Handle h) {
    lock();
    Device *d = devices;
    while (d && key(d->handle) != key(h)) d = d->next;
    unlock();
    return d;
}
static Instance *instance_of(Handle h) {
    lock();
    Instance *i = instances;
    while (i && key(i->handle) != key(h)) i = i->next;
    unlock();
    return i;
}

/* ---- SPIR-V -------------------------------------------------------------------------------------------------------------------------- */
enum { OP_NAMED = 15, OP_MODE = 16, OP_STRUCT = 30, OP_POINTER = 32, OP_VARIABLE = 59, OP_DECORATE = 71 };

/* The size of an entry point's workgroup, and what its module takes: "push 2, buffers 0.0 1.0" are push constants of two numbers
 * and storage buffers by set and binding. The judge knows wgpu's own pipelines by that. */
static void describe(const Module *m, const char *entry, Pipeline *p) {
    if (!m || m->words < 6 || m->code[3] > 1 << 22) return;
    uint32_t bound = m->code[3], found = 0; size_t used = 0; int pushed = 0; char buffers[96] = "";
    struct id { uint32_t members, points_to; uint16_t set, binding; } *ids = calloc(bound, sizeof *ids);
    if (!ids) return;
    for (size_t i = 5, n; i < m->words && (n = m->code[i] >> 16) && i + n <= m->words; i += n) {
        const uint32_t *w = m->code + i;
        if (n > 3 && (w[0] & 0xffff) == OP_NAMED && w[1] == 5 && !strncmp((const char *)(w + 3), entry, (n - 3) * 4)) found = w[2];
        if (n < 2 || w[1] >= bound) continue;
        switch (w[0] & 0xffff) {
        case OP_MODE: if (n == 6 && w[1] == found && w[2] == 17) for (int k = 0; k < 3; k++) p->block[k] = (int32_t)w[3 + k]; break;
        case OP_DECORATE: if (n == 4 && w[2] == 33) ids[w[1]].binding = (uint16_t)w[3]; if (n == 4 && w[2] == 34) ids[w[1]].set = (uint16_t)w[3]; break;
        case OP_STRUCT: for (size_t k = 2; k < n; k++) ids[w[1]].members += w[k] < bound && ids[w[k]].members ? ids[w[k]].members : 1; break;
        case OP_POINTER: if (n == 4 && w[3] < bound) ids[w[1]].points_to = w[3]; break;
        case OP_VARIABLE:
            if (n < 4 || w[2] >= bound) break;
            if (w[3] == 9) pushed += (int)ids[ids[w[1]].points_to].members;
            if (w[3] == 12 && used + 12 < sizeof buffers)
                used += (size_t)snprintf(buffers + used, sizeof buffers - used, " %u.%u", ids[w[2]].set, ids[w[2]].binding);
        }
    }
    snprintf(p->shape, sizeof p->shape, "push %d, buffers%s", pushed, buffers);
    free(ids);
}

/* ---- records ------------------------------------------------------------------------------------------------------------------------- */
static int is_other_api(const char *base) {
    static const char *const names[] = { "libOpenCL.so", "libnvidia-opencl.so", "libcuda.so", "libGL.so", "libGLX.so", "libEGL.so", "libGLESv2.so", "libOpenGL.so",
        "libze_loader.so", "libva.so" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (starts(base, names[i])) return 1;
    return 0;
}
static void each_other_api(void (*report)(const char *)) { each_mapped(report, is_other_api); }

static int write_tally(Pipeline *p, Tally *t) {
    uint64_t end = t->end > t->start ? t->end : t->start + 1, total = t->timed ? t->total : end - t->start;
    if (!t->count) return 0;
    begin("kernel");
    field_s("name", p->name); field_n("device", (uint64_t)p->device->ordinal); field_3("grid", t->grid); field_3("block", p->block);
    field_n("start", t->start); field_n("end", end); field_n("count", t->count); field_n("correlation", t->last);
    field_n("total", total > t->count ? total : t->count); field_n("timed", t->timed); field_s("shape", p->shape);
    if (t == &p->unsure) text(",\"unsure\":true");
    finish(0);
    ADD(kernels, t->count);
    t->count = t->timed = t->total = 0;
    return 1;
}
static void write_tallies(Device *d) {
    int any = 0;
    for (Pipeline *p = d->all; p; p = p->next) any += write_tally(p, &p->sure) + write_tally(p, &p->unsure);
    if (any) { begin("waited"); finish(1); }
    written_at = nanoseconds();
}

static void fault(int rc, const char *function) {
    if (rc != DEVICE_LOST || ADD(faults, 1) >= 4) return;
    begin("fault"); field("rc"); integer(rc); field_s("function", function); finish(1);
}

/* A submission, or later an allocation or a pipeline, that the driver refused: the program may have gone on without the GPU. */
static void refused(int rc, const char *function) {
    uint64_t n = ADD(refusals, 1);
    if (!recording || n >= MOST_REFUSALS) return;
    begin("refused"); field("rc"); integer(rc); field_s("function", function);
    field_n("correlation", ++order);
    if (n + 1 >= MOST_REFUSALS) text(",\"last\":true");      /* what comes after is not listed */
    finish(1);
}
static int refused_later(int rc, const char *function) {
    error_state e = keep_error();
    if (rc < 0 && GET(accepted)) { lock(); refused(rc, function); unlock(); }
    restore_error(e);
    return rc;
}

static void completed(Device *d, Submission *s) {
    uint64_t now = nanoseconds(), t[2];
    for (size_t i = 0; i < s->n; i++) {
        Work *w = &s->work[i]; Tally *p = w->unsure ? &w->pipeline->unsure : &w->pipeline->sure;
        if (!p->count) p->start = s->start;
        p->end = now; p->count += w->count;
        if (s->order > p->last) p->last = s->order;
        memcpy(p->grid, w->grid, sizeof p->grid);
        if (w->slot < 0 || d->GetQueryPoolResults(d->handle, d->pool, 2 * (uint32_t)w->slot, 2, sizeof t, t, sizeof *t, RESULT_64) || t[1] <= t[0]) continue;
        p->timed += w->count; p->total += (uint64_t)((double)(t[1] - t[0]) * (double)d->period);
    }
    free(s->work);
    d->ResetFences(d->handle, 1, &s->fence);
    s->work = NULL; s->next = d->spare; d->spare = s;
}

/* under the lock: what has completed since, in any order: a device has several queues */
static void collect(Device *d, int all) {
    int rc, any = 0;
    for (Submission **at = &d->first, *s; owner == process_id() && (s = *at);) {
        if ((rc = d->GetFenceStatus(d->handle, s->fence)) == 0) {
            *at = s->next;
            completed(d, s);
            any = 1;
            continue;
        }
        if (rc < 0) { fault(rc, "vkGetFenceStatus"); break; }
        at = &s->next;
    }
    for (d->last = d->first; d->last && d->last->next;) d->last = d->last->next;
    if (all || (any && nanoseconds() - written_at > PERIOD_NS)) write_tallies(d);
}
#define COUNTER "vkGetSemaphoreCounterValue"
static int waited(Device *d, int rc, const char *function) {
    error_state e = keep_error();
    lock();
    if (d->first || rc < 0) {
        /* Our fence is signalled a moment after what the program waited for. Once, so that one that ends at once has left a record. */
        if (rc == 0 && !GET(kernels) && strcmp(function, COUNTER)) d->WaitForFences(d->handle, 1, &d->first->fence, 1, FIRST_NS);
        fault(rc, function);
        collect(d, 0);
    }
    unlock();
    restore_error(e);
    return rc;
}

static void last_collect(Device *d) {
    uint64_t until = nanoseconds() + LAST_NS;
    collect(d, 0);
    while (d->first && !GET(faults) && nanoseconds() < until) { nap(1); collect(d, 0); }
    write_tallies(d);
}

static void on_end(int64_t status) {
    error_state e = keep_error(); uint64_t unfinished = 0; struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    if (!owner || process_id() != owner || ended || pthread_mutex_timedlock(&state, &until) != 0) return;
    for (Device *d = devices; d; d = d->next) last_collect(d);
    ended = owner;
    begin("driver"); list("nodes", each_node); list("apis", each_other_api); finish(0);
    unfinished = GET(accepted) - GET(kernels);
    begin("end");
    field_n("flush", 0); field_n("kernels", GET(kernels)); field_n("unfinished", unfinished); field_n("dropped", 0);
    field_n("accepted", GET(accepted)); field_n("lost_writes", GET(lost_writes));
    if (status >= 0) field_n("status", (uint64_t)status);
    if (GET(forks)) field_n("forks", GET(forks));
    if (ignores_children()) text(",\"ignores\":true");
    if (unfinished) text(",\"unsettled\":true");
    finish(1);
    unlock();
    restore_error(e);
}
__attribute__((destructor)) static void exited(void) {
    if (ended && ended == process_id()) { begin("exited"); finish(1); }
}
static void in_parent(void) { ADD(forks, 1); }
static void in_child(void) {
    error_state e = keep_error();
    if (!owner) return;
    owner = 0; pending_n = 0; ended = 0;
    if (own_records()) heartbeat(1, NULL);
    close_records();
    restore_error(e);
}

/* Layers between this one and the driver could answer in its place, whoever put them there: the program, a variable or a file of settings. The loader links
 * them up to its own end. Not counted: Khronos' check, and those that come with Mesa's and NVIDIA's drivers to choose a device. */
static void look_at_layers(const Link *below) {
    static const char *const known[] = { "libvulkan.so", "libVkLayer_khronos_", "libVkLayer_MESA_device_select.so", "libGLX_nvidia.so", "gpubuild" };
    static char file[4096];
    for (; below; below = below->next) {
        size_t i = 0; const char *base;
        file_of(*(void *const *)&below->instance, file, sizeof file);
        base = strrchr(file, '/'); base = base ? base + 1 : file;
        while (i < sizeof known / sizeof *known && !starts(base, known[i])) i++;
        if (i < sizeof known / sizeof *known) continue;
        begin("interposed"); field_s("symbol", "vkCreateInstance"); field_s("by", file); finish(1);
    }
}

static void begin_recording(GetProc next, const InstanceInfo *info) {
    static int begun; static char dir[4096], file[4096];
    if (begun++) return;
    if (!setting("GPUBUILD_PROBE_DIR", dir, sizeof dir)) return;
    owner = process_id();
    if (begin_records(dir) != 0) { owner = 0; return; }
    file_of(*(void **)&next, file, sizeof file);
    hold();
    mark_program();
    heartbeat(0, file);
    release();
    const char *cannot = cannot_host();
    if (cannot) { begin("unavailable"); field_s("step", "program"); field_n("rc", 0); field_s("why", cannot); finish(1); return; }
    begin("recording");
    field_s("libcuda", file); field_n("driver", info->app ? info->app->api : 0); field_n("callbacks", 0);
    field_s("engine", info->app && info->app->engine ? info->app->engine : "");
    finish(1);
    recording = 1;
    in_forks(NULL, in_parent, in_child);
    if (at_end(on_end) != 0) { begin("note"); field_s("why", "the end of the process cannot be met"); finish(1); }
}

/* ---- instances and devices ----------------------------------------------------------------------------------------------------------- */
static Link **link_of(const void *chain, int type) {
    for (const Any *a = chain; a; a = a->next) {
        LayerLink *l = (LayerLink *)(void *)a;
        if (a->type == type && l->function == 0) return &l->link;
    }
    return NULL;
}

static int CreateInstance(const InstanceInfo *info, const void *alloc, Handle *out) {
    Link **l = link_of(info->next, S_LOADER_INSTANCE);
    int (*create)(const InstanceInfo *, const void *, Handle *); error_state e = keep_error(); Instance *i = calloc(1, sizeof *i);
    if (!i || !l || !*l) { free(i); return i ? INITIALIZATION_FAILED : OUT_OF_HOST_MEMORY; }
    const Link *below = *l;
    i->get = (*l)->instance;
    *l = (*l)->next;
    *(Function *)&create = i->get(NULL, "vkCreateInstance");
    int rc = create ? create(info, alloc, out) : INITIALIZATION_FAILED;
    lock();
    begin_recording(i->get, info);
    if (owner == process_id()) look_at_layers(below);
    if (rc == 0) {
        i->handle = *out; i->api = info->app && info->app->api ? info->app->api : API(1, 0);
        /* now: later the loader answers with the first layer's functions */
#define TAKE(f) *(Function *)&i->f = i->get(*out, "vk" #f)
        TAKE(DestroyInstance); TAKE(EnumeratePhysicalDevices); TAKE(GetPhysicalDeviceProperties); TAKE(GetPhysicalDeviceProperties2);
#undef TAKE
        i->next = instances; instances = i;
    } else free(i);
    unlock();
    restore_error(e);
    return rc;
}

static void DestroyInstance(Handle h, const void *alloc) {
    Instance **at = &instances, *i = h ? instance_of(h) : NULL;
    if (!i) return;
    void (*destroy)(Handle, const void *) = i->DestroyInstance;
    lock();
    while (*at && *at != i) at = &(*at)->next;
    if (*at) *at = i->next;
    unlock();
    free(i);
    destroy(h, alloc);
}

/* says once of each device what the driver says of it; answers its place in the driver's list */
static int record_device(Instance *i, Handle physical, float *period) {
    static const char *const types[] = { "other", "integrated", "discrete", "virtual", "cpu" };
    static const char digits[] = "0123456789abcdef";
    Handle all[64]; uint32_t n = 64; int at = 0; char hex[32], version[96]; uint32_t timestamps;
    DriverProperties driver = { .type = S_DRIVER_PROPERTIES }; IDProperties id = { .type = S_ID_PROPERTIES }; Properties2 p = { .type = S_PROPERTIES_2, .next = &id };
    if (i->EnumeratePhysicalDevices(i->handle, &n, all) >= 0) for (uint32_t k = 0; k < n; k++) if (all[k] == physical) at = (int)k;
    i->GetPhysicalDeviceProperties(physical, &p.p);
    memcpy(&timestamps, (char *)p.p.limits + TIMESTAMPS_AT, 4);
    memcpy(period, (char *)p.p.limits + TIMESTAMP_PERIOD_AT, 4);
    if (!timestamps) *period = 0;
    if (!recording || at >= 64 || ordinals_written >> at & 1) return at;
    ordinals_written |= (uint64_t)1 << at;
    memcpy(id.device, p.p.cache_uuid, 16);          /* of a driver that is older than device UUIDs */
    if (p.p.api >= API(1, 2)) id.next = &driver;
    if (i->api >= API(1, 1) && p.p.api >= API(1, 1) && i->GetPhysicalDeviceProperties2)
        i->GetPhysicalDeviceProperties2(physical, &p);
    for (int k = 0; k < 16; k++) { hex[2 * k] = digits[id.device[k] >> 4]; hex[2 * k + 1] = digits[id.device[k] & 15]; }
    snprintf(version, sizeof version, "%u.%u.%u", p.p.api >> 22 & 127, p.p.api >> 12 & 1023, p.p.api & 4095);
    begin("device");
    field_n("ordinal", (uint64_t)at);
    field("uuid"); text("\"GPU-"); put(hex, 8);
    for (int k = 8; k < 20; k += 4) { text("-"); put(hex + k, 4); }
    text("-"); put(hex + 20, 12); text("\"");
    field_s("name", p.p.name); field_s("type", p.p.type < 5 ? types[p.p.type] : "unknown"); field_n("vendor", p.p.vendor);
    field("driver_id"); integer(driver.id); field_s("driver_name", driver.name); field_s("driver_info", driver.info); field_s("api", version);
    finish(0);
    begin("driver"); list("nodes", each_node); finish(1);
    return at;
}

static void destroy_objects(Device *d) {
    for (Submission *s = d->spare, *next; s; s = next) { next = s->next; d->DestroyFence(d->handle, s->fence, NULL); free(s); }
    if (d->pool) d->DestroyQueryPool(d->handle, d->pool, NULL);
    drop_table(&d->commands); drop_table(&d->modules); drop_table(&d->pipelines);
}

static int CreateDevice(Handle physical, const DeviceInfo *info, const void *alloc, Handle *out) {
    Link **l = link_of(info->next, S_LOADER_DEVICE); Instance *i = instance_of(physical);
    int (*create)(Handle, const DeviceInfo *, const void *, Handle *); error_state e = keep_error();
    if (!l || !*l || !i) return INITIALIZATION_FAILED;
    GetProc next = (*l)->instance, device = (*l)->device;
    *l = (*l)->next;
    *(Function *)&create = next(i->handle, "vkCreateDevice");
    Device *d = calloc(1, sizeof *d);
    Pipeline *unnamed = calloc(2, sizeof *unnamed);
    int rc = !d || !unnamed ? OUT_OF_HOST_MEMORY : create ? create(physical, info, alloc, out) : INITIALIZATION_FAILED;
    if (rc != 0) { free(d); free(unnamed); return rc; }
    d->handle = *out; d->get = device;
    for (d->free_n = 0; d->free_n < SLOTS; d->free_n++) d->free_slots[d->free_n] = (uint16_t)(SLOTS - 1 - d->free_n);
#define TAKE(f) *(Function *)&d->f = device(*out, "vk" #f)
    TAKE(DestroyDevice); TAKE(CreateShaderModule); TAKE(DestroyShaderModule); TAKE(CreateComputePipelines); TAKE(SetDebugUtilsObjectNameEXT);
    TAKE(AllocateMemory); TAKE(BeginCommandBuffer); TAKE(CmdBindPipeline); TAKE(CmdDispatch); TAKE(CmdDispatchBase); TAKE(CmdDispatchBaseKHR); TAKE(CmdDispatchIndirect);
    TAKE(CmdDispatchIndirect2KHR); TAKE(CmdBindShadersEXT);
    TAKE(CmdBeginConditionalRenderingEXT); TAKE(CmdBeginConditionalRendering2EXT); TAKE(CmdEndConditionalRenderingEXT);
    TAKE(CmdExecuteCommands); TAKE(CmdResetQueryPool); TAKE(CmdWriteTimestamp); TAKE(QueueSubmit); TAKE(QueueSubmit2); TAKE(QueueSubmit2KHR);
    TAKE(QueueWaitIdle); TAKE(DeviceWaitIdle); TAKE(WaitForFences); TAKE(GetFenceStatus); TAKE(ResetFences); TAKE(CreateFence);
    TAKE(WaitSemaphores); TAKE(WaitSemaphoresKHR); TAKE(GetSemaphoreCounterValue); TAKE(GetSemaphoreCounterValueKHR); TAKE(CreateQueryPool);
    TAKE(DestroyQueryPool); TAKE(DestroyFence); TAKE(GetQueryPoolResults);
#define TAKE_OTHER(f, takes, gives) TAKE(f);
    OTHER_WORK(TAKE_OTHER)
#undef TAKE_OTHER
#undef TAKE
    snprintf(unnamed->name, sizeof unnamed->name, "a shader object");
    d->unnamed = d->all = unnamed; d->other = unnamed->next = unnamed + 1;
    d->unnamed->device = d->other->device = d;
    lock();
    d->ordinal = record_device(i, physical, &d->period);
    QueryPoolInfo pool = { S_QUERY_POOL, NULL, 0, QUERY_TIMESTAMP, 2 * SLOTS, 0 };
    if (!recording || d->period <= 0 || d->CreateQueryPool(*out, &pool, NULL, &d->pool) != 0) d->pool = 0;
    d->next = devices; devices = d;
    unlock();
    restore_error(e);
    return rc;
}

static void DestroyDevice(Handle h, const void *alloc) {
    Device **at = &devices, *d = h ? device_of(h) : NULL; error_state e = keep_error();
    if (!d) return;
    lock();
    last_collect(d);
    while (*at && *at != d) at = &(*at)->next;
    if (*at) *at = d->next;
    destroy_objects(d);
    unlock();
    restore_error(e);
    d->DestroyDevice(h, alloc);     /* d stays: its pipelines may be in a command buffer that nobody freed */
}

/* ---- pipelines ----------------------------------------------------------------------------------------------------------------------- */
static int CreateShaderModule(Handle h, const ModuleInfo *info, const void *alloc, Object *out) {
    Device *d = device_of(h); int rc = d->CreateShaderModule(h, info, alloc, out);
    Module *m = rc == 0 && recording ? malloc(sizeof *m + info->size) : NULL;
    if (!m) return rc;
    m->code = (uint32_t *)(void *)(m + 1); m->words = info->size / 4;
    memcpy(m->code, info->code, info->size);
    lock();
    if (!set(&d->modules, *out, m)) free(m);
    unlock();
    return rc;
}
static void DestroyShaderModule(Handle h, Object module, const void *alloc) {
    Device *d = device_of(h);
    lock();
    Module *m = get(&d->modules, module);
    if (m) { free(m); set(&d->modules, module, NULL); }
    unlock();
    d->DestroyShaderModule(h, module, alloc);
}

static int CreateComputePipelines(Handle h, Object cache, uint32_t n, const PipelineInfo *info, const void *alloc, Object *out) {
    Device *d = device_of(h); int rc = d->CreateComputePipelines(h, cache, n, info, alloc, out);
    if (rc < 0 || !recording) return refused_later(rc, "vkCreateComputePipelines");
    lock();
    for (uint32_t i = 0; i < n; i++) {
        const Stage *s = &info[i].stage; Module *m = get(&d->modules, s->module), within; Pipeline *p = calloc(1, sizeof *p);
        if (!p || !out[i] || !set(&d->pipelines, out[i], p)) { free(p); continue; }
        for (const Any *a = s->module ? NULL : s->next; a && !m; a = a->next) if (a->type == S_SHADER_MODULE) {
            const ModuleInfo *given = (const void *)a;
            within.code = (uint32_t *)(uintptr_t)given->code; within.words = given->size / 4; m = &within;
        }
        p->device = d; p->next = d->all; d->all = p;
        snprintf(p->name, sizeof p->name, "%s", s->name);
        describe(m, s->name, p);
    }
    unlock();
    return rc;
}

static int AllocateMemory(Handle h, const void *info, const void *alloc, Object *out) {
    return refused_later(device_of(h)->AllocateMemory(h, info, alloc, out), "vkAllocateMemory");
}

/* a label says more than the name of the entry point, which is often "main" */
static int SetDebugUtilsObjectNameEXT(Handle h, const NameInfo *info) {
    Device *d = device_of(h);
    lock();
    Pipeline *p = info->object_type == OBJECT_PIPELINE && info->name && *info->name ? get(&d->pipelines, info->object) : NULL;
    if (p) snprintf(p->name, sizeof p->name, "%s", info->name);
    unlock();
    return d->SetDebugUtilsObjectNameEXT(h, info);
}

/* ---- commands ------------------------------------------------------------------------------------------------------------------------ */
static Commands *commands_of(Device *d, Handle buffer) {
    Commands *c = get(&d->commands, (uint64_t)(uintptr_t)buffer);
    if (!c && (c = calloc(1, sizeof *c)) && !set(&d->commands, (uint64_t)(uintptr_t)buffer, c)) { free(c); c = NULL; }
    if (c) c->device = d;
    return c;
}

static void give_slot(Device *d, int slot) { if (slot >= 0) d->free_slots[d->free_n++] = (uint16_t)slot; }

static int BeginCommandBuffer(Handle buffer, const BeginInfo *info) {
    Device *d = device_of(buffer);
    lock();
    Commands *c = commands_of(d, buffer);
    for (size_t i = 0; c && i < c->n; i++) give_slot(d, c->work[i].slot);
    if (c) { c->n = 0; c->slots = c->conditional = 0; c->bound = NULL; }
    unlock();
    return d->BeginCommandBuffer(buffer, info);
}
static void CmdBindPipeline(Handle buffer, int point, Object pipeline) {
    Device *d = device_of(buffer);
    lock();
    Commands *c = point == COMPUTE ? commands_of(d, buffer) : NULL;
    if (c) c->bound = get(&d->pipelines, pipeline);
    unlock();
    d->CmdBindPipeline(buffer, point, pipeline);
}
/* shaders without a pipeline: from here on the bound one is not what is dispatched */
static void CmdBindShadersEXT(Handle buffer, uint32_t n, const uint32_t *stages, const Object *shaders) {
    Device *d = device_of(buffer);
    lock();
    Commands *c = commands_of(d, buffer);
    for (uint32_t i = 0; c && i < n; i++) if (stages[i] == STAGE_COMPUTE) c->bound = NULL;
    unlock();
    d->CmdBindShadersEXT(buffer, n, stages, shaders);
}

static int add_work(Commands *c, Pipeline *p, uint64_t count, int slot, int unsure) {
    Work *last = c->n ? &c->work[c->n - 1] : NULL;
    unsure |= c->conditional;
    if (last && last->pipeline == p && last->unsure == unsure && last->slot < 0 && slot < 0) { last->count += count; return 1; }
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 8; Work *more = realloc(c->work, cap * sizeof *more);
        if (!more) return 0;
        c->work = more; c->cap = cap;
    }
    c->work[c->n++] = (Work){ p, count, slot, unsure, { 0, 0, 0 } };
    return 1;
}

static int take_slot(Device *d, Commands *c) {
    if (!d->pool || c->slots >= SLOTS_OF_BUFFER || !d->free_n) return -1;
    c->slots++;
    return d->free_slots[--d->free_n];
}

/* Before the dispatch: it is noted, and the first timestamp written where there is room for its second. */
static int dispatching(Device *d, Handle buffer, uint32_t x, uint32_t y, uint32_t z, int indirect) {
    int slot = -1;
    if (!recording || (!indirect && (!x || !y || !z))) return -1;    /* no workgroups: nothing runs */
    lock();
    Commands *c = commands_of(d, buffer);
    if (c) {
        slot = take_slot(d, c);
        if (!add_work(c, c->bound ? c->bound : d->unnamed, 1, slot, indirect)) { give_slot(d, slot); slot = -1; }
        if (c->n) { int32_t *g = c->work[c->n - 1].grid; g[0] = (int32_t)x; g[1] = (int32_t)y; g[2] = (int32_t)z; }
    }
    unlock();
    if (slot < 0) return -1;
    d->CmdResetQueryPool(buffer, d->pool, 2 * (uint32_t)slot, 2);
    d->CmdWriteTimestamp(buffer, BOTTOM_OF_PIPE, d->pool, 2 * (uint32_t)slot);
    return slot;
}
static void dispatched(Device *d, Handle buffer, int slot) {
    if (slot >= 0) d->CmdWriteTimestamp(buffer, BOTTOM_OF_PIPE, d->pool, 2 * (uint32_t)slot + 1);
}
#define RUN(x, y, z, indirect, call) \
    Device *d = device_of(buffer); int slot = dispatching(d, buffer, x, y, z, indirect); d->call; dispatched(d, buffer, slot)
#define DISPATCH(x, y, z, call) RUN(x, y, z, 0, call)
static void CmdDispatch(Handle buffer, uint32_t x, uint32_t y, uint32_t z) { DISPATCH(x, y, z, CmdDispatch(buffer, x, y, z)); }
static void CmdDispatchBase(Handle buffer, uint32_t a, uint32_t b, uint32_t c, uint32_t x, uint32_t y, uint32_t z) {
    DISPATCH(x, y, z, CmdDispatchBase(buffer, a, b, c, x, y, z));
}
static void CmdDispatchBaseKHR(Handle buffer, uint32_t a, uint32_t b, uint32_t c, uint32_t x, uint32_t y, uint32_t z) {
    DISPATCH(x, y, z, CmdDispatchBaseKHR(buffer, a, b, c, x, y, z));
}
static void CmdDispatchIndirect(Handle buffer, Object from, uint64_t offset) { RUN(0, 0, 0, 1, CmdDispatchIndirect(buffer, from, offset)); }
static void CmdDispatchIndirect2KHR(Handle buffer, const void *info) { RUN(0, 0, 0, 1, CmdDispatchIndirect2KHR(buffer, info)); }

/* What ran is not known, so it is unsure, under the name of the function. */
static Device *other_work(Handle buffer, const char *function) {
    Device *d = device_of(buffer);
    lock();
    Commands *c = recording ? commands_of(d, buffer) : NULL;
    if (c && add_work(c, d->other, 1, -1, 1)) snprintf(d->other->name, sizeof d->other->name, "%s", function);
    unlock();
    return d;
}
#define OTHER(f, takes, gives) static void f takes { other_work(b, "vk" #f)->f gives; }
OTHER_WORK(OTHER)

static void set_conditional(Device *d, Handle buffer, int is) {
    lock();
    Commands *c = commands_of(d, buffer);
    if (c) c->conditional = is;
    unlock();
}
static void CmdBeginConditionalRenderingEXT(Handle buffer, const void *info) {
    Device *d = device_of(buffer);
    set_conditional(d, buffer, 1);
    d->CmdBeginConditionalRenderingEXT(buffer, info);
}
static void CmdBeginConditionalRendering2EXT(Handle buffer, const void *info) {
    Device *d = device_of(buffer);
    set_conditional(d, buffer, 1);
    d->CmdBeginConditionalRendering2EXT(buffer, info);
}
static void CmdEndConditionalRenderingEXT(Handle buffer) {
    Device *d = device_of(buffer);
    set_conditional(d, buffer, 0);
    d->CmdEndConditionalRenderingEXT(buffer);
}

static void CmdExecuteCommands(Handle buffer, uint32_t n, const Handle *secondary) {
    Device *d = device_of(buffer);
    lock();
    Commands *c = commands_of(d, buffer);
    for (uint32_t i = 0; c && i < n; i++) {
        Commands *s = commands_of(d, secondary[i]);
        /* the slots stay the secondary buffer's */
        for (size_t k = 0; s && k < s->n; k++) if (add_work(c, s->work[k].pipeline, s->work[k].count, -1, s->work[k].unsure))
            memcpy(c->work[c->n - 1].grid, s->work[k].grid, sizeof s->work[k].grid);
    }
    unlock();
    d->CmdExecuteCommands(buffer, n, secondary);
}

/* ---- submissions --------------------------------------------------------------------------------------------------------------------- */
static void add_buffer(Device *d, Handle buffer, Submission **s) {
    Commands *c = get(&d->commands, (uint64_t)(uintptr_t)buffer); FenceInfo info = { S_FENCE, NULL, 0 };
    if (!c || !c->n) return;
    for (size_t i = 0; i < c->n; i++) ADD(accepted, c->work[i].count);
    if (ended == process_id()) { begin("late"); finish(1); }
    if (!*s) {
        if ((*s = d->spare)) d->spare = (*s)->next;
        else if ((*s = calloc(1, sizeof **s)) && d->CreateFence(d->handle, &info, NULL, &(*s)->fence) != 0) { free(*s); *s = NULL; }
        if (!*s) return;
        (*s)->n = 0; (*s)->next = NULL; (*s)->start = nanoseconds(); (*s)->order = ++order;
    }
    Work *more = realloc((*s)->work, ((*s)->n + c->n) * sizeof *more);
    if (!more) return;
    memcpy(more + (*s)->n, c->work, c->n * sizeof *more);
    (*s)->work = more; (*s)->n += c->n;
}

/* Behind what was submitted, a fence: it is signalled when all of that has completed. */
static void submitted(Device *d, Handle queue, Submission *s) {
    if (!s) return;
    int rc = d->QueueSubmit(queue, 0, NULL, s->fence);
    lock();
    if (rc == 0) {
        if (d->last) d->last->next = s; else d->first = s;
        d->last = s;
    } else { fault(rc, "vkQueueSubmit"); s->next = d->spare; d->spare = s; }
    collect(d, 0);
    unlock();
}
/* What the driver refused was not accepted. */
static void refuse(Device *d, Submission *s, int rc) {
    lock();
    for (size_t i = 0; s && i < s->n; i++) ADD(accepted, -s->work[i].count);
    if (s) { s->next = d->spare; d->spare = s; }
    if (rc == DEVICE_LOST) fault(rc, "vkQueueSubmit"); else refused(rc, "vkQueueSubmit");
    unlock();
}

static int QueueSubmit(Handle queue, uint32_t n, const Submit *info, Object fence) {
    Device *d = device_of(queue); Submission *s = NULL; error_state e = keep_error();
    lock();
    for (uint32_t i = 0; recording && i < n; i++) for (uint32_t k = 0; k < info[i].n; k++) add_buffer(d, info[i].buffers[k], &s);
    unlock();
    int rc = d->QueueSubmit(queue, n, info, fence);
    if (rc == 0) submitted(d, queue, s); else refuse(d, s, rc);
    restore_error(e);
    return rc;
}
static int submit2(Device *d, int (*call)(Handle, uint32_t, const Submit2 *, Object), Handle queue, uint32_t n, const Submit2 *info, Object fence) {
    Submission *s = NULL; error_state e = keep_error();
    lock();
    for (uint32_t i = 0; recording && i < n; i++) for (uint32_t k = 0; k < info[i].n; k++) add_buffer(d, info[i].buffers[k].buffer, &s);
    unlock();
    int rc = call(queue, n, info, fence);
    if (rc == 0) submitted(d, queue, s); else refuse(d, s, rc);
    restore_error(e);
    return rc;
}
static int QueueSubmit2(Handle queue, uint32_t n, const Submit2 *info, Object fence) {
    Device *d = device_of(queue);
    return submit2(d, d->QueueSubmit2, queue, n, info, fence);
}
static int QueueSubmit2KHR(Handle queue, uint32_t n, const Submit2 *info, Object fence) {
    Device *d = device_of(queue);
    return submit2(d, d->QueueSubmit2KHR, queue, n, info, fence);
}

#define WAITED(h, call, name) Device *d = device_of(h); return waited(d, d->call, name)
static int WaitForFences(Handle h, uint32_t n, const Object *f, uint32_t all, uint64_t t) { WAITED(h, WaitForFences(h, n, f, all, t), "vkWaitForFences"); }
static int GetFenceStatus(Handle h, Object f) { WAITED(h, GetFenceStatus(h, f), "vkGetFenceStatus"); }
static int QueueWaitIdle(Handle h) { WAITED(h, QueueWaitIdle(h), "vkQueueWaitIdle"); }
static int DeviceWaitIdle(Handle h) { WAITED(h, DeviceWaitIdle(h), "vkDeviceWaitIdle"); }
static int WaitSemaphores(Handle h, const void *w, uint64_t t) { WAITED(h, WaitSemaphores(h, w, t), "vkWaitSemaphores"); }
static int WaitSemaphoresKHR(Handle h, const void *w, uint64_t t) { WAITED(h, WaitSemaphoresKHR(h, w, t), "vkWaitSemaphores"); }
static int GetSemaphoreCounterValue(Handle h, Object s, uint64_t *v) { WAITED(h, GetSemaphoreCounterValue(h, s, v), COUNTER); }
static int GetSemaphoreCounterValueKHR(Handle h, Object s, uint64_t *v) {
    WAITED(h, GetSemaphoreCounterValueKHR(h, s, v), COUNTER);
}

/* ---- lookup -------------------------------------------------------------------------------------------------------------------------- */
static Function DeviceProc(Handle, const char *);
static Function InstanceProc(Handle, const char *);
#define OURS(f) { "vk" #f, (Function)f }
static const struct { const char *name; Function f; } of_devices[] = {
    OURS(DestroyDevice), OURS(CreateShaderModule), OURS(DestroyShaderModule), OURS(CreateComputePipelines), OURS(SetDebugUtilsObjectNameEXT),
    OURS(AllocateMemory), OURS(CmdBeginConditionalRenderingEXT), OURS(CmdBeginConditionalRendering2EXT), OURS(CmdEndConditionalRenderingEXT),
    OURS(CmdDispatchIndirect2KHR), OURS(CmdBindShadersEXT),
#define OURS_TOO(f, takes, gives) OURS(f),
    OTHER_WORK(OURS_TOO)
#undef OURS_TOO
    OURS(BeginCommandBuffer), OURS(CmdBindPipeline), OURS(CmdDispatch), OURS(CmdDispatchBase), OURS(CmdDispatchBaseKHR), OURS(CmdDispatchIndirect),
    OURS(CmdExecuteCommands), OURS(QueueSubmit), OURS(QueueSubmit2), OURS(QueueSubmit2KHR), OURS(WaitForFences), OURS(GetFenceStatus),
    OURS(QueueWaitIdle), OURS(DeviceWaitIdle), OURS(WaitSemaphores), OURS(WaitSemaphoresKHR), OURS(GetSemaphoreCounterValue),
    OURS(GetSemaphoreCounterValueKHR), { "vkGetDeviceProcAddr", (Function)DeviceProc },
}, of_instances[] = {
    OURS(CreateInstance), OURS(DestroyInstance), OURS(CreateDevice), { "vkGetInstanceProcAddr", (Function)InstanceProc },
};
static Function ours_for_device(const char *name) {
    for (size_t i = 0; i < sizeof of_devices / sizeof *of_devices; i++) if (!strcmp(name, of_devices[i].name)) return of_devices[i].f;
    return NULL;
}
static Function DeviceProc(Handle h, const char *name) {
    Device *d = device_of(h); Function next = d ? d->get(h, name) : NULL, f = next ? ours_for_device(name) : NULL;
    return f ? f : next;                /* never offer what the driver lacks */
}
static Function InstanceProc(Handle h, const char *name) {
    for (size_t i = 0; i < sizeof of_instances / sizeof *of_instances; i++) if (!strcmp(name, of_instances[i].name)) return of_instances[i].f;
    Instance *i = h ? instance_of(h) : NULL; Function next = i ? i->get(h, name) : NULL, f = next ? ours_for_device(name) : NULL;
    return f ? f : next;
}

EXPORT int vkNegotiateLoaderLayerInterfaceVersion(Negotiate *v) {
    if (v->version > 2) v->version = 2;
    v->instance = InstanceProc; v->device = DeviceProc; v->physical = NULL;
    return 0;
}

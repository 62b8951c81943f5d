/* gpubuild's positive control for Vulkan: the smallest program that certainly dispatches a compute pipeline. It loads the Vulkan loader, takes
 * the first device that is no processor, else the first one, lets it compute v[i] ^= i, checks every result and prints one line of JSON. */
#include "os_linux.h"
#include "vulkan.h"

enum { RIGHT = 0, NO_LIBRARY = 3, NO_DEVICE = 4, INIT_FAILED = 5, LOAD_FAILED = 6, RUN_FAILED = 7, WRONG = 8, N = 256 };

/* layout(local_size_x = 64) in; layout(std430, binding = 0) buffer B { uint v[]; } b;
 * void gpubuild_control() { uint i = gl_GlobalInvocationID.x; b.v[i] = b.v[i] ^ i; }       (glslangValidator 12 -V -g0) */
static const uint32_t code[] = {
    0x7230203, 0x10000, 0x8000b, 0x21, 0x0, 0x20011, 0x1, 0x6000b, 0x1, 0x4c534c47, 0x6474732e, 0x3035342e,
    0x0, 0x3000e, 0x0, 0x1, 0x9000f, 0x5, 0x4, 0x62757067, 0x646c6975, 0x6e6f635f, 0x6c6f7274, 0x0,
    0xb, 0x60010, 0x4, 0x11, 0x40, 0x1, 0x1, 0x40047, 0xb, 0xb, 0x1c, 0x40047,
    0x10, 0x6, 0x4, 0x50048, 0x11, 0x0, 0x23, 0x0, 0x30047, 0x11, 0x3, 0x40047,
    0x13, 0x22, 0x0, 0x40047, 0x13, 0x21, 0x0, 0x40047, 0x20, 0xb, 0x19, 0x20013,
    0x2, 0x30021, 0x3, 0x2, 0x40015, 0x6, 0x20, 0x0, 0x40020, 0x7, 0x7, 0x6,
    0x40017, 0x9, 0x6, 0x3, 0x40020, 0xa, 0x1, 0x9, 0x4003b, 0xa, 0xb, 0x1,
    0x4002b, 0x6, 0xc, 0x0, 0x40020, 0xd, 0x1, 0x6, 0x3001d, 0x10, 0x6, 0x3001e,
    0x11, 0x10, 0x40020, 0x12, 0x2, 0x11, 0x4003b, 0x12, 0x13, 0x2, 0x40015, 0x14,
    0x20, 0x1, 0x4002b, 0x14, 0x15, 0x0, 0x40020, 0x18, 0x2, 0x6, 0x4002b, 0x6,
    0x1e, 0x40, 0x4002b, 0x6, 0x1f, 0x1, 0x6002c, 0x9, 0x20, 0x1e, 0x1f, 0x1f,
    0x50036, 0x2, 0x4, 0x0, 0x3, 0x200f8, 0x5, 0x4003b, 0x7, 0x8, 0x7, 0x50041,
    0xd, 0xe, 0xb, 0xc, 0x4003d, 0x6, 0xf, 0xe, 0x3003e, 0x8, 0xf, 0x4003d,
    0x6, 0x16, 0x8, 0x4003d, 0x6, 0x17, 0x8, 0x60041, 0x18, 0x19, 0x13, 0x15,
    0x17, 0x4003d, 0x6, 0x1a, 0x19, 0x4003d, 0x6, 0x1b, 0x8, 0x500c6, 0x6, 0x1c,
    0x1a, 0x1b, 0x60041, 0x18, 0x1d, 0x13, 0x15, 0x16, 0x3003e, 0x1d, 0x1c, 0x100fd,
    0x10038,
};

enum { MOST_DEVICES = 16 };
static char name[256], file[4096];
static Properties found[MOST_DEVICES];      /* all devices of this machine */
static uint32_t found_n;
static const char *comma = "";

static void quoted(const char *s) {
    putchar('"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') printf("\\%c", c);
        else if (c < 0x20 || c == 0x7f) printf("\\u%04x", c);
        else putchar(c);
    }
    putchar('"');
}
static void node(const char *n) { printf("%s", comma); quoted(n); comma = ","; }

static void leave(int status, const char *step, int rc, const char *why) {
    printf("{\"control\":1,\"ok\":%s,\"step\":\"%s\",\"rc\":%d,\"why\":", status == RIGHT ? "true" : "false", step, rc);
    quoted(why);
    printf(",\"device\":"); quoted(name);
    printf(",\"libcuda\":"); quoted(file);
    printf(",\"nodes\":["); each_node(node); printf("],\"devices\":[");
    for (uint32_t i = 0; i < found_n; i++) {
        static const char *const types[] = { "other", "integrated", "discrete", "virtual", "cpu" };
        printf("%s{\"name\":", i ? "," : ""); quoted(found[i].name);
        printf(",\"type\":\"%s\"}", found[i].type < 5 ? types[found[i].type] : "unknown");
    }
    printf("]}\n");
    exit(status);
}

static void *loader;
static Handle instance;
static void *function(const char *called) {
    static GetProc get;
    if (!get) *(void **)&get = dlsym(loader, "vkGetInstanceProcAddr");
    void *f = get ? get(instance, called) : NULL;
    if (!f) leave(NO_LIBRARY, called, 0, "the Vulkan loader has no such function");
    return f;
}
#define CALL(type, called, ...) ((type (*)(__VA_ARGS__))function(called))
#define CHECK(status, called, why, ...) do { int r_ = (__VA_ARGS__); if (r_) leave(status, called, r_, why); } while (0)

/* the first device that is no processor, else the first */
static Handle choose(void) {
    Handle all[MOST_DEVICES], chosen = NULL; uint32_t n = MOST_DEVICES, type = TYPE_CPU; int rc;
    rc = CALL(int, "vkEnumeratePhysicalDevices", Handle, uint32_t *, Handle *)(instance, &n, all);
    if (rc < 0 && rc != INITIALIZATION_FAILED) leave(INIT_FAILED, "vkEnumeratePhysicalDevices", rc, "the devices cannot be listed");
    if (rc < 0 || n == 0) leave(NO_DEVICE, "vkEnumeratePhysicalDevices", rc, "there is no Vulkan device");
    for (uint32_t i = 0; i < n; i++) {
        Properties *p = &found[found_n++];
        CALL(void, "vkGetPhysicalDeviceProperties", Handle, Properties *)(all[i], p);
        p->name[sizeof p->name - 1] = 0;
        if (chosen && (type != TYPE_CPU || p->type == TYPE_CPU)) continue;
        chosen = all[i]; type = p->type;
        memcpy(name, p->name, sizeof name);
    }
    return chosen;
}

static uint32_t queue_family(Handle physical) {
    QueueFamily f[32]; uint32_t n = 32;
    CALL(void, "vkGetPhysicalDeviceQueueFamilyProperties", Handle, uint32_t *, QueueFamily *)(physical, &n, f);
    for (uint32_t i = 0; i < n; i++) if (f[i].flags & QUEUE_COMPUTE) return i;
    leave(NO_DEVICE, "queue", 0, "the device has no queue that computes");
    return 0;
}

static uint32_t memory_type(Handle physical, uint32_t allowed) {
    Memory m;
    CALL(void, "vkGetPhysicalDeviceMemoryProperties", Handle, Memory *)(physical, &m);
    for (uint32_t i = 0; i < m.types_n; i++)
        if (allowed >> i & 1 && (m.types[i].flags & HOST_VISIBLE_COHERENT) == HOST_VISIBLE_COHERENT) return i;
    leave(RUN_FAILED, "memory", 0, "the device has no memory that the host can read");
    return 0;
}

int main(void) {
    Application app = { S_APPLICATION, NULL, "gpubuild-control", 1, "gpubuild", 1, API(1, 1) };
    InstanceInfo info = { .type = S_INSTANCE, .app = &app };
    Handle device, queue, commands; Object buffer, memory, module, set_layout, layout, pipeline, descriptors, set, pool, fence;
    float priority = 1; uint32_t *v; Requirements need; struct timespec now;
    if (!(loader = dlopen("libvulkan.so.1", RTLD_NOW))) leave(NO_LIBRARY, "load", 0, dlerror());
    file_of(dlsym(loader, "vkGetInstanceProcAddr"), file, sizeof file);
    int rc = CALL(int, "vkCreateInstance", const InstanceInfo *, const void *, Handle *)(&info, NULL, &instance);
    if (rc == INCOMPATIBLE_DRIVER) leave(NO_DEVICE, "vkCreateInstance", rc, "the Vulkan loader finds no driver (ICD)");
    if (rc) leave(INIT_FAILED, "vkCreateInstance", rc, rc == LAYER_NOT_PRESENT ? "a layer was not found" : "no instance was made");
    Handle physical = choose(); uint32_t family = queue_family(physical);
    QueueInfo queues = { S_QUEUE, NULL, 0, family, 1, &priority };
    DeviceInfo devices = { .type = S_DEVICE, .queues_n = 1, .queues = &queues };
#define MAKE(what, call, in, out) CHECK(RUN_FAILED, call, what " was refused", \
    CALL(int, call, Handle, const void *, const void *, void *)(device, in, NULL, out))
    CHECK(INIT_FAILED, "vkCreateDevice", "the device cannot be opened",
        CALL(int, "vkCreateDevice", Handle, const DeviceInfo *, const void *, Handle *)(physical, &devices, NULL, &device));
    CALL(void, "vkGetDeviceQueue", Handle, uint32_t, uint32_t, Handle *)(device, family, 0, &queue);

    BufferInfo buffers = { S_BUFFER, NULL, 0, N * sizeof *v, BUFFER_STORAGE, 0, 0, NULL };
    MAKE("a buffer", "vkCreateBuffer", &buffers, &buffer);
    CALL(void, "vkGetBufferMemoryRequirements", Handle, Object, Requirements *)(device, buffer, &need);
    MemoryInfo memories = { S_MEMORY, NULL, need.size, memory_type(physical, need.types) };
    MAKE("memory", "vkAllocateMemory", &memories, &memory);
    CHECK(RUN_FAILED, "vkBindBufferMemory", "memory was refused",
        CALL(int, "vkBindBufferMemory", Handle, Object, Object, uint64_t)(device, buffer, memory, 0));
    CHECK(RUN_FAILED, "vkMapMemory", "the memory cannot be mapped",
        CALL(int, "vkMapMemory", Handle, Object, uint64_t, uint64_t, uint32_t, void *)(device, memory, 0, N * sizeof *v, 0, &v));
    clock_gettime(CLOCK_REALTIME, &now);
    uint32_t secret = (uint32_t)now.tv_nsec * 2654435761u;      /* another one each time: no answer can be ready beforehand */
    for (int i = 0; i < N; i++) v[i] = secret;

    ModuleInfo modules = { S_SHADER_MODULE, NULL, 0, sizeof code, code };
    MAKE("the control's SPIR-V", "vkCreateShaderModule", &modules, &module);
    Binding binding = { 0, STORAGE_BUFFER, 1, STAGE_COMPUTE, NULL };
    SetLayoutInfo set_layouts = { S_SET_LAYOUT, NULL, 0, 1, &binding };
    MAKE("a layout", "vkCreateDescriptorSetLayout", &set_layouts, &set_layout);
    LayoutInfo layouts = { S_PIPELINE_LAYOUT, NULL, 0, 1, &set_layout, 0, NULL };
    MAKE("a layout", "vkCreatePipelineLayout", &layouts, &layout);
    PipelineInfo pipelines = { S_COMPUTE_PIPELINE, NULL, 0, { S_STAGE, NULL, 0, STAGE_COMPUTE, module, "gpubuild_control", NULL }, layout, 0, 0 };
    CHECK(LOAD_FAILED, "vkCreateComputePipelines", "the driver did not compile the control's SPIR-V",
        CALL(int, "vkCreateComputePipelines", Handle, Object, uint32_t, const PipelineInfo *, const void *, Object *)
        (device, 0, 1, &pipelines, NULL, &pipeline));
    PoolSize size = { STORAGE_BUFFER, 1 };
    DescriptorPoolInfo pools = { S_DESCRIPTOR_POOL, NULL, 0, 1, 1, &size };
    MAKE("descriptors", "vkCreateDescriptorPool", &pools, &descriptors);
    SetInfo sets = { S_DESCRIPTOR_SET, NULL, descriptors, 1, &set_layout };
    CHECK(RUN_FAILED, "vkAllocateDescriptorSets", "descriptors were refused",
        CALL(int, "vkAllocateDescriptorSets", Handle, const SetInfo *, Object *)(device, &sets, &set));
    BufferPart part = { buffer, 0, N * sizeof *v };
    Write write = { S_WRITE_SET, NULL, set, 0, 0, 1, STORAGE_BUFFER, NULL, &part, NULL };
    CALL(void, "vkUpdateDescriptorSets", Handle, uint32_t, const Write *, uint32_t, const void *)(device, 1, &write, 0, NULL);

    CommandPoolInfo command_pools = { S_COMMAND_POOL, NULL, 0, family };
    MAKE("commands", "vkCreateCommandPool", &command_pools, &pool);
    CommandBufferInfo command_buffers = { S_COMMAND_BUFFER, NULL, pool, 0, 1 };
    CHECK(RUN_FAILED, "vkAllocateCommandBuffers", "commands were refused",
        CALL(int, "vkAllocateCommandBuffers", Handle, const CommandBufferInfo *, Handle *)(device, &command_buffers, &commands));
    BeginInfo begins = { S_BEGIN, NULL, 0, NULL };
    CHECK(RUN_FAILED, "vkBeginCommandBuffer", "commands were refused",
        CALL(int, "vkBeginCommandBuffer", Handle, const BeginInfo *)(commands, &begins));
    CALL(void, "vkCmdBindPipeline", Handle, int, Object)(commands, COMPUTE, pipeline);
    CALL(void, "vkCmdBindDescriptorSets", Handle, int, Object, uint32_t, uint32_t, const Object *, uint32_t, const uint32_t *)
        (commands, COMPUTE, layout, 0, 1, &set, 0, NULL);
    CALL(void, "vkCmdDispatch", Handle, uint32_t, uint32_t, uint32_t)(commands, N / 64, 1, 1);
    CHECK(RUN_FAILED, "vkEndCommandBuffer", "commands were refused", CALL(int, "vkEndCommandBuffer", Handle)(commands));
    FenceInfo fences = { S_FENCE, NULL, 0 };
    MAKE("a fence", "vkCreateFence", &fences, &fence);
    Submit submit = { .type = S_SUBMIT, .n = 1, .buffers = &commands };
    CHECK(RUN_FAILED, "vkQueueSubmit", "the dispatch was refused",
        CALL(int, "vkQueueSubmit", Handle, uint32_t, const Submit *, Object)(queue, 1, &submit, fence));
    CHECK(RUN_FAILED, "vkWaitForFences", "the dispatch failed",
        CALL(int, "vkWaitForFences", Handle, uint32_t, const Object *, uint32_t, uint64_t)(device, 1, &fence, 1, 30000000000u));
    for (uint32_t i = 0; i < N; i++) if (v[i] != (secret ^ i)) leave(WRONG, "result", (int)i, "a result is wrong");
    leave(RIGHT, "done", 0, "");
    return RIGHT;
}

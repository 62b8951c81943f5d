/* The programs of the Vulkan zoo: words say one after the other what this one does. See zoo.toml. It is made of the control's own functions. */
#define main control_main
#include "control_vulkan.c"
#undef main
#include <sys/wait.h>

enum { LEVEL_SECONDARY = 1, S_INHERITANCE = 41 };
typedef struct { int32_t type; const void *next; Object pass; uint32_t subpass; Object frame; uint32_t query, flags, statistics; } Inheritance;

static Handle physical, device, queue, commands;
static Object buffer, pipeline, layout, set, pool, fence, module;
static int conditional;
static uint32_t family, *v, words[sizeof code / sizeof *code];
static const char *engine = "zoo", *layer;

static void must(int rc, const char *what) {
    if (rc == 0) return;
    fprintf(stderr, "%s: %d\n", what, rc);
    exit(9);
}
static int has(char **argv, const char *word) {
    for (char **a = argv + 1; *a; a++) if (!strcmp(*a, word)) return 1;
    return 0;
}
static void make(const char *call, const void *info, void *out) {
    must(CALL(int, call, Handle, const void *, const void *, void *)(device, info, NULL, out), call);
}

static void open_instance(void) {
    Application app = { S_APPLICATION, NULL, "zoo", 1, engine, 1, API(1, 1) };
    InstanceInfo info = { .type = S_INSTANCE, .app = &app, .layers_n = layer ? 1 : 0, .layers = &layer };
    if (!(loader = dlopen("libvulkan.so.1", RTLD_NOW))) { fprintf(stderr, "no loader: on the CPU then\n"); exit(0); }
    must(CALL(int, "vkCreateInstance", const InstanceInfo *, const void *, Handle *)(&info, NULL, &instance), "vkCreateInstance");
}
static void open_device(void) {
    float priority = 1;
    physical = choose();
    family = queue_family(physical);
    QueueInfo queues = { S_QUEUE, NULL, 0, family, 1, &priority };
    struct { int32_t type; void *next; uint32_t on, inherited; } feature = { 1000081001, NULL, 1, 0 };
    const char *extension = "VK_EXT_conditional_rendering";
    DeviceInfo devices = { .type = S_DEVICE, .queues_n = 1, .queues = &queues };
    if (conditional) { devices.next = &feature; devices.extensions_n = 1; devices.extensions = &extension; }
    must(CALL(int, "vkCreateDevice", Handle, const DeviceInfo *, const void *, Handle *)(physical, &devices, NULL, &device), "vkCreateDevice");
    CALL(void, "vkGetDeviceQueue", Handle, uint32_t, uint32_t, Handle *)(device, family, 0, &queue);
}
static Handle command_buffer(int level) {
    Handle b;
    CommandBufferInfo info = { S_COMMAND_BUFFER, NULL, pool, level, 1 };
    must(CALL(int, "vkAllocateCommandBuffers", Handle, const CommandBufferInfo *, Handle *)(device, &info, &b), "commands");
    return b;
}
static void set_up(void) {
    Requirements need; Object memory, set_layout, descriptors;
    BufferInfo buffers = { S_BUFFER, NULL, 0, N * sizeof *v, BUFFER_STORAGE | 0x102, 0, 0, NULL };       /* transfers and indirect, too */
    if (conditional) buffers.usage |= 0x200;
    make("vkCreateBuffer", &buffers, &buffer);
    CALL(void, "vkGetBufferMemoryRequirements", Handle, Object, Requirements *)(device, buffer, &need);
    MemoryInfo memories = { S_MEMORY, NULL, need.size, memory_type(physical, need.types) };
    make("vkAllocateMemory", &memories, &memory);
    must(CALL(int, "vkBindBufferMemory", Handle, Object, Object, uint64_t)(device, buffer, memory, 0), "memory");
    must(CALL(int, "vkMapMemory", Handle, Object, uint64_t, uint64_t, uint32_t, void *)(device, memory, 0, N * sizeof *v, 0, &v), "memory");
    for (int i = 0; i < N; i++) v[i] = i < 3 ? 1 : 7;
    memcpy(words, code, sizeof words);
    for (char *p = (char *)words; p < (char *)words + sizeof words - 16; p++) if (!memcmp(p, "gpubuild_control", 16)) memcpy(p, "matmul_product_1", 16);
    ModuleInfo modules = { S_SHADER_MODULE, NULL, 0, sizeof words, words };
    make("vkCreateShaderModule", &modules, &module);
    Binding binding = { 0, STORAGE_BUFFER, 1, STAGE_COMPUTE, NULL };
    SetLayoutInfo set_layouts = { S_SET_LAYOUT, NULL, 0, 1, &binding };
    make("vkCreateDescriptorSetLayout", &set_layouts, &set_layout);
    LayoutInfo layouts = { S_PIPELINE_LAYOUT, NULL, 0, 1, &set_layout, 0, NULL };
    make("vkCreatePipelineLayout", &layouts, &layout);
    PipelineInfo pipelines = { S_COMPUTE_PIPELINE, NULL, 0, { S_STAGE, NULL, 0, STAGE_COMPUTE, module, "matmul_product_1", NULL }, layout, 0, 0 };
    must(CALL(int, "vkCreateComputePipelines", Handle, Object, uint32_t, const PipelineInfo *, const void *, Object *)
        (device, 0, 1, &pipelines, NULL, &pipeline), "pipeline");
    PoolSize size = { STORAGE_BUFFER, 1 };
    DescriptorPoolInfo pools = { S_DESCRIPTOR_POOL, NULL, 0, 1, 1, &size };
    make("vkCreateDescriptorPool", &pools, &descriptors);
    SetInfo sets = { S_DESCRIPTOR_SET, NULL, descriptors, 1, &set_layout };
    must(CALL(int, "vkAllocateDescriptorSets", Handle, const SetInfo *, Object *)(device, &sets, &set), "descriptors");
    BufferPart part = { buffer, 0, N * sizeof *v };
    Write write = { S_WRITE_SET, NULL, set, 0, 0, 1, STORAGE_BUFFER, NULL, &part, NULL };
    CALL(void, "vkUpdateDescriptorSets", Handle, uint32_t, const Write *, uint32_t, const void *)(device, 1, &write, 0, NULL);
    CommandPoolInfo command_pools = { S_COMMAND_POOL, NULL, 2, family };
    make("vkCreateCommandPool", &command_pools, &pool);
    FenceInfo fences = { S_FENCE, NULL, 0 };
    make("vkCreateFence", &fences, &fence);
    commands = command_buffer(0);
}
static void begin_commands(Handle b, int secondary) {
    Inheritance inherits = { .type = S_INHERITANCE };
    BeginInfo info = { S_BEGIN, NULL, 4, secondary ? &inherits : NULL };
    must(CALL(int, "vkBeginCommandBuffer", Handle, const BeginInfo *)(b, &info), "begin");
}
static void end_commands(Handle b) { must(CALL(int, "vkEndCommandBuffer", Handle)(b), "end"); }
/* of an extension that only the fake driver has */
static void *command(const char *name) {
    void *f = CALL(Function, "vkGetDeviceProcAddr", Handle, const char *)(device, name);
    must(f ? 0 : -7, name);
    return f;
}
static void dispatch(Handle b, char **argv) {
    CALL(void, "vkCmdBindPipeline", Handle, int, Object)(b, COMPUTE, pipeline);
    CALL(void, "vkCmdBindDescriptorSets", Handle, int, Object, uint32_t, uint32_t, const Object *, uint32_t, const uint32_t *)
        (b, COMPUTE, layout, 0, 1, &set, 0, NULL);
    struct { int32_t type; const void *next; Object buffer; uint64_t offset; uint32_t flags; } condition = { 1000081002, NULL, buffer, 0, 0 };
    if (has(argv, "none")) v[0] = 0;
    if (conditional) CALL(void, "vkCmdBeginConditionalRenderingEXT", Handle, const void *)(b, &condition);
    uint32_t stage = STAGE_COMPUTE;
    if (has(argv, "conditional2")) ((void (*)(Handle, const void *))command("vkCmdBeginConditionalRendering2EXT"))(b, &condition);
    if (has(argv, "shader-object"))
        ((void (*)(Handle, uint32_t, const uint32_t *, const Object *))command("vkCmdBindShadersEXT"))(b, 1, &stage, &pipeline);
    if (has(argv, "and-dispatch")) CALL(void, "vkCmdDispatch", Handle, uint32_t, uint32_t, uint32_t)(b, N / 64, 1, 1);
    if (argv[1] && !strncmp(argv[1], "vkCmd", 5)) ((void (*)(Handle, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))command(argv[1]))(b, 0, 0, 0, 0, 0);
    else if (has(argv, "indirect")) CALL(void, "vkCmdDispatchIndirect", Handle, Object, uint64_t)(b, buffer, 0);
    else for (int i = has(argv, "many") ? 5000 : 1; i > 0; i--)
        CALL(void, "vkCmdDispatch", Handle, uint32_t, uint32_t, uint32_t)(b, has(argv, "zero") ? 0 : N / 64, 1, 1);
    if (conditional || has(argv, "conditional2")) CALL(void, "vkCmdEndConditionalRenderingEXT", Handle)(b);
}
static int submit_commands(void) {
    Submit submit = { .type = S_SUBMIT, .n = 1, .buffers = &commands };
    return CALL(int, "vkQueueSubmit", Handle, uint32_t, const Submit *, Object)(queue, 1, &submit, fence);
}
static void wait_for_it(char **argv) {
    if (has(argv, "queue-idle")) must(CALL(int, "vkQueueWaitIdle", Handle)(queue), "wait");
    else if (has(argv, "device-idle")) must(CALL(int, "vkDeviceWaitIdle", Handle)(device), "wait");
    else if (has(argv, "poll")) while (CALL(int, "vkGetFenceStatus", Handle, Object)(device, fence) == NOT_READY) nap(1);
    else must(CALL(int, "vkWaitForFences", Handle, uint32_t, const Object *, uint32_t, uint64_t)(device, 1, &fence, 1, 30000000000u), "wait");
    must(CALL(int, "vkResetFences", Handle, uint32_t, const Object *)(device, 1, &fence), "reset");
}

int main(int argc, char **argv) {
    (void)argc;
    for (char **a = argv + 1; *a; a++) if (!strncmp(*a, "FAKE_", 5)) putenv(*a);       /* here, and not in the control */
    if (has(argv, "child") || has(argv, "bare-child")) {
        pid_t pid = fork(); int status;
        if (pid == 0) {
            if (has(argv, "bare-child")) unsetenv("VK_INSTANCE_LAYERS");
            execl("/proc/self/exe", argv[0], "product", (char *)NULL);
            _exit(127);
        }
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status);
    }
    if (has(argv, "cpu")) { for (volatile int i = 0; i < 1000; i++) { } return 0; }
    if (has(argv, "node") && getenv("FAKE_NODE") && open(getenv("FAKE_NODE"), O_RDWR | O_CLOEXEC) < 0) return 9;
    if (has(argv, "without-layers")) unsetenv("VK_INSTANCE_LAYERS");
    if (has(argv, "own-layer")) layer = "VK_LAYER_MESA_overlay";
    conditional = has(argv, "conditional");
    if (has(argv, "as-wgpu")) engine = "wgpu-hal";
    if (has(argv, "fork") && fork() > 0) { int status; wait(&status); return WEXITSTATUS(status); }
    open_instance();
    if (has(argv, "instance")) return 0;
    open_device();
    if (has(argv, "device")) return 0;
    set_up();
    if (has(argv, "pipeline")) return 0;
    Handle secondary = has(argv, "secondary") ? command_buffer(LEVEL_SECONDARY) : NULL;
    if (secondary) { begin_commands(secondary, 1); dispatch(secondary, argv); end_commands(secondary); }
    begin_commands(commands, 0);
    if (secondary) CALL(void, "vkCmdExecuteCommands", Handle, uint32_t, const Handle *)(commands, 1, &secondary);
    else if (has(argv, "fill")) CALL(void, "vkCmdFillBuffer", Handle, Object, uint64_t, uint64_t, uint32_t)(commands, buffer, 0, N * sizeof *v, 3);
    else dispatch(commands, argv);
    end_commands(commands);
    if (has(argv, "unsubmitted")) return 0;
    for (int i = has(argv, "twice") ? 2 : 1; i > 0; i--) {
        int rc = submit_commands();
        if (rc && has(argv, "goes-on")) return 0;
        must(rc, "submit");
        if (!has(argv, "no-wait")) wait_for_it(argv);
    }
    if (has(argv, "tidy")) {
        CALL(void, "vkDestroyPipeline", Handle, Object, const void *)(device, pipeline, NULL);
        CALL(void, "vkDestroyShaderModule", Handle, Object, const void *)(device, module, NULL);
        CALL(void, "vkDestroyDevice", Handle, const void *)(device, NULL);
        CALL(void, "vkDestroyInstance", Handle, const void *)(instance, NULL);
    }
    if (has(argv, "too-much")) {
        MemoryInfo info = { S_MEMORY, NULL, (uint64_t)1 << 50, 0 }; Object memory;
        if (CALL(int, "vkAllocateMemory", Handle, const void *, const void *, Object *)(device, &info, NULL, &memory) == 0) return 8;
    }
    if (has(argv, "abort")) abort();
    if (has(argv, "kill")) kill(getpid(), SIGKILL);
    if (has(argv, "at-once")) _exit(0);
    if (has(argv, "becomes-true")) execlp("true", "true", (char *)NULL);
    if (has(argv, "becomes-itself")) execl("/proc/self/exe", argv[0], "cpu", (char *)NULL);
    if (has(argv, "fails")) return 3;
    if (has(argv, "hangs")) for (;;) pause();
    if (has(argv, "fell-back")) fprintf(stderr, "warning: no GPU adapter found, falling back to CPU\n");
    return 0;
}

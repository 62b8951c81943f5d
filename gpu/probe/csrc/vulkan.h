/* What gpubuild's layer and its control need of Vulkan, so that no header has to be installed. The names and the layout are those of the
 * specification, version 1.3 (vulkan_core.h, vk_layer.h); a test compares them with Khronos' headers. */
#include <stdint.h>
typedef struct VkObject *Handle;                /* of something dispatchable: begins with the loader's pointer */
typedef uint64_t Object;                        /* of anything else, on 64-bit machines */
typedef void *Function;
typedef Function (*GetProc)(Handle, const char *);

enum {
    NOT_READY = 1, TIMEOUT = 2, INCOMPLETE = 5, OUT_OF_HOST_MEMORY = -1, INITIALIZATION_FAILED = -3, DEVICE_LOST = -4, LAYER_NOT_PRESENT = -6, INCOMPATIBLE_DRIVER = -9,
    S_APPLICATION = 0, S_INSTANCE = 1, S_QUEUE = 2, S_DEVICE = 3, S_SUBMIT = 4, S_MEMORY = 5, S_FENCE = 8, S_QUERY_POOL = 11, S_BUFFER = 12,
    S_SHADER_MODULE = 16, S_STAGE = 18, S_COMPUTE_PIPELINE = 29, S_PIPELINE_LAYOUT = 30, S_SET_LAYOUT = 32, S_DESCRIPTOR_POOL = 33,
    S_DESCRIPTOR_SET = 34, S_WRITE_SET = 35, S_COMMAND_POOL = 39, S_COMMAND_BUFFER = 40, S_BEGIN = 42, S_LOADER_INSTANCE = 47,
    S_LOADER_DEVICE = 48, S_PROPERTIES_2 = 1000059001, S_ID_PROPERTIES = 1000071004, S_DRIVER_PROPERTIES = 1000196000,
    COMPUTE = 1, BOTTOM_OF_PIPE = 0x2000, RESULT_64 = 1, QUERY_TIMESTAMP = 2, TYPE_CPU = 4, OBJECT_PIPELINE = 19,
    QUEUE_COMPUTE = 2, STORAGE_BUFFER = 7, BUFFER_STORAGE = 0x20, STAGE_COMPUTE = 0x20, HOST_VISIBLE_COHERENT = 6
};
#define API(major, minor) ((uint32_t)(major) << 22 | (uint32_t)(minor) << 12)

typedef struct { int32_t type; const void *next; } Any;
typedef struct { int32_t type; const void *next; const char *app; uint32_t app_version; const char *engine; uint32_t engine_version, api; } Application;
typedef struct {
    int32_t type; const void *next; uint32_t flags; const Application *app; uint32_t layers_n; const char *const *layers;
    uint32_t extensions_n; const char *const *extensions;
} InstanceInfo;
typedef struct { uint32_t api, driver, vendor, id, type; char name[256]; uint8_t cache_uuid[16]; uint64_t limits[63]; uint32_t sparse[5]; } Properties;
enum { TIMESTAMPS_AT = 420, TIMESTAMP_PERIOD_AT = 424 };       /* in the limits: timestampComputeAndGraphics, timestampPeriod */
typedef struct { int32_t type; void *next; Properties p; } Properties2;
typedef struct { int32_t type; void *next; uint8_t device[16], driver[16], luid[8]; uint32_t mask, luid_valid; } IDProperties;
typedef struct { int32_t type; void *next; int32_t id; char name[256], info[256]; uint8_t conformance[4]; } DriverProperties;
typedef struct { uint32_t flags, count, timestamp_bits, granularity[3]; } QueueFamily;
typedef struct { int32_t type; const void *next; uint32_t flags, family, count; const float *priorities; } QueueInfo;
typedef struct {
    int32_t type; const void *next; uint32_t flags, queues_n; const QueueInfo *queues; uint32_t layers_n; const char *const *layers;
    uint32_t extensions_n; const char *const *extensions; const void *features;
} DeviceInfo;
typedef struct { uint32_t types_n; struct { uint32_t flags, heap; } types[32]; uint32_t heaps_n; struct { uint64_t size; uint32_t flags; } heaps[16]; } Memory;
typedef struct { uint64_t size, alignment; uint32_t types; } Requirements;
typedef struct { int32_t type; const void *next; uint64_t size; uint32_t index; } MemoryInfo;
typedef struct { int32_t type; const void *next; uint32_t flags; uint64_t size; uint32_t usage; int32_t sharing; uint32_t n; const uint32_t *f; } BufferInfo;
typedef struct { int32_t type; const void *next; uint32_t flags; size_t size; const uint32_t *code; } ModuleInfo;
typedef struct { int32_t type; const void *next; uint32_t flags, stage; Object module; const char *name; const void *special; } Stage;
typedef struct { int32_t type; const void *next; uint32_t flags; Stage stage; Object layout, base; int32_t base_index; } PipelineInfo;
typedef struct { uint32_t binding; int32_t type; uint32_t count, stages; const void *samplers; } Binding;
typedef struct { int32_t type; const void *next; uint32_t flags, n; const Binding *bindings; } SetLayoutInfo;
typedef struct { int32_t type; const void *next; uint32_t flags, n; const Object *sets; uint32_t ranges_n; const void *ranges; } LayoutInfo;
typedef struct { int32_t type; uint32_t count; } PoolSize;
typedef struct { int32_t type; const void *next; uint32_t flags, sets, n; const PoolSize *sizes; } DescriptorPoolInfo;
typedef struct { int32_t type; const void *next; Object pool; uint32_t n; const Object *layouts; } SetInfo;
typedef struct { Object buffer; uint64_t offset, range; } BufferPart;
typedef struct {
    int32_t type; const void *next; Object set; uint32_t binding, element, n; int32_t kind; const void *images; const BufferPart *buffers;
    const void *views;
} Write;
typedef struct { int32_t type; const void *next; uint32_t flags, family; } CommandPoolInfo;
typedef struct { int32_t type; const void *next; Object pool; int32_t level; uint32_t n; } CommandBufferInfo;
typedef struct { int32_t type; const void *next; uint32_t flags; const void *inheritance; } BeginInfo;
typedef struct {
    int32_t type; const void *next; uint32_t wait_n; const Object *wait; const uint32_t *wait_stages; uint32_t n; const Handle *buffers;
    uint32_t signal_n; const Object *signal;
} Submit;
typedef struct { int32_t type; const void *next; Handle buffer; uint32_t mask; } BufferSubmit;
typedef struct {
    int32_t type; const void *next; uint32_t flags, wait_n; const void *wait; uint32_t n; const BufferSubmit *buffers; uint32_t signal_n;
    const void *signal;
} Submit2;
typedef struct { int32_t type; const void *next; uint32_t flags; } FenceInfo;
typedef struct { int32_t type; const void *next; uint32_t flags; int32_t kind; uint32_t n, statistics; } QueryPoolInfo;
typedef struct { int32_t type; const void *next; int32_t object_type; uint64_t object; const char *name; } NameInfo;

/* vk_layer.h: how the loader links layers */
typedef struct Link { struct Link *next; GetProc instance, device; } Link;      /* of a device `device` is the next layer's, too */
typedef struct { int32_t type; const void *next; int32_t function; Link *link; } LayerLink;
typedef struct { int32_t type; void *next; uint32_t version; GetProc instance, device, physical; } Negotiate;

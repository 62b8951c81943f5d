/* TEST ONLY: a Vulkan driver that passes everything on to another one, the software rasteriser that REAL_ICD names, and claims to be a discrete
 * GPU. Like a GPU's driver it opens its device node, FAKE_NODE, with every instance. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "vulkan.h"

static GetProc real_proc;
static int (*create)(const InstanceInfo *, const void *, Handle *);
static void (*properties)(Handle, Properties *), (*properties2)(Handle, Properties2 *);

static void *driver(void) {
    static void *h;
    const char *path = getenv("REAL_ICD");
    if (!h && path) h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return h;
}
static void pretend(Properties *p) {
    const char *type = getenv("FAKE_TYPE");
    p->type = type ? (uint32_t)atoi(type) : 2;
    p->vendor = 0x10de; p->id = 0x2335;
    snprintf(p->name, sizeof p->name, "NVIDIA H200 (stand-in)");
}
static void Props(Handle d, Properties *p) { properties(d, p); pretend(p); }
static void Props2(Handle d, Properties2 *p) {
    properties2(d, p);
    pretend(&p->p);
    for (Any *a = p->next; a; a = (Any *)a->next) {
        DriverProperties *q = (void *)a;
        if (a->type != S_DRIVER_PROPERTIES) continue;
        q->id = 4;
        snprintf(q->name, sizeof q->name, "NVIDIA");
        snprintf(q->info, sizeof q->info, "570.00 (stand-in)");
    }
}
static int Create(const InstanceInfo *info, const void *alloc, Handle *out) {
    const char *node = getenv("FAKE_NODE");
    if (node && open(node, O_RDWR | O_CLOEXEC) < 0) return INITIALIZATION_FAILED;
    int rc = create(info, alloc, out);
    if (rc == 0) {
        *(void **)&properties = real_proc(*out, "vkGetPhysicalDeviceProperties");
        *(void **)&properties2 = real_proc(*out, "vkGetPhysicalDeviceProperties2");
    }
    return rc;
}
/* FAKE_SUBMIT=2:-4: the second submission answers -4 */
static Function (*real_device)(Handle, const char *);
static int (*submit)(Handle, uint32_t, const void *, Object);
static int QueueSubmit(Handle q, uint32_t n, const void *what, Object fence) {
    static int count;
    const char *at = getenv("FAKE_SUBMIT");
    if (n && at && ++count == atoi(at)) return atoi(strchr(at, ':') + 1);
    return submit(q, n, what, fence);
}
/* Commands of extensions that the rasteriser lacks: what runs shaders runs the bound pipeline, what only sets something does nothing. */
static void (*dispatch)(Handle, uint32_t, uint32_t, uint32_t);
static void OtherWork(Handle b) { dispatch(b, 4, 1, 1); }
static void Nothing(Handle b) { (void)b; }
static Function other(Handle d, const char *name) {
    if (!strcmp(name, "vkCmdBindShadersEXT") || !strcmp(name, "vkCmdBeginConditionalRendering2EXT")) return (Function)Nothing;
    *(Function *)&dispatch = real_device(d, "vkCmdDispatch");
    return !strncmp(name, "vkCmd", 5) ? (Function)OtherWork : NULL;
}
static Function DeviceProc(Handle d, const char *name) {
    Function f = real_device(d, name);
    if (!f) return other(d, name);
    if (strcmp(name, "vkQueueSubmit")) return f;
    *(Function *)&submit = f;
    return (Function)QueueSubmit;
}
#define EXPORT __attribute__((visibility("default")))
EXPORT Function vk_icdGetInstanceProcAddr(Handle i, const char *name) {
    if (!real_proc && driver()) *(void **)&real_proc = dlsym(driver(), "vk_icdGetInstanceProcAddr");
    if (!real_proc) return NULL;
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (Function)vk_icdGetInstanceProcAddr;
    Function f = real_proc(i, name);
    if (!strcmp(name, "vkGetDeviceProcAddr")) { *(Function *)&real_device = f; return (Function)DeviceProc; }
    if (!strcmp(name, "vkCreateInstance")) { *(Function *)&create = f; return (Function)Create; }
    if (!strcmp(name, "vkGetPhysicalDeviceProperties")) return (Function)Props;
    if (!strncmp(name, "vkGetPhysicalDeviceProperties2", 30)) return f ? (Function)Props2 : NULL;
    return f;
}
EXPORT int vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *v) {
    int (*negotiate)(uint32_t *);
    if (*v > 4) *v = 4;                 /* 5 adds nothing that is needed */
    *(void **)&negotiate = driver() ? dlsym(driver(), "vk_icdNegotiateLoaderICDInterfaceVersion") : NULL;
    return negotiate ? negotiate(v) : INCOMPATIBLE_DRIVER;
}
EXPORT Function vk_icdGetPhysicalDeviceProcAddr(Handle i, const char *name) {
    Function (*get)(Handle, const char *);
    *(void **)&get = driver() ? dlsym(driver(), "vk_icdGetPhysicalDeviceProcAddr") : NULL;
    if (!strcmp(name, "vkGetPhysicalDeviceProperties")) return (Function)Props;
    if (!strncmp(name, "vkGetPhysicalDeviceProperties2", 30)) return (Function)Props2;
    return get ? get(i, name) : NULL;
}

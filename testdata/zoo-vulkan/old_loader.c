/* TEST ONLY: a Vulkan loader of before 1.3.207, which does not know VK_ADD_LAYER_PATH: this machine's own, REAL_LOADER, without that variable. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include "vulkan.h"

__attribute__((visibility("default"))) Function vkGetInstanceProcAddr(Handle i, const char *name) {
    static GetProc get;
    if (!get) {
        unsetenv("VK_ADD_LAYER_PATH");
        *(void **)&get = dlsym(dlopen(getenv("REAL_LOADER"), RTLD_NOW), "vkGetInstanceProcAddr");
    }
    return get(i, name);
}

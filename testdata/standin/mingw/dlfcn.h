/* dlfcn.h and the rest of POSIX that cuda.c and cupti.c use, in terms of Win32, so that mingw-w64 makes nvcuda.dll and cupti64_*.dll of them.
 * Build: x86_64-w64-mingw32-gcc -std=gnu11 -O2 -shared -static -I mingw cuda.c -o nvcuda.dll */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RTLD_LAZY = 1, RTLD_NOW = 2, RTLD_NOLOAD = 4, RTLD_LOCAL = 0, RTLD_GLOBAL = 8 };

/* the driver's name on Windows; another library by its path */
__attribute__((unused)) static void *dlopen(const char *path, int how) {
    if (!strcmp(path, "libcuda.so.1")) path = "nvcuda.dll";
    return how & RTLD_NOLOAD ? (void *)GetModuleHandleA(path) : (void *)LoadLibraryA(path);
}
__attribute__((unused)) static void *dlsym(void *library, const char *name) {
    union { FARPROC f; void *p; } u;
    u.f = GetProcAddress(library, name);
    return u.p;
}
__attribute__((unused)) static void *memmem(const void *in, size_t n, const void *what, size_t m) {
    const uint8_t *p = in;
    for (; n >= m; p++, n--) if (!memcmp(p, what, m)) return (void *)(uintptr_t)p;
    return NULL;
}
__attribute__((unused)) static char *strndup(const char *s, size_t n) {
    size_t k = strnlen(s, n); char *to = malloc(k + 1);
    if (to) { memcpy(to, s, k); to[k] = 0; }
    return to;
}
#define aligned_alloc(alignment, n) malloc(n)    /* 16 bytes, which is enough here */
/* the process's environment, as the real driver reads it, and not the C library's copy; what it answers stays */
__attribute__((unused)) static char *environment(const char *name) {
    DWORD before = GetLastError(), n = GetEnvironmentVariableA(name, NULL, 0); char *to = n ? malloc(n) : NULL;
    if (to) GetEnvironmentVariableA(name, to, n);
    SetLastError(before);
    return to;
}
#define getenv environment

/* gpubuild's positive control: the smallest program that certainly runs a kernel. It loads the CUDA driver, compiles the PTX text below
 * through it, computes out[i] = i ^ key, checks every result, prints one line of JSON and leaves through exit(), so that handlers that
 * a probe registered run. If a probe records nothing of it, silence about another program means nothing. */
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RIGHT = 0, NO_LIBRARY = 3, NO_DEVICE = 4, INIT_FAILED = 5, LOAD_FAILED = 6, RUN_FAILED = 7, WRONG = 8 };
enum { CUDA_ERROR_NO_DEVICE = 100, N = 256 };

static const char body[] =
    ".address_size 64\n"
    ".visible .entry gpubuild_control(.param .u64 p_out, .param .u32 p_key)\n"
    "{\n"
    "    .reg .u32 %r<7>;\n"
    "    .reg .u64 %d<5>;\n"
    "    ld.param.u64 %d1, [p_out];\n"
    "    ld.param.u32 %r1, [p_key];\n"
    "    cvta.to.global.u64 %d2, %d1;\n"
    "    mov.u32 %r2, %ctaid.x;\n"
    "    mov.u32 %r3, %ntid.x;\n"
    "    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "    xor.b32 %r6, %r5, %r1;\n"
    "    mul.wide.u32 %d3, %r5, 4;\n"
    "    add.u64 %d4, %d2, %d3;\n"
    "    st.global.u32 [%d4], %r6;\n"
    "    ret;\n"
    "}\n";
/* Old PTX is compiled for newer devices, but nobody has tried the oldest on the newest drivers: later ones are tried when it fails. */
static const struct { const char *version, *target; } dialects[] = { { "6.0", "sm_50" }, { "6.3", "sm_75" }, { "7.8", "sm_90" } };

static char name[256], uuid[41], libcuda[4096];
static int major_capability, minor_capability, driver;
static const char *target = "";

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

#ifdef _WIN32
/* as a program finds it: System32's, unless there is one next to the program */
static void *open_driver(void) { return LoadLibraryW(L"nvcuda.dll"); }
static const char *no_driver(void) {
    static char why[64];
    snprintf(why, sizeof why, "nvcuda.dll: Windows error %lu", GetLastError());
    return why;
}
static void *function(void *library, const char *called) {
    union { FARPROC f; void *p; } u;
    u.f = GetProcAddress(library, called);
    return u.p;
}
static void file_of(void *address) {
    HMODULE m = NULL; WCHAR w[4096]; DWORD n = 0;
    if (GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, (LPCWSTR)address, &m))
        n = GetModuleFileNameW(m, w, 4096);
    if (n == 0 || n >= 4096 || !WideCharToMultiByte(CP_UTF8, 0, w, -1, libcuda, sizeof libcuda, NULL, NULL)) libcuda[0] = 0;
}
static uint32_t moment(void) {
    LARGE_INTEGER t;
    QueryPerformanceCounter(&t);
    return t.LowPart;
}
static void nodes(void) { }     /* Windows has none */
#else
static void *open_driver(void) { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); }
static const char *no_driver(void) { return dlerror(); }
static void *function(void *library, const char *called) { return dlsym(library, called); }
static void file_of(void *address) {
    Dl_info at;
    if (dladdr(address, &at) && at.dli_fname) snprintf(libcuda, sizeof libcuda, "%s", at.dli_fname);
}
static uint32_t moment(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint32_t)now.tv_nsec;
}
/* NVIDIA's character devices that are open now: see each_node in os_linux.h */
static void nodes(void) {
    static const char *const known[] = { "/dev/nvidia", "/dev/dxg", "/dev/nvhost", "/dev/nvmap" };
    DIR *d = opendir("/proc/self/fd"); struct dirent *e; const char *comma = ""; char link[64], to[256]; struct stat st;
    while (d && (e = readdir(d))) {
        int flags = fcntl(atoi(e->d_name), F_GETFL);
        if (flags < 0 || flags & O_PATH) continue;
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", e->d_name);
        ssize_t n = readlink(link, to, sizeof to - 1);
        if (n <= 0) continue;
        to[n] = 0;
        if (stat(link, &st) != 0 || !S_ISCHR(st.st_mode)) continue;
        if ((!strncmp(to, "/dev/nvidiactl", 14) || (!strncmp(to, "/dev/nvidia", 11) && to[11] >= '0' && to[11] <= '9')) && major(st.st_rdev) != 195) continue;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strncmp(to, known[i], strlen(known[i]))) { printf("%s", comma); quoted(to); comma = ","; }
    }
    if (d) closedir(d);
}
#endif

static void leave(int code, const char *step, int rc, const char *why) {
    printf("{\"control\":1,\"ok\":%s,\"step\":\"%s\",\"rc\":%d,\"why\":", code == RIGHT ? "true" : "false", step, rc);
    quoted(why);
    printf(",\"device\":"); quoted(name);
    printf(",\"uuid\":"); quoted(uuid);
    printf(",\"capability\":\"%d.%d\",\"driver\":%d,\"ptx\":\"%s\",\"libcuda\":", major_capability, minor_capability, driver, target);
    quoted(libcuda);
    printf(",\"nodes\":["); nodes(); printf("]}\n");
    exit(code);
}

int main(void) {
    void *lib = open_driver(), *ctx = NULL, *module = NULL, *kernel = NULL;
    uint64_t d = 0; uint32_t out[N], key; int rc = 0, count = 0, dev = 0; char ptx[2048]; unsigned char u[16];
    if (!lib) leave(NO_LIBRARY, "load", 0, no_driver());
#define FUNCTION(f, n, ...) int (*f)(__VA_ARGS__); if (!(*(void **)&f = function(lib, n))) leave(NO_LIBRARY, n, 0, "the driver library has no such function")
    FUNCTION(init, "cuInit", unsigned);
    FUNCTION(version, "cuDriverGetVersion", int *);
    FUNCTION(device_count, "cuDeviceGetCount", int *);
    FUNCTION(device_get, "cuDeviceGet", int *, int);
    FUNCTION(device_name, "cuDeviceGetName", char *, int, int);
    FUNCTION(device_uuid, "cuDeviceGetUuid", void *, int);
    int (*slice_uuid)(void *, int);                         /* of a slice (MIG) its own, where the older function answers that of the whole device */
    *(void **)&slice_uuid = function(lib, "cuDeviceGetUuid_v2");
    FUNCTION(attribute, "cuDeviceGetAttribute", int *, int, int);
    FUNCTION(retain, "cuDevicePrimaryCtxRetain", void **, int);
    FUNCTION(current, "cuCtxSetCurrent", void *);
    FUNCTION(synchronize, "cuCtxSynchronize", void);
    FUNCTION(load, "cuModuleLoadData", void **, const void *);
    FUNCTION(get, "cuModuleGetFunction", void **, void *, const char *);
    FUNCTION(alloc, "cuMemAlloc_v2", uint64_t *, size_t);
    FUNCTION(to_host, "cuMemcpyDtoH_v2", void *, uint64_t, size_t);
    FUNCTION(launch, "cuLaunchKernel", void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
#undef FUNCTION
    file_of(*(void **)&init);
    version(&driver);
    if ((rc = init(0)) == CUDA_ERROR_NO_DEVICE) leave(NO_DEVICE, "cuInit", rc, "the driver sees no device");
    if (rc) leave(INIT_FAILED, "cuInit", rc, "the driver could not be initialised");
    if ((rc = device_count(&count)) || count < 1) leave(NO_DEVICE, "cuDeviceGetCount", rc, "the driver sees no device");
    if ((rc = device_get(&dev, 0))) leave(NO_DEVICE, "cuDeviceGet", rc, "the first device cannot be had");
    device_name(name, sizeof name, dev);
    name[sizeof name - 1] = 0;
    attribute(&major_capability, 75, dev);
    attribute(&minor_capability, 76, dev);
    if (!device_uuid(u, dev)) {
        unsigned char slice[16];
        int is_slice = slice_uuid && !slice_uuid(slice, dev) && memcmp(slice, u, sizeof u);
        char *p = uuid + sprintf(uuid, is_slice ? "MIG-" : "GPU-");
        if (is_slice) memcpy(u, slice, sizeof u);
        for (int i = 0; i < 16; i++) p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    }
    if ((rc = retain(&ctx, dev)) || (rc = current(ctx))) leave(RUN_FAILED, "context", rc, "no context on the device");
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects && !module; i++) {
        target = dialects[i].target;
        snprintf(ptx, sizeof ptx, ".version %s\n.target %s\n%s", dialects[i].version, target, body);
        if ((rc = load(&module, ptx))) module = NULL;
    }
    if (!module) leave(LOAD_FAILED, "cuModuleLoadData", rc, "the driver did not compile the control's PTX");
    if ((rc = get(&kernel, module, "gpubuild_control"))) leave(LOAD_FAILED, "cuModuleGetFunction", rc, "the control's kernel is not in its module");
    key = moment() * 2654435761u;            /* another one each time: no answer can be ready beforehand */
    if ((rc = alloc(&d, sizeof out))) leave(RUN_FAILED, "cuMemAlloc", rc, "no memory on the device");
    void *args[] = { &d, &key };
    if ((rc = launch(kernel, N / 64, 1, 1, 64, 1, 1, 0, NULL, args, NULL))) leave(RUN_FAILED, "cuLaunchKernel", rc, "the launch was refused");
    if ((rc = synchronize())) leave(RUN_FAILED, "cuCtxSynchronize", rc, "the kernel failed");
    if ((rc = to_host(out, d, sizeof out))) leave(RUN_FAILED, "cuMemcpyDtoH", rc, "the results could not be read");
    for (uint32_t i = 0; i < N; i++) if (out[i] != (i ^ key)) leave(WRONG, "result", (int)i, "a result is wrong");
    leave(RIGHT, "done", 0, "");
}

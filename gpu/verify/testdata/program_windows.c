/* A program under watch on Windows, many in one: the first argument says what it does. program.c is the one for Linux. It speaks to the driver by
 * LoadLibrary, as cudarc does. It ends in each way in which a Windows process can. With -DROOM it has room for GPU code, which testdata/standin/cargo
 * fills as a build script and include_bytes! would. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <process.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ROOM
__attribute__((used)) static unsigned char room[256 << 10] = { 'r', 'o', 'o', 'm', ' ', 'f', 'o', 'r', ' ', 'G', 'P', 'U', 0xff, 0xfe, 0xfd, 0xfc };
#endif
static HMODULE driver;
static int (*cu_init)(unsigned), (*retain)(void **, int), (*current)(void *), (*load)(void **, const void *), (*get)(void **, void *, const char *);
static int (*alloc)(uint64_t *, size_t), (*to_device)(uint64_t, const void *, size_t), (*to_host)(void *, uint64_t, size_t), (*synchronize)(void);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static int soft;        /* 1: it does without the GPU; 2: and says so */
static void fail(const char *what, int rc) {
    if (soft > 1) printf("falling back to CPU\n");
    else if (!soft) fprintf(stderr, "%s: %d\n", what, rc);
    exit(!soft);
}
static void must(const char *what, int rc) { if (rc) fail(what, rc); }

/* what Windows does for a program without a handler; Wine 8 ends it with 0 */
static BOOL WINAPI interrupted(DWORD event) { (void)event; ExitProcess(STATUS_CONTROL_C_EXIT); }

static int open_driver(void) {
    void *ctx; int rc;
    struct { void *to; const char *name; } all[] = {
        { &cu_init, "cuInit" }, { &retain, "cuDevicePrimaryCtxRetain" }, { &current, "cuCtxSetCurrent" }, { &load, "cuModuleLoadData" },
        { &get, "cuModuleGetFunction" }, { &alloc, "cuMemAlloc_v2" }, { &to_device, "cuMemcpyHtoD_v2" }, { &to_host, "cuMemcpyDtoH_v2" },
        { &synchronize, "cuCtxSynchronize" }, { &launch, "cuLaunchKernel" } };
    if (!(driver = LoadLibraryW(L"nvcuda.dll"))) return -1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        FARPROC f = GetProcAddress(driver, all[i].name);
        if (!f) fail(all[i].name, 0);
        memcpy(all[i].to, &f, sizeof f);
    }
    if ((rc = cu_init(0))) return rc;
    must("context", retain(&ctx, 0));
    must("current", current(ctx));
    return 0;
}

static void *kernel(const char *name) {
    char ptx[512]; void *m, *f;
    snprintf(ptx, sizeof ptx, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry %s(.param .u64 a)\n{ ret; }\n", name);
    must("load", load(&m, ptx));
    must("get", get(&f, m, name));
    return f;
}

enum { N = 32 };
static void product(float *c, const float *a, const float *b) {
    for (int y = 0; y < N; y++) for (int x = 0; x < N; x++) {
        float s = 0;
        for (int k = 0; k < N; k++) s += a[y * N + k] * b[k * N + x];
        c[y * N + x] = s;
    }
}

static void matmul(long times) {
    static float a[N * N], b[N * N], c[N * N], want[N * N];
    uint64_t da, db, dc; unsigned n = N; void *f = kernel("matmul");
    for (int i = 0; i < N * N; i++) { a[i] = (float)(i % 7); b[i] = (float)(i % 5) - 1; }
    must("alloc", alloc(&da, sizeof a)); must("alloc", alloc(&db, sizeof b)); must("alloc", alloc(&dc, sizeof c));
    must("copy", to_device(da, a, sizeof a)); must("copy", to_device(db, b, sizeof b));
    void *args[] = { &da, &db, &dc, &n };
    for (long i = 0; i < times; i++) must("launch", launch(f, N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL));
    must("synchronize", synchronize());
    must("copy", to_host(c, dc, sizeof c));
    product(want, a, b);
    if (memcmp(c, want, sizeof c)) fail("result", 0);
}

static void fill(long times) {
    uint64_t p; float v = 1; unsigned n = 64; void *args[] = { &p, &v, &n }, *f = kernel("fill_f32");
    must("alloc", alloc(&p, n * sizeof v));
    for (long i = 0; i < times; i++) must("launch", launch(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
}

static DWORD WINAPI filling(LPVOID context) { (void)context; void *ctx; must("retain", retain(&ctx, 0)); must("current", current(ctx)); fill(1000); return 0; }
static DWORD WINAPI ending(LPVOID code) { ExitProcess((UINT)(uintptr_t)code); }
static DWORD WINAPI remaining(LPVOID code) { Sleep(50); ExitThread((DWORD)(uintptr_t)code); }
static void at_exit_prints(void) { printf("atexit\n"); fflush(stdout); }

/* starts the rest of the arguments; bare: with an environment of two variables, so that Windows works and the driver is found */
static int child(char **argv, int bare) {
    char line[8192] = ""; STARTUPINFOA start = { .cb = sizeof start }; PROCESS_INFORMATION p; DWORD code = 0; static char block[32 << 10]; size_t n = 0;
    for (; *argv; argv++) { strcat(line, "\""); strcat(line, *argv); strcat(line, argv[1] ? "\" " : "\""); }
    n += (size_t)sprintf(block + n, "SYSTEMROOT=%s", getenv("SYSTEMROOT")) + 1;
    n += (size_t)sprintf(block + n, "PATH=%s", getenv("PATH")) + 1;
    block[n] = 0;
    if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, bare ? block : NULL, NULL, &start, &p)) fail("CreateProcess", (int)GetLastError());
    WaitForSingleObject(p.hProcess, INFINITE);
    GetExitCodeProcess(p.hProcess, &code);
    return (int)code;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *more = argc > 2 ? argv[2] : "";
    static float a[N * N], c[N * N];
    if (!strcmp(what, "cpu") || !strcmp(what, "sleep")) {
        product(c, a, a);
        Sleep(!strcmp(what, "sleep") ? (DWORD)atoi(more) : 0);
        return !strcmp(what, "cpu") ? atoi(more) : 0;
    }
    if (!strcmp(what, "waits")) { printf("waits\n"); fflush(stdout); getchar(); return 0; }
    if (!strcmp(what, "ctrl-c")) { /* to all on the console, as a key does */
        SetConsoleCtrlHandler(interrupted, TRUE);
        GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0);
        Sleep(INFINITE);
    }
    if (!strcmp(what, "launcher")) { printf("launcher\n"); fflush(stdout); return child(argv + 2, 0); }
    if (!strcmp(what, "child")) return child(argv + 2, 0);
    if (!strcmp(what, "bare-child")) return child(argv + 2, 1);
    if (!strcmp(what, "loads")) { LoadLibraryW(L"nvcuda.dll"); Sleep(300); return 0; }
    if (!strcmp(what, "clears")) SetEnvironmentVariableA("CUDA_INJECTION64_PATH", NULL);
    if (!strcmp(what, "arguments")) { for (int i = 2; i < argc; i++) printf("[%s]", argv[i]); printf("\n"); return 0; }
    if (!strcmp(what, "crash-without")) { if (open_driver()) *(volatile int *)(uintptr_t)soft = 1; return 0; }
    soft = !strcmp(what, "may");
    must("driver", open_driver());
    if (!strcmp(what, "init-then-child")) return child(argv + 2, 0);
    if (!strcmp(what, "init")) { product(c, a, a); return 0; }
    if (!strcmp(what, "last-error")) { SetLastError(1234); matmul(1); printf("%lu\n", GetLastError()); return 0; }
    if (!strcmp(what, "fill")) { fill(1); return 0; }
    if (!strcmp(what, "threads")) {
        HANDLE t[4];
        for (int i = 0; i < 4; i++) t[i] = CreateThread(NULL, 0, filling, NULL, 0, NULL);
        WaitForMultipleObjects(4, t, TRUE, INFINITE);
        matmul(1);
        return 0;
    }
    matmul(!strcmp(what, "gpu") && *more ? atol(more) : 1);
    if (!strcmp(what, "gpu") || !strcmp(what, "clears")) { printf("done\n"); return 0; }
    if (!strcmp(what, "status")) return atoi(more);
    if (!strcmp(what, "exit")) { atexit(at_exit_prints); exit(atoi(more)); }
    if (!strcmp(what, "ExitProcess")) ExitProcess((UINT)atoi(more));
    if (!strcmp(what, "TerminateProcess")) { Sleep(*more ? (DWORD)atoi(more) : 0); TerminateProcess(GetCurrentProcess(), 0); }
    if (!strcmp(what, "crash")) { volatile int *volatile nowhere = NULL; Sleep(300); *nowhere = 1; }
    if (!strcmp(what, "abort")) abort();
    if (!strcmp(what, "frees")) { FreeLibrary(driver); FreeLibrary(driver); Sleep(300); return 0; }
    if (!strcmp(what, "thread-ends-it")) { CreateThread(NULL, 0, ending, (LPVOID)(uintptr_t)atoi(more), 0, NULL); Sleep(INFINITE); }
    if (!strcmp(what, "last-thread")) { CreateThread(NULL, 0, remaining, (LPVOID)(uintptr_t)atoi(more), 0, NULL); ExitThread(0); }
    if (!strcmp(what, "two-at-once")) { for (int i = 0; i < 4; i++) CreateThread(NULL, 0, ending, (LPVOID)(uintptr_t)atoi(more), 0, NULL); ExitProcess((UINT)atoi(more)); }
    if (!strcmp(what, "then-child")) return child(argv + 2, 0);
    fail(what, 0);
    return 1;
}

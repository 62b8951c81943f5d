/* What the probe needs of Windows (x86_64); os_linux.h has the same for Linux. Included by probe.c alone. Win32 calls only, no C library
 * beyond memcpy and its like: the program may share that library with us, and its errno, its exit handlers and its locks with it.
 *
 * The end of a process. ExitProcess first ends every other thread, wherever it stands, and then calls DllMain: there CUPTI's threads are gone
 * and any lock may be held by nobody, so that DllMain does nothing (Microsoft, "DllMain entry point": lpvReserved is not NULL). What is to be
 * done before that is done where NVIDIA's own sample does it (cupti_trace_injection): at the entry of ntdll's RtlExitUserProcess, through
 * which ExitProcess, exit(), a return from main and the end of the last thread all go. TerminateProcess goes past it, as kill -9 does: then
 * there is no end record, and what the last PERIOD_MS held may be lost. Where a console is closed, the last handler calls ExitProcess, too; only if
 * one of the program's own returns TRUE, Windows itself ends it (Microsoft, "HandlerRoutine callback function"; read on 2026-11-29, never tried). */
#define WIN32_LEAN_AND_MEAN
#define _WIN32_WINNT 0x0602
#include <windows.h>
#include <intrin.h>
#include <psapi.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(_M_X64) && !defined(__x86_64__)
#error the code that is written over RtlExitUserProcess is that of x86_64
#endif

#define EXPORT __declspec(dllexport)
#define DRIVER "nvcuda.dll"
#ifdef __GNUC__
#define CALLER() __builtin_return_address(0)
#else
#define CALLER() _ReturnAddress()
#endif

typedef volatile LONG64 counter;
#define ADD(c, n) ((uint64_t)InterlockedExchangeAdd64(&(c), (LONG64)(n)))
#define GET(c) ((uint64_t)InterlockedExchangeAdd64(&(c), 0))
typedef volatile LONG flag;

typedef DWORD error_state;
static error_state keep_error(void) { return GetLastError(); }
static void restore_error(error_state e) { SetLastError(e); }

enum { LONGEST = 4096 };

static void copy_text(char *to, size_t size, const char *from) {
    size_t n = strlen(from);
    if (n >= size) n = size - 1;
    memcpy(to, from, n);
    to[n] = 0;
}
static void to_utf8(const WCHAR *w, char *to, size_t size) {
    if (!WideCharToMultiByte(CP_UTF8, 0, w, -1, to, (int)size, NULL, NULL)) to[0] = 0;
}
static void add_number(char *to, size_t size, uint64_t v) {
    char d[24]; size_t i = sizeof d - 1, n = strlen(to);
    d[i] = 0;
    do d[--i] = (char)('0' + v % 10); while (v /= 10);
    copy_text(to + n, size - n, d + i);
}

/* ---- what this process is --------------------------------------------------------------------------------------------------------- */
static uint64_t process_id(void) { return GetCurrentProcessId(); }
static const char *cannot_host(void) { return NULL; }     /* of Linux only */

/* a function of ntdll's */
static void *native(const char *name) {
    union { FARPROC f; void *p; } u;
    u.f = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), name);
    return u.p;
}

static uint64_t parent_id(void) {
    struct { PVOID status, peb, affinity, priority; ULONG_PTR pid, parent; } basic;     /* PROCESS_BASIC_INFORMATION */
    LONG (NTAPI *query)(HANDLE, ULONG, PVOID, ULONG, PULONG) = native("NtQueryInformationProcess");
    return query && query(GetCurrentProcess(), 0, &basic, sizeof basic, NULL) >= 0 ? basic.parent : 0;
}

static int ancestor(uint64_t pid, uint64_t *started, uint64_t *parent) { (void)pid; (void)started; (void)parent; return 0; }    /* the watcher's job knows */

static uint64_t ticks(FILETIME t) { return (uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime; }

/* in 100 ns since 1601: with the pid it names a process for good */
static uint64_t start_time(void) {
    FILETIME began = { 0, 0 }, ended, kernel, user;
    return GetProcessTimes(GetCurrentProcess(), &began, &ended, &kernel, &user) ? ticks(began) : 0;
}

static uint64_t nanoseconds(void) {
    FILETIME t;
    GetSystemTimeAsFileTime(&t);
    return (ticks(t) - 116444736000000000u) * 100;
}

/* the kernel's own name of the file: the loader's is what the program was started as, and the program can write over it */
static int program_path(WCHAR *to, DWORD size) { return QueryFullProcessImageNameW(GetCurrentProcess(), 0, to, &size) && size > 0; }

static uint64_t pid_namespace(void) { return 0; }    /* Windows has none */
static void program(char *exe, size_t size) {
    WCHAR w[LONGEST];
    exe[0] = 0;
    if (program_path(w, LONGEST)) to_utf8(w, exe, size);
}

static size_t command_line(char *to, size_t size) { (void)size; to[0] = 0; return 0; }   /* no file is a script there */

static void working_directory(char *to, size_t size) { (void)size; *to = 0; }     /* nobody asks for it */
static int program_file(uint64_t *device, uint64_t *inode) {
    WCHAR w[LONGEST]; BY_HANDLE_FILE_INFORMATION is; HANDLE f; BOOL ok;
    if (!program_path(w, LONGEST)) return 0;
    f = CreateFileW(w, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (f == INVALID_HANDLE_VALUE) return 0;
    ok = GetFileInformationByHandle(f, &is);
    CloseHandle(f);
    *device = is.dwVolumeSerialNumber; *inode = (uint64_t)is.nFileIndexHigh << 32 | is.nFileIndexLow;
    return ok;
}

static int wide_setting(const WCHAR *name, WCHAR *to, DWORD size) {
    DWORD n = GetEnvironmentVariableW(name, to, size);
    return n > 0 && n < size;
}

static int setting(const char *name, char *to, size_t size) {
    WCHAR n[64], w[LONGEST]; size_t i = 0;
    for (; name[i] && i + 1 < sizeof n / sizeof *n; i++) n[i] = (WCHAR)name[i];
    n[i] = 0;
    if (!wide_setting(n, w, LONGEST)) return 0;
    to_utf8(w, to, size);
    return to[0] != 0;
}

/* ---- libraries ---------------------------------------------------------------------------------------------------------------------- */
static HMODULE module_of(const void *address) {
    HMODULE m = NULL;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, (LPCWSTR)address, &m);
    return m;
}
static void name_of(HMODULE m, char *to, size_t size) {
    WCHAR w[LONGEST]; DWORD n = m ? GetModuleFileNameW(m, w, LONGEST) : 0;
    to[0] = 0;
    if (n > 0 && n < LONGEST) to_utf8(w, to, size);
}
static void file_of(const void *address, char *to, size_t size) { name_of(address ? module_of(address) : NULL, to, size); }
static void *symbol(void *library, const char *name) {
    union { FARPROC f; void *p; } u;
    u.f = GetProcAddress(library, name);
    return u.p;
}

/* The driver, if it is in this process. It stays from now on, as we do: a program that frees it would take CUPTI's ground away. */
static void *loaded_driver(void) {
    HMODULE m = NULL;
    return GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN, L"nvcuda.dll", &m) ? (void *)m : NULL;
}

/* by the numbers in them, so that 2026.10.1 comes after 2026.9.2 */
static int later(const WCHAR *a, const WCHAR *b) {
    while (*a && *b) {
        if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
            uint64_t x = 0, y = 0;
            while (*a >= '0' && *a <= '9') x = x * 10 + (uint64_t)(*a++ - '0');
            while (*b >= '0' && *b <= '9') y = y * 10 + (uint64_t)(*b++ - '0');
            if (x != y) return x > y;
        } else if (*a != *b) return *a > *b;
        else { a++; b++; }
    }
    return *a != 0;
}

static int append(WCHAR *to, const WCHAR *more) {
    size_t n = 0, i = 0;
    while (to[n]) n++;
    while (more[i] && n + i + 1 < LONGEST) { to[n + i] = more[i]; i++; }
    to[n + i] = 0;
    return !more[i];
}

/* 13.5's is called by CUDA's major version, cupti64_13.dll (cuda-pathfinder 1.8.6 release notes), those before by the year, those of CUDA 8
   to 10 by the version without its dot */
static int by_major(const WCHAR *name) {
    int n = 0;
    while (*name && *name != '_') name++;
    if (*name) name++;
    while (*name >= '0' && *name <= '9' && n < 1000) n = n * 10 + (*name++ - '0');
    return n >= 13 && n < 80;
}

static int newer(const WCHAR *a, const WCHAR *b) { return by_major(a) != by_major(b) ? by_major(a) : later(a, b); }

/* Nobody named one: the newest of the toolkit that CUDA_PATH names. Its name changes with every release (cupti64_2026.3.1.dll is 13.4's). */
static int usual_cupti(WCHAR *found) {
    static const WCHAR *const dirs[] = { L"\\extras\\CUPTI\\lib64\\", L"\\bin\\x64\\", L"\\bin\\" };
    WCHAR root[LONGEST], at[LONGEST], best[MAX_PATH]; WIN32_FIND_DATAW f; HANDLE h; size_t i;
    if (!wide_setting(L"CUDA_PATH", root, LONGEST)) return 0;
    for (i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        at[0] = best[0] = 0;
        if (!append(at, root) || !append(at, dirs[i])) continue;
        found[0] = 0;
        append(found, at);
        if (!append(at, L"cupti64_*.dll")) continue;
        h = FindFirstFileW(at, &f);
        if (h == INVALID_HANDLE_VALUE) continue;
        do if (!best[0] || newer(f.cFileName, best)) memcpy(best, f.cFileName, sizeof best); while (FindNextFileW(h, &f));
        FindClose(h);
        return append(found, best);
    }
    return 0;
}

static int sandboxed(void) { return 0; }
static void mark_process(void) { }
static void mark_program(void) { }     /* nothing execs */
static int copied(uint64_t in, uint64_t owner) { (void)in; (void)owner; return 0; }   /* nothing forks */

enum { NONE_BROUGHT, OLD_WAY, NEW_WAY };
static int cupti_brought(char *file) { (void)file; return NONE_BROUGHT; }    /* not looked for: its file has another name in each release */

static void *load_cupti(const char *given, char *why, size_t size) {
    WCHAR w[LONGEST] = { 0 }; HMODULE m = NULL, kept;
    copy_text(why, size, "no cupti64_*.dll was named, and none is in the toolkit of CUDA_PATH");
    if (*given ? MultiByteToWideChar(CP_UTF8, 0, given, -1, w, LONGEST) == 0 : !usual_cupti(w)) return NULL;
    /* what it needs is next to it or is the system's: nothing from the current directory or PATH */
    if (!(m = LoadLibraryExW(w, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32))) {
        DWORD e = GetLastError();
        char name[1024];
        to_utf8(w, name, sizeof name);
        copy_text(why, size, name);
        copy_text(why + strlen(why), size - strlen(why), ": it could not be loaded, Windows error ");
        add_number(why, size, e);
        return NULL;
    }
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, (LPCWSTR)m, &kept);
    return m;
}

/* Every library that offers the driver's functions: System32's nvcuda.dll, the nvcuda64.dll that it loads, and whatever plays one of them. They
 * are gathered before the lock is taken: what asks for modules waits for the loader, and a thread that has the loader may wait for our lock. */
static char drivers[8][1024];
static int drivers_n;
static void gather_drivers(void) {
    static HMODULE all[1024];       /* too much for a program's stack */
    DWORD bytes = 0, i;
    drivers_n = 0;
    if (!K32EnumProcessModules(GetCurrentProcess(), all, sizeof all, &bytes)) return;
    if (bytes > sizeof all) bytes = sizeof all;
    for (i = 0; i < bytes / sizeof *all && drivers_n < 8; i++) {
        if (!GetProcAddress(all[i], "cuInit") || !GetProcAddress(all[i], "cuLaunchKernel")) continue;
        name_of(all[i], drivers[drivers_n], sizeof drivers[0]);
        drivers_n++;
    }
}
static void each_driver(void (*report)(const char *)) {
    int i;
    for (i = 0; i < drivers_n; i++) report(drivers[i]);
}
static void each_node(void (*report)(const char *)) { (void)report; }   /* Windows has no device nodes */
static void each_api(void (*report)(const char *)) { (void)report; }   /* of Linux only */

/* Every function that the driver offers, by its table of exports (PE format, ".edata"). */
static void each_function(void *driver, void (*each)(const char *)) {
    const char *at = driver; const IMAGE_NT_HEADERS *nt = (const void *)(at + ((const IMAGE_DOS_HEADER *)driver)->e_lfanew);
    const IMAGE_DATA_DIRECTORY *where = &nt->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT];
    const IMAGE_EXPORT_DIRECTORY *exports = (const void *)(at + where->VirtualAddress); const DWORD *names; DWORD i;
    if (!where->VirtualAddress) return;
    names = (const void *)(at + exports->AddressOfNames);
    for (i = 0; i < exports->NumberOfNames; i++) if (at[names[i]] == 'c' && at[names[i] + 1] == 'u') each(at + names[i]);
}

/* Does the driver's own table lead to a function that lies elsewhere? NVIDIA's nvcuda.dll may hand on to the nvcuda64.dll that it brought. */
static int interposed(void *cuda, const char *name, char *by, size_t size) {
    void *f = symbol(cuda, name); HMODULE m = f ? module_of(f) : NULL;
    if (!f || m == cuda || (m && m == GetModuleHandleW(L"nvcuda64.dll"))) return 0;
    name_of(m, by, size);
    return 1;
}

/* ---- the record file ---------------------------------------------------------------------------------------------------------------- */
static WCHAR path[LONGEST];
static HANDLE out = INVALID_HANDLE_VALUE;
static BY_HANDLE_FILE_INFORMATION out_is;

static int open_records(void) {
    /* FILE_APPEND_DATA without FILE_WRITE_DATA: each write goes to the end of the file, and is one piece */
    HANDLE f = CreateFileW(path, FILE_APPEND_DATA | FILE_READ_ATTRIBUTES | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_ALWAYS,
                           FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (f == INVALID_HANDLE_VALUE) return -1;
    if (!GetFileInformationByHandle(f, &out_is)) { CloseHandle(f); return -1; }
    out = f;
    return 0;
}

static int recorded_by_another(void) { return 0; }       /* there are no namespaces of libraries */

static int begin_records(const char *dir) {
    WCHAR w[LONGEST], tail[64]; char name[64] = ""; size_t i; int n = MultiByteToWideChar(CP_UTF8, 0, dir, -1, w, LONGEST);
    if (!n) return -1;
    add_number(name, sizeof name, process_id());
    copy_text(name + strlen(name), 2, "-");
    add_number(name, sizeof name, start_time());
    copy_text(name + strlen(name), 7, ".jsonl");
    tail[0] = '\\';
    for (i = 0; name[i]; i++) tail[i + 1] = (WCHAR)name[i];
    tail[i + 1] = 0;
    path[0] = 0;
    i = 0;
    /* beyond MAX_PATH only so (Microsoft, "Maximum Path Length Limitation"); Wine has no network share: records_windows.c shows the second */
    if (n > 180 && w[1] == ':') append(path, L"\\\\?\\");
    else if (n > 180 && w[0] == '\\' && w[1] == '\\' && w[2] != '?') { append(path, L"\\\\?\\UNC\\"); i = 2; }
    if (!append(path, w + i) || !append(path, tail)) return -1;
    return open_records();
}

static int ours(void) {         /* the program may have closed our handle and got its number for a file of its own */
    BY_HANDLE_FILE_INFORMATION is;
    return out != INVALID_HANDLE_VALUE && GetFileType(out) == FILE_TYPE_DISK && GetFileInformationByHandle(out, &is) &&
           is.dwVolumeSerialNumber == out_is.dwVolumeSerialNumber && is.nFileIndexHigh == out_is.nFileIndexHigh && is.nFileIndexLow == out_is.nFileIndexLow;
}

static int write_records(const char *p, size_t n) {
    DWORD wrote;
    if (!ours()) {
        out = INVALID_HANDLE_VALUE;
        if (open_records() != 0) return -1;
    }
    while (n) {
        if (!WriteFile(out, p, (DWORD)n, &wrote, NULL) || !wrote) return -1;
        p += wrote; n -= wrote;
    }
    return 0;
}

/* ---- locks and memory --------------------------------------------------------------------------------------------------------------- */
static SRWLOCK writing = SRWLOCK_INIT;
static void hold(void) { AcquireSRWLockExclusive(&writing); }
static void release(void) { ReleaseSRWLockExclusive(&writing); }
/* A thread that was ended by TerminateThread may have held it: the process must end all the same. */
static int hold_for_end(int ms) {
    for (; ms > 0; ms--) {
        if (TryAcquireSRWLockExclusive(&writing)) return 1;
        Sleep(1);
    }
    return 0;
}

typedef SRWLOCK once_lock;
#define ONCE_LOCK SRWLOCK_INIT
static int try_once(once_lock *l) { return TryAcquireSRWLockExclusive(l); }
static void leave_once(once_lock *l) { ReleaseSRWLockExclusive(l); }

static void *take(size_t n) { return HeapAlloc(GetProcessHeap(), 0, n); }
static void give(void *p) { HeapFree(GetProcessHeap(), 0, p); }

/* ---- our thread --------------------------------------------------------------------------------------------------------------------- */
enum { ASKED = 1, LAST = 2, ALONE = 4 };
static HANDLE asked_event, last_event, done_event, thread;
static volatile HANDLE gone;        /* the last thread that ended: a process ends with the code of its last one */

/* A process ends with its last thread. Ours must not keep one alive whose own threads are all gone. */
static int alone(void) {
    LONG (NTAPI *query)(HANDLE, ULONG, PVOID, ULONG, PULONG) = native("NtQueryInformationThread"); ULONG is = 0;
    return query && query(GetCurrentThread(), 12 /* ThreadAmILastThread */, &is, sizeof is, NULL) >= 0 && is;
}

static int wait_for_work(int ms) {
    HANDLE both[2];
    both[0] = last_event; both[1] = asked_event;
    switch (WaitForMultipleObjects(2, both, FALSE, (DWORD)ms)) {
    case WAIT_OBJECT_0: return LAST;
    case WAIT_OBJECT_0 + 1: return ASKED;
    }
    return alone() ? ALONE : 0;
}

static void ask_thread(void) { if (asked_event) SetEvent(asked_event); }

/* -1: there is no thread; 0: it is not done; 1: it is */
static int end_thread(int ms) {
    HANDLE either[2];
    if (!thread) return -1;
    either[0] = done_event; either[1] = thread;
    SetEvent(last_event);
    return WaitForMultipleObjects(2, either, FALSE, (DWORD)ms) == WAIT_OBJECT_0;
}
static int has_thread(void) { return thread != NULL; }
static void thread_done(void) { SetEvent(done_event); }

static DWORD WINAPI run_thread(LPVOID body) { (*(void (**)(void))body)(); return 0; }

static int begin_thread(void (*body)(void)) {
    static void (*kept)(void);
    HMODULE self; HANDLE t;
    kept = body;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, (LPCWSTR)(void *)&kept, &self);
    asked_event = CreateEventW(NULL, FALSE, FALSE, NULL);
    last_event = CreateEventW(NULL, TRUE, FALSE, NULL);
    done_event = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (!asked_event || !last_event || !done_event) return -1;
    if (!(t = CreateThread(NULL, 0, run_thread, (void *)&kept, 0, NULL))) return -1;
    thread = t;
    return 0;
}

static void leave_alone(void) {
    DWORD code = 0; HANDLE t = (HANDLE)gone;
    if (t && WaitForSingleObject(t, 1000) == WAIT_OBJECT_0) GetExitCodeThread(t, &code);
    ExitThread(code);
}

static void nap(long ms) { Sleep((DWORD)ms); }

/* ---- the end ------------------------------------------------------------------------------------------------------------------------ */
static unsigned char *exit_entry, exit_bytes[12];
static volatile LONG ending;
static void (*end_function)(int64_t);

static int write_code(unsigned char *at, const unsigned char *bytes, size_t n) {
    DWORD before;
    if (!VirtualProtect(at, n, PAGE_EXECUTE_READWRITE, &before)) return 0;
    memcpy(at, bytes, n);
    VirtualProtect(at, n, before, &before);
    FlushInstructionCache(GetCurrentProcess(), at, n);
    return 1;
}

/* stands in the place of RtlExitUserProcess until the first call, which puts it back */
static void NTAPI on_exit_process(LONG code) {
    if (InterlockedExchange(&ending, 1)) Sleep(INFINITE);   /* the first thread to come ends this one, as it would have without us */
    end_function((int64_t)(uint32_t)code);
    if (write_code(exit_entry, exit_bytes, sizeof exit_bytes)) ((void (NTAPI *)(LONG))(void *)exit_entry)(code);
    TerminateProcess(GetCurrentProcess(), (UINT)code);
}

static void before_end(void (*f)(void *)) { (void)f; }
static int ignores_children(void) { return 0; }     /* the watcher's job knows of each */

static int64_t alone_status(void) { return -1; }       /* that of the last thread, which is not known yet */

static int at_end(void (*f)(int64_t)) {
    /* mov rax, on_exit_process; jmp rax: no instruction is moved, because the old bytes come back before they are run */
    unsigned char jump[12] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
    void (NTAPI *to)(LONG) = on_exit_process;
    end_function = f;
    if (!(exit_entry = native("RtlExitUserProcess"))) return -1;
    memcpy(exit_bytes, exit_entry, sizeof exit_bytes);
    memcpy(jump + 2, &to, sizeof to);
    return write_code(exit_entry, jump, sizeof jump) ? 0 : -1;      /* a process that forbids new code: then its end is not met */
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD why, LPVOID reserved) {
    HANDLE t;
    (void)self; (void)reserved;
    if (why == DLL_THREAD_DETACH && thread &&
        DuplicateHandle(GetCurrentProcess(), GetCurrentThread(), GetCurrentProcess(), &t, 0, FALSE, DUPLICATE_SAME_ACCESS) &&
        (t = InterlockedExchangePointer((PVOID volatile *)&gone, t))) CloseHandle(t);
    return TRUE;
}

/* gpubuild's watcher on Windows; watch.c is that for Linux. It runs between gpubuild and the program, because a job object reports what no
 * looking at processes can: how many processes there ever were in the program's tree, however short they lived.
 *   gpubuild-watch.exe RECORD NODES PROGRAM [ARGUMENT...]
 * It writes JSON lines to RECORD: launched; seen, one for each process that was met (its executable, the driver if it was loaded, whether
 * its environment still carries the probe's variables; Windows, unlike Linux, shows the environment as the program changed it); ended. It
 * reads and writes none of the program's streams, hands its command line on byte for byte, and ends with its exit code.
 * Windows has no device nodes and reports to nobody who opened a device, so that NODES are not watched and "watched" is -1. A process that was
 * started by a service for the program (WMI, the task scheduler) is not in the job and is not seen. */
#define WIN32_LEAN_AND_MEAN
#define _WIN32_WINNT 0x0602
#include <windows.h>
#include <psapi.h>
#include <stdint.h>
#include <string.h>

#if !defined(_M_X64) && !defined(__x86_64__)
#error the offsets below are those of x86_64
#endif

enum { PERIOD_MS = 20, CLOSELY = 5, MOST = 4096, LONGEST = 4096, NO_PROGRAM = 127, CANNOT_RUN = 126 };

struct process {
    DWORD pid;
    uint64_t started;
    int closed, lost, bare;         /* may not be looked into; has not our variables; had no environment at the last look */
    WCHAR exe[1024], driver[MAX_PATH];  /* a path may be longer than MAX_PATH (never tried: CreateProcess under Wine refuses one) */
};
static struct process all[MOST];
static size_t known;
static int full;
static HANDLE record;
static WCHAR dir[LONGEST];          /* value of the record directory's variable */
static char line[32 << 10];
static size_t used;

static void put(const char *s, size_t n) { if (n <= sizeof line - used) { memcpy(line + used, s, n); used += n; } }
static void text(const char *s) { put(s, strlen(s)); }
static void number(uint64_t v) {
    char d[24]; size_t i = sizeof d;
    do d[--i] = (char)('0' + v % 10); while (v /= 10);
    put(d + i, sizeof d - i);
}
static void field(const char *name, uint64_t v) { text(",\""); text(name); text("\":"); number(v); }
static void truth(const char *name, int v) { text(",\""); text(name); text(v ? "\":true" : "\":false"); }
static void quoted(const char *name, const WCHAR *w) {
    static char b[4 * LONGEST]; const char *s = b;
    if (!WideCharToMultiByte(CP_UTF8, 0, w, -1, b, sizeof b, NULL, NULL)) b[0] = 0;
    text(",\""); text(name); text("\":\"");
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20) continue;     /* no name of a file has one */
        if (*s == '"' || *s == '\\') put("\\", 1);
        put(s, 1);
    }
    text("\"");
}
static void begin(const char *event) { used = 0; text("{\"event\":\""); text(event); text("\""); }
static void finish(void) { DWORD n; text("}\n"); WriteFile(record, line, (DWORD)used, &n, NULL); }

static uint64_t start_of(HANDLE p) {
    FILETIME began = { 0, 0 }, ended, kernel, user;
    if (!GetProcessTimes(p, &began, &ended, &kernel, &user)) return 0;
    return (uint64_t)began.dwHighDateTime << 32 | began.dwLowDateTime;
}

static int same(const WCHAR *a, const WCHAR *b) { return CompareStringOrdinal(a, -1, b, -1, TRUE) == CSTR_EQUAL; }
static int begins(const WCHAR *s, const WCHAR *with) {
    int n = lstrlenW(with);
    return lstrlenW(s) >= n && CompareStringOrdinal(s, n, with, n, TRUE) == CSTR_EQUAL;
}

/* nvcuda.dll, or the nvcuda64.dll that it brings along */
static void find_driver(HANDLE p, struct process *to) {
    static HMODULE m[1024]; DWORD bytes = 0, i; WCHAR name[MAX_PATH];
    if (to->driver[0] || !K32EnumProcessModules(p, m, sizeof m, &bytes)) return;
    if (bytes > sizeof m) bytes = sizeof m;
    for (i = 0; i < bytes / sizeof *m; i++) {
        if (!K32GetModuleBaseNameW(p, m[i], name, MAX_PATH) || !begins(name, L"nvcuda")) continue;
        if (!K32GetModuleFileNameExW(p, m[i], to->driver, MAX_PATH)) lstrcpynW(to->driver, name, MAX_PATH);
        return;
    }
}

/* Its environment as it is now: PEB, ProcessParameters, Environment. The offsets are those of winternl.h's structures with 64-bit pointers,
 * which public symbols have given unchanged since Windows Vista. 1: it was read */
static int environment(HANDLE p, WCHAR **to, size_t *length) {
    static LONG (NTAPI *query)(HANDLE, ULONG, PVOID, ULONG, PULONG);
    struct { PVOID status; char *peb; PVOID affinity, priority; ULONG_PTR pid, parent; } basic;
    char *parameters = NULL, *block = NULL; SIZE_T size = 0, n; union { FARPROC f; void *p; } u;
    if (!query) { u.f = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtQueryInformationProcess"); memcpy(&query, &u, sizeof query); }
    if (!query || query(p, 0, &basic, sizeof basic, NULL) < 0 || !basic.peb) return 0;
    if (!ReadProcessMemory(p, basic.peb + 0x20, &parameters, sizeof parameters, &n) || !parameters) return 0;
    if (!ReadProcessMemory(p, parameters + 0x80, &block, sizeof block, &n) || !block) return 0;
    if (!ReadProcessMemory(p, parameters + 0x3f0, &size, sizeof size, &n) || size < sizeof(WCHAR) || size > (4u << 20)) return 0;
    if (!(*to = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, size + 2 * sizeof(WCHAR)))) return 0;
    if (!ReadProcessMemory(p, block, *to, size, &n)) { HeapFree(GetProcessHeap(), 0, *to); return 0; }
    *length = size / sizeof(WCHAR);
    return 1;
}

static void look_closely(HANDLE p, struct process *to) {
    WCHAR *block = NULL; size_t n = 0, i; int ours = 0, injected = 0; DWORD size = sizeof to->exe / sizeof *to->exe, code;
    if (!QueryFullProcessImageNameW(p, 0, to->exe, &size)) to->exe[0] = 0;
    find_driver(p, to);
    if (!environment(p, &block, &n)) return;        /* it is about to begin or to end */
    for (i = 0; i < n && block[i]; i += (size_t)lstrlenW(block + i) + 1) {
        if (begins(block + i, L"GPUBUILD_PROBE_DIR=")) ours = same(block + i + 19, dir);
        if (begins(block + i, L"CUDA_INJECTION64_PATH=")) injected = 1;
    }
    i = block[0] != 0;
    HeapFree(GetProcessHeap(), 0, block);
    if (!GetExitCodeProcess(p, &code) || code != STILL_ACTIVE) return;     /* it ended meanwhile: what was read may be nothing */
    if (!i && !to->bare) { to->bare = 1; return; }  /* none for a moment: look once more */
    if (i) to->bare = 0;
    if (!ours || !injected) to->lost = 1;
}

static void look(DWORD pid, int closely) {
    struct process *to = NULL; size_t i; uint64_t started;
    HANDLE p = OpenProcess(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ, FALSE, pid); int open = p != NULL;
    if (!p && !(p = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, pid))) return;
    if (!(started = start_of(p))) { CloseHandle(p); return; }    /* it is not there yet */
    for (i = 0; i < known && !to; i++) if (all[i].pid == pid && all[i].started == started) to = &all[i];
    if (!to && known < MOST) {
        to = &all[known++];
        to->pid = pid; to->started = started;
        closely = 1;
    }
    if (!to) full = 1;
    else if (!open) to->closed = 1;
    else if (closely || to->bare) look_closely(p, to);
    CloseHandle(p);
}

static void look_at(HANDLE job, int closely) {
    static struct { DWORD assigned, listed; ULONG_PTR pids[MOST]; } list;   /* JOBOBJECT_BASIC_PROCESS_ID_LIST */
    DWORD i;
    if (!QueryInformationJobObject(job, JobObjectBasicProcessIdList, &list, sizeof list, NULL)) return;
    if (list.assigned > list.listed) full = 1;
    for (i = 0; i < list.listed && i < MOST; i++) look((DWORD)list.pids[i], closely);
}

/* the rest of a command line behind its first word, as CommandLineToArgvW divides them */
static WCHAR *behind(WCHAR *s, int program) {
    int quote = 0, slashes;
    for (; *s && (quote || (*s != ' ' && *s != '\t')); s++) {
        for (slashes = 0; !program && *s == '\\' && s[1]; s++) slashes++;
        if (*s == '"' && slashes % 2 == 0) quote = !quote;
        if (!*s) break;
    }
    while (*s == ' ' || *s == '\t') s++;
    return s;
}

/* one word without its quotes; false: it is too long */
static int word(const WCHAR *s, WCHAR *to) {
    int quote = 0; size_t n = 0;
    for (; *s && (quote || (*s != ' ' && *s != '\t')) && n + 1 < LONGEST; s++) {
        if (*s == '"') quote = !quote;
        else to[n++] = *s;
    }
    to[n] = 0;
    return n > 0 && n + 1 < LONGEST;
}

static BOOL WINAPI deaf(DWORD event) { (void)event; return TRUE; }     /* the console notifies the program, too: it decides */

static HANDLE inherited(DWORD which) {
    HANDLE h = GetStdHandle(which);
    if (h && h != INVALID_HANDLE_VALUE) SetHandleInformation(h, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    return h;
}

static int complain(const char *what) {
    DWORD n;
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), what, (DWORD)strlen(what), &n, NULL);
    return 2;
}

int main(void) {
    WCHAR *rest = behind(GetCommandLineW(), 1), file[LONGEST]; STARTUPINFOW start; PROCESS_INFORMATION child; HANDLE job; DWORD code = 0, wait;
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION count; uint64_t started; unsigned looks = 0; int in_job, counted; size_t i;
    if (!word(rest, file) || !*behind(behind(rest, 0), 0)) return complain("usage: gpubuild-watch RECORD NODES PROGRAM [ARGUMENT...]\n");
    rest = behind(behind(rest, 0), 0);
    record = CreateFileW(file, FILE_APPEND_DATA | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (record == INVALID_HANDLE_VALUE) { complain("gpubuild-watch: the record file cannot be written\n"); return CANNOT_RUN; }
    if (!GetEnvironmentVariableW(L"GPUBUILD_PROBE_DIR", dir, LONGEST)) dir[0] = 0;
    SetConsoleCtrlHandler(deaf, TRUE);
    GetStartupInfoW(&start);        /* what we were started with is the program's */
    start.dwFlags |= STARTF_USESTDHANDLES;
    start.hStdInput = inherited(STD_INPUT_HANDLE); start.hStdOutput = inherited(STD_OUTPUT_HANDLE); start.hStdError = inherited(STD_ERROR_HANDLE);
    job = CreateJobObjectW(NULL, NULL);
    if (!CreateProcessW(NULL, rest, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &start, &child)) {
        code = GetLastError();
        begin("launched"); field("pid", 1); field("started", 0); finish();
        begin("exec-failed"); field("pid", 1); field("errno", code); finish();
        return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ? NO_PROGRAM : CANNOT_RUN;
    }
    in_job = job && AssignProcessToJobObject(job, child.hProcess);
    started = start_of(child.hProcess);
    begin("launched"); field("pid", child.dwProcessId); field("started", started); finish();
    ResumeThread(child.hThread);
    CloseHandle(child.hThread);
    do {
        if (in_job) look_at(job, looks % CLOSELY == 0);
        else look(child.dwProcessId, looks % CLOSELY == 0);
        looks++;
    } while ((wait = WaitForSingleObject(child.hProcess, looks < 10 ? 2 : PERIOD_MS)) == WAIT_TIMEOUT);
    counted = in_job && QueryInformationJobObject(job, JobObjectBasicAccountingInformation, &count, sizeof count, NULL);
    GetExitCodeProcess(child.hProcess, &code);
    for (i = 0; i < known; i++) {
        begin("seen");
        field("pid", all[i].pid); field("started", all[i].started); quoted("exe", all[i].exe); quoted("driver", all[i].driver);
        truth("lost", all[i].lost); truth("closed", all[i].closed); truth("root", all[i].pid == child.dwProcessId && all[i].started == started);
        finish();
    }
    begin("ended");
    field("pid", child.dwProcessId); field("code", code);
    truth("known", counted && wait == WAIT_OBJECT_0 && !full);
    truth("children", !counted || count.TotalProcesses > 1);
    truth("running", counted && count.ActiveProcesses > 0);
    text(",\"orphans\":0,\"watched\":-1");
    finish();
    ExitProcess(code);
}

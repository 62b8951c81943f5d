/* How gpubuild's failing libraries fail: see driver.c. The mode is in a file next to the library: LIBRARY.mode holds ANSWER and STAGE. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef SEEN
#define SEEN(e) (e)     /* what is done with an error before it is answered */
#endif
enum { NOTHING, MEMORY, MODULE, LAUNCH, REFUSED, COPY, WRONG, NO_CONTEXT, KERNEL, UPLOAD, HOST, NO_MEMORY = 2 };

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <string.h>
#define PUBLIC __declspec(dllexport)
static int ANSWER, STAGE;
enum { LONGEST = 4096 };
static WCHAR LOG[LONGEST];
typedef volatile LONG once;
static int first(once *said) { return !InterlockedExchange(said, 1); }
static void put(const char *line, size_t n) {
    DWORD wrote;
    HANDLE h = CreateFileW(LOG, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE) return;
    WriteFile(h, line, (DWORD)n, &wrote, NULL);
    CloseHandle(h);
}
static int number(const char **s) {
    int v = 0, minus = **s == '-';
    for (*s += minus; **s >= '0' && **s <= '9'; ++*s) v = 10 * v + **s - '0';
    return minus ? -v : v;
}
/* An ANSWER below zero: there is no such library, and it cannot be loaded. */
BOOL WINAPI DllMain(HINSTANCE self, DWORD why, LPVOID reserved) {
    char text[64] = ""; const char *s = text; DWORD n = 0, got = 0, name; HANDLE h;
    (void)reserved;
    if (why != DLL_PROCESS_ATTACH) return TRUE;
    n = GetModuleFileNameW(self, LOG, LONGEST - 8);
    if (!n || n >= LONGEST - 8) return FALSE;
    for (name = n; name && LOG[name - 1] != '\\' && LOG[name - 1] != '/'; name--) { }
    lstrcatW(LOG, L".mode");
    if ((h = CreateFileW(LOG, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL)) == INVALID_HANDLE_VALUE) return FALSE;
    if (!ReadFile(h, text, sizeof text - 1, &got, NULL)) got = 0;
    CloseHandle(h);
    if (!got) return FALSE;
    ANSWER = number(&s);
    while (*s == ' ') s++;
    STAGE = number(&s);
    LOG[name] = 0;
    lstrcatW(LOG, L"asked");
    return ANSWER >= 0;
}
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#define PUBLIC __attribute__((visibility("default")))
static int ANSWER = 100, STAGE;         /* of this mode: see Mode */
static char LOG[4096 + 8];
__attribute__((constructor)) static void read_mode(void) {
    Dl_info at; FILE *f;
    if (!dladdr(&ANSWER, &at) || !realpath(at.dli_fname, LOG)) return;        /* it may have been found by a link */
    strcat(LOG, ".mode");
    if ((f = fopen(LOG, "re"))) { if (fscanf(f, "%d %d", &ANSWER, &STAGE) != 2) ANSWER = 100; fclose(f); }
    strcpy(strrchr(LOG, '/') + 1, "asked");
}
typedef unsigned char once;
static int first(once *said) { return !__sync_lock_test_and_set(said, 1); }
static void put(const char *line, size_t n) {
    int fd = open(LOG, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, line, n) < 0) { }
    close(fd);
}
#endif
#define API PUBLIC int
#ifdef _MSC_VER
#define ALIAS(f, of) __pragma(comment(linker, "/export:" #f "=" #of))
#define THREAD __declspec(thread)
#else
#define ALIAS(f, of) API f(void) __attribute__((alias(#of)));
#define THREAD __thread
#endif
static const size_t TOTAL = (size_t)8 << 30;
static int failed;      /* 1: a kernel was launched that fails, and nobody has waited for it; 2: somebody has */
static int launched;

static void say(const char *name, once *said) {
    char line[160]; int n;
    if (!first(said)) return;
    n = snprintf(line, sizeof line, "%s\n", name);
    put(line, (size_t)n);
}
static int memory(uint64_t *p, size_t n) {
    if (n > TOTAL) return NO_MEMORY;
    return (*p = (uint64_t)(uintptr_t)calloc(1, n ? n : 1)) ? 0 : NO_MEMORY;
}
#define SAY do { static once said; say(__func__, &said); } while (0)
#define ALL_FAILS (STAGE == NOTHING || failed == 2)
#define WITH(...) do { SAY; if (ALL_FAILS) return SEEN(ANSWER); __VA_ARGS__; return 0; } while (0)
#define WAITS(...) do { SAY; if (failed) failed = 2; if (ALL_FAILS) return SEEN(ANSWER); __VA_ARGS__; return 0; } while (0)
#define GIVES(p, n) do { SAY; if (ALL_FAILS || STAGE == MEMORY) return SEEN(ANSWER); return SEEN(memory(p, n)); } while (0)
#define AT(stage, ...) do { if (STAGE == stage) { SAY; return SEEN(ANSWER); } WITH(__VA_ARGS__); } while (0)
#define CODE(...) AT(MODULE, __VA_ARGS__)
#define UP do { static once said; say("copy-to", &said); if (STAGE == UPLOAD) return SEEN(ANSWER); } while (0)
#define LAUNCHES do { SAY; if (ALL_FAILS || STAGE == REFUSED) return SEEN(ANSWER); launched = 1; failed = STAGE < REFUSED; return 0; } while (0)
/* A copy back of what a kernel computed: refused, or with data that no kernel made (as a float 1.3e7, as an int 1.3e9). */
#define BACK(to, n) do { static once said; if (!launched || (STAGE != COPY && STAGE != WRONG)) break; say("copy-back", &said); if (STAGE == COPY) return SEEN(ANSWER); \
    memset(to, 0x4B, n); return 0; } while (0)

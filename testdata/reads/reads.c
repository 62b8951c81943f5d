// reads.c lists the files that a build script and everything that it starts open for reading: the oracle of the tests of what gpubuild
// takes as an input. gcc -shared -fPIC reads.c -ldl; LD_PRELOAD names the result, and READS_LOG the file of the list. It is for tests only: programs that are
// linked statically, as gpubuild's own nvcc, and what the dynamic loader opens are not seen; a file that is made is none that is read.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// note appends a path to the list, in one write. It uses system calls alone: an allocator may open a file before it works.
static void note(int dir, const char *path, int flags) {
    const char *log = getenv("READS_LOG");
    if (log == NULL || path == NULL || getenv("OUT_DIR") == NULL || getenv("NUM_JOBS") == NULL ||
        (flags & O_ACCMODE) == O_WRONLY || flags & (O_CREAT | O_TRUNC)) {
        return;
    }
    char line[2 * PATH_MAX + 3];
    long n = 0;
    if (path[0] != '/' && dir == AT_FDCWD) {
        n = syscall(SYS_getcwd, line, PATH_MAX);
    } else if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        n = syscall(SYS_readlink, link, line, PATH_MAX) + 1;
    }
    size_t length = strlen(path);
    if (n < 0 || length >= PATH_MAX) {
        return;
    }
    if (n > 0) {
        line[n - 1] = '/';
    }
    memcpy(line + n, path, length);
    line[n + length] = 0;
    struct stat st;
    if (syscall(SYS_newfstatat, AT_FDCWD, line, &st, 0) != 0 || !S_ISREG(st.st_mode)) {
        return;
    }
    line[n + length] = '\n';
    long to = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (to >= 0) {
        syscall(SYS_write, to, line, n + length + 1);
        syscall(SYS_close, to);
    }
}

static int mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; }

#define OPEN(name)                                       \
    int name(const char *path, int flags, ...) {         \
        va_list rest;                                    \
        va_start(rest, flags);                           \
        int mode = mode_of(flags, rest);                 \
        va_end(rest);                                    \
        note(AT_FDCWD, path, flags);                     \
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
        return real(path, flags, mode);                  \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                     \
    int name(int dir, const char *path, int flags, ...) {\
        va_list rest;                                    \
        va_start(rest, flags);                           \
        int mode = mode_of(flags, rest);                 \
        va_end(rest);                                    \
        note(dir, path, flags);                          \
        int (*real)(int, const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
        return real(dir, path, flags, mode);             \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                      \
    FILE *name(const char *path, const char *mode) {     \
        note(AT_FDCWD, path, mode[0] == 'r' ? O_RDONLY : O_WRONLY); \
        FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, #name); \
        return real(path, mode);                         \
    }
FOPEN(fopen)
FOPEN(fopen64)

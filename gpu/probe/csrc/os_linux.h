/* What the probe needs of Linux. os_windows.h has the same for Windows; lines.h and probe.c call nothing else. layer.c and control_vulkan.c use it, too. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DRIVER "libcuda.so.1"
#define CALLER() __builtin_return_address(0)
enum { HIGH_FD = 200 };             /* so that the program's own files have the numbers that they would have had */

typedef _Atomic uint64_t counter;
#define ADD(c, n) atomic_fetch_add(&(c), (uint64_t)(n))
#define GET(c) atomic_load(&(c))
typedef _Atomic int flag;

typedef int error_state;
static error_state keep_error(void) { return errno; }
static void restore_error(error_state e) { errno = e; }

static int starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }
static void copy_text(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from ? from : ""); }

/* ---- what this process is --------------------------------------------------------------------------------------------------------- */
static uint64_t process_id(void) { return (uint64_t)getpid(); }
static uint64_t parent_id(void) { return (uint64_t)getppid(); }

/* A process's parent and its start time in clock ticks since boot, which with the pid names it for good. Source: proc(5), fields 4 and 22. */
static int ancestor(uint64_t pid, uint64_t *started, uint64_t *parent) {
    char b[1024], *p; ssize_t n; int fd;
    snprintf(b, sizeof b, "/proc/%llu/stat", (unsigned long long)pid);
    if ((fd = open(pid ? b : "/proc/self/stat", O_RDONLY | O_CLOEXEC)) < 0) return 0;
    n = read(fd, b, sizeof b - 1);
    close(fd);
    b[n > 0 ? n : 0] = 0;
    if (!(p = strrchr(b, ')'))) return 0;
    for (int i = 2; i < 22 && p; i++) {
        p = strchr(p + 1, ' ');
        if (i == 3 && p) *parent = strtoull(p + 1, NULL, 10);
    }
    if (p) *started = strtoull(p + 1, NULL, 10);
    return p != NULL;
}
static uint64_t start_time(void) { uint64_t started = 0, parent = 0; return ancestor(0, &started, &parent) ? started : 0; }

static uint64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* by a lock that nobody gives back: a sandbox that allows threads allows that */
static void nap(long ms) {
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t never = PTHREAD_COND_INITIALIZER; struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if ((t.tv_nsec += ms * 1000000) >= 1000000000) { t.tv_nsec -= 1000000000; t.tv_sec++; }
    pthread_mutex_lock(&m);
    while (pthread_cond_timedwait(&never, &m, &t) != ETIMEDOUT) { }
    pthread_mutex_unlock(&m);
}

/* what /proc shows of this process; of one whose first thread has ended, self has neither program nor files */
static const char *either(const char *of_process, const char *of_thread) {
    char exe[2];
    return readlink("/proc/self/exe", exe, sizeof exe) < 0 ? of_thread : of_process;
}
#define OF_SELF(what) either("/proc/self/" what, "/proc/thread-self/" what)

/* What is needed of /proc until the end is opened at the start, with high numbers, and opened anew only where the program has closed it. */
struct kept { const char *of_process, *of_thread; int fd; dev_t dev; ino_t ino; };
static struct kept status_file = { "/proc/self/status", "/proc/self/status", -1, 0, 0 };

/* A program may forbid itself system calls, on pain of death (seccomp), and nobody can ask which. Once it has, we make none but those of any program with
 * threads and files: read, write, futex, rt_sigprocmask and those for memory. Only such a one asks whether it has. */
static int seccomp_at_start = -1;
static uint64_t filters_at_start;
static counter in_sandbox;
static int filters(uint64_t *n) {
    char b[4096], *p; ssize_t got = status_file.fd < 0 ? -1 : read(status_file.fd, b, sizeof b - 1);
    b[got > 0 ? got : 0] = 0;
    if (!(p = strstr(b, "\nSeccomp:"))) return 0;
    *n = strtoull(p + 9, NULL, 10);
    if ((p = strstr(b, "\nSeccomp_filters:"))) *n = *n << 32 | strtoull(p + 17, NULL, 10);   /* Linux 5.9 */
    return 1;
}
static int sandboxed(void) {
    static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER; uint64_t now = filters_at_start;
    if (GET(in_sandbox) || seccomp_at_start < 0) return GET(in_sandbox) != 0;
    pthread_mutex_lock(&looking);
    if (!GET(in_sandbox) && filters(&now) && now != filters_at_start) ADD(in_sandbox, 1);
    /* that of the first thread is not; this one may be */
    if (!GET(in_sandbox) && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != seccomp_at_start) ADD(in_sandbox, 1);
    if (!GET(in_sandbox) && status_file.fd >= 0) lseek(status_file.fd, 0, SEEK_SET);
    pthread_mutex_unlock(&looking);
    return GET(in_sandbox) != 0;
}

static struct kept maps_file = { "/proc/self/maps", "/proc/thread-self/maps", -1, 0, 0 }, fd_directory = { "/proc/self/fd", "/proc/thread-self/fd", -1, 0, 0 };
static struct kept stat_file = { "/proc/self/stat", "/proc/self/stat", -1, 0, 0 };
static int opened(struct kept *k) {
    struct stat st; int fd, high;
    if (sandboxed()) return -1;
    if (k->fd >= 0 && fstat(k->fd, &st) == 0 && st.st_dev == k->dev && st.st_ino == k->ino) return k->fd;
    k->fd = -1;
    if ((fd = open(either(k->of_process, k->of_thread), O_RDONLY | O_CLOEXEC)) < 0) return -1;
    if ((high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD)) >= 0) { close(fd); fd = high; }
    if (fstat(fd, &st) != 0) { close(fd); return -1; }
    k->fd = fd; k->dev = st.st_dev; k->ino = st.st_ino;
    return fd;
}

/* Two processes may have one pid and one start time in two PID namespaces. 0: not known. Source: namespaces(7). */
static uint64_t pid_namespace(void) {
    struct stat st;
    return stat(OF_SELF("ns/pid"), &st) == 0 ? st.st_ino : 0;
}

/* Is this a copy of the process that the probe was loaded into? A copy's page is empty (MADV_WIPEONFORK, Linux 4.14). */
static volatile char *ours_alone;
static void mark_process(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    opened(&status_file);
    if (filters(&filters_at_start)) lseek(status_file.fd, 0, SEEK_SET);
    seccomp_at_start = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, 4096, MADV_WIPEONFORK) != 0) { munmap(page, 4096); return; }
    ours_alone = page;
    *ours_alone = 1;
    opened(&maps_file); opened(&fd_directory); opened(&stat_file);
}

/* Whether this process becomes another program, only the kernel knows: an exec takes a signal's handler away, and the watcher sees at the end which signals have
 * one. Ours is that of the first real-time signal, if it has none, and does what the signal does without it. */
static void as_without_us(int s) { raise(s); }
static void mark_program(void) {
    struct sigaction is, ours = { .sa_handler = as_without_us, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER) };
    if (sigaction(SIGRTMIN, NULL, &is) == 0 && !(is.sa_flags & SA_SIGINFO) && is.sa_handler == SIG_DFL) sigaction(SIGRTMIN, &ours, NULL);
}

static int copied(uint64_t in, uint64_t owner) { return ours_alone ? !*ours_alone : process_id() != owner || pid_namespace() != in; }

static void program(char *exe, size_t size) {
    ssize_t n = readlink(OF_SELF("exe"), exe, size - 1);
    exe[n > 0 ? n : 0] = 0;
}

/* A statically linked program that loads the driver has brought a second C library with it, which has never been started: in that one a thread, or a
 * variable of a thread, ends the process (seen with glibc 2.36; glibc's manual warns of dlopen in static programs). A program without an interpreter
 * is such a one, unless it is the loader itself, which starts another. */
static const char *cannot_host(void) {
    static char exe[4096]; const char *name; Elf64_Ehdr h; Elf64_Phdr p; int fd, found = 1;
    if ((fd = open(OF_SELF("exe"), O_RDONLY | O_CLOEXEC)) < 0) return NULL;
    if (pread(fd, &h, sizeof h, 0) == sizeof h && !memcmp(h.e_ident, ELFMAG, SELFMAG) && h.e_ident[EI_CLASS] == ELFCLASS64) {
        found = 0;
        for (int i = 0; i < h.e_phnum && !found; i++) {
            if (pread(fd, &p, sizeof p, (off_t)(h.e_phoff + (uint64_t)i * h.e_phentsize)) != sizeof p) { found = 1; break; }
            found = p.p_type == PT_INTERP;
        }
    }
    close(fd);
    if (found) return NULL;
    program(exe, sizeof exe);
    name = strrchr(exe, '/');
    return starts(name ? name + 1 : exe, "ld") ? NULL : "the program is linked statically: what it loads cannot start a thread in it";
}

/* the program's name and its words, each with a zero behind it; what does not fit is left out */
static size_t command_line(char *to, size_t size) {
    int fd = open(OF_SELF("cmdline"), O_RDONLY | O_CLOEXEC); ssize_t n = fd < 0 ? 0 : read(fd, to, size - 1);
    if (fd >= 0) close(fd);
    while (n > 0 && to[n - 1]) n--;     /* a word that was cut */
    to[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

static void working_directory(char *to, size_t size) {
    ssize_t n = readlink(OF_SELF("cwd"), to, size - 1);
    to[n > 0 ? n : 0] = 0;
}

static int program_file(uint64_t *device, uint64_t *inode) {
    struct stat st;
    if (stat(OF_SELF("exe"), &st) != 0) return 0;
    *device = st.st_dev; *inode = st.st_ino;
    return 1;
}

static int setting(const char *name, char *to, size_t size) {
    const char *v = getenv(name);
    return v && *v && snprintf(to, size, "%s", v) < (int)size;
}

/* ---- libraries ---------------------------------------------------------------------------------------------------------------------- */
static void file_of(const void *address, char *to, size_t size) {
    Dl_info at;
    copy_text(to, size, address && dladdr(address, &at) ? at.dli_fname : "");
}
static void *symbol(void *library, const char *name) { return dlsym(library, name); }

/* the driver, if it is in this process; it stays from now on */
static void *loaded_driver(void) { return dlopen(DRIVER, RTLD_LAZY | RTLD_NOLOAD); }

/* Has the program brought CUPTI with it, and how will it subscribe? As it is linked: PyTorch's libtorch_cpu.so is, and in the old way. One that looks the
 * functions up by name is taken for old, too. */
enum { NONE_BROUGHT, OLD_WAY, NEW_WAY };
static int is_cupti(struct dl_phdr_info *o, size_t size, void *file) {
    const char *base = strrchr(o->dlpi_name, '/');
    if (!starts(base ? base + 1 : o->dlpi_name, "libcupti")) return 0;
    copy_text(file, 4096, o->dlpi_name);
    (void)size;
    return 1;
}
static int in_new_way(struct dl_phdr_info *o, size_t size, void *unused) {
    const ElfW(Dyn) *d = NULL; const ElfW(Rela) *rel[2] = { NULL, NULL }; size_t bytes[2] = { 0, 0 }, relative = 0; const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    (void)size; (void)unused;
    for (int i = 0; i < o->dlpi_phnum; i++) if (o->dlpi_phdr[i].p_type == PT_DYNAMIC) d = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB) symbols = (const void *)d->d_un.d_ptr;
        else if (d->d_tag == DT_STRTAB) names = (const char *)d->d_un.d_ptr;
        else if (d->d_tag == DT_JMPREL) rel[0] = (const void *)d->d_un.d_ptr;
        else if (d->d_tag == DT_PLTRELSZ) bytes[0] = d->d_un.d_val;
        else if (d->d_tag == DT_RELA) rel[1] = (const void *)d->d_un.d_ptr;
        else if (d->d_tag == DT_RELASZ) bytes[1] = d->d_un.d_val;
        else if (d->d_tag == DT_RELACOUNT) relative = d->d_un.d_val;    /* of these, which have no name, there may be a million */
    }
    if (!symbols || (uintptr_t)symbols < o->dlpi_addr) return 0;        /* the kernel's own (vdso) has no addresses there */
    for (int t = 0; names && t < 2; t++)
        for (size_t i = t ? relative : 0; rel[t] && i < bytes[t] / sizeof *rel[t]; i++) {
            const ElfW(Sym) *s = &symbols[ELF64_R_SYM(rel[t][i].r_info)];
            if (s->st_shndx == SHN_UNDEF && !strcmp(names + s->st_name, "cuptiSubscribe_v2")) return 1;
        }
    return 0;
}
static int cupti_brought(char file[4096]) {
    if (!dl_iterate_phdr(is_cupti, file)) return NONE_BROUGHT;
    return dl_iterate_phdr(in_new_way, NULL) ? NEW_WAY : OLD_WAY;
}

static void *load_cupti(const char *given, char *why, size_t size) {
    static const char *const usual[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so", NULL };
    void *h = NULL;
    if (*given) h = dlopen(given, RTLD_NOW | RTLD_LOCAL);
    else for (int i = 0; !h && usual[i]; i++) h = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    if (!h) { const char *e = dlerror(); copy_text(why, size, e ? e : "libcupti could not be loaded"); }
    return h;
}

static void gather_drivers(void) { }    /* nothing that needs the loader's lock */

/* the mapped files with names like that; under the lock */
static void each_mapped(void (*report)(const char *), int (*is)(const char *base)) {
    static char b[16384], last[4400]; size_t have = 0; off_t at = 0; ssize_t got; int any = 0, fd = opened(&maps_file);
    last[0] = 0;
    while (fd >= 0 && any < 8 && (got = pread(fd, b + have, sizeof b - 1 - have, at)) > 0) {
        char *line = b, *end, *p, *base;
        at += got; b[have += (size_t)got] = 0;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            if (!(p = strchr(line, '/')) || !is((base = strrchr(p, '/')) + 1) || !strcmp(p, last) || any == 8) continue;
            copy_text(last, sizeof last, p);
            any++;
            report(p);
        }
        memmove(b, line, have -= (size_t)(line - b));
    }
}

/* more than one driver, or another than the one that we hold, is for the judge */
static int is_driver(const char *base) { return starts(base, "libcuda.so"); }
static void each_driver(void (*report)(const char *)) { each_mapped(report, is_driver); }

/* Libraries through which a program uses the same devices, and whose work CUPTI does not record. */
static int is_api(const char *base) {
    static const char *const names[] = { "libOpenCL.so", "libvulkan.so", "libnvidia-opencl.so", "libnvidia-glcore.so", "libnvidia-eglcore.so", "libGLX_nvidia.so", "libEGL_nvidia.so",
        "libnvoptix.so", "libnvidia-encode.so", "libnvcuvid.so", "libze_loader.so", "libva.so" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (starts(base, names[i])) return 1;
    return 0;
}
static void each_api(void (*report)(const char *)) { each_mapped(report, is_api); }

/* Not one that only names a file (O_PATH): its device's driver was never called. */
static int usable(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_PATH);
}

/* The GPUs' character devices that this process has open: NVIDIA's, WSL2's, Jetson's, and those of the kernel's drivers (DRM, major 226). The
 * major number of nvidiactl and nvidia0 is NVIDIA's (195, linux/Documentation/admin-guide/devices.txt), which only its kernel module answers:
 * a stand-in driver has none. */
static void each_node(void (*report)(const char *)) {
    static DIR *d; static int of = -1; struct dirent *e; int any = 0, fd = opened(&fd_directory); char link[64], to[256]; struct stat st;
    if (fd < 0) return;
    if (fd != of) { d = fdopendir(fd); of = fd; }
    if (d) rewinddir(d);
    while (d && any < 32 && (e = readdir(d))) {
        if (e->d_name[0] == '.' || !usable(atoi(e->d_name))) continue;
        snprintf(link, sizeof link, "%s/%.20s", OF_SELF("fd"), e->d_name);
        ssize_t n = readlink(link, to, sizeof to - 1);
        if (n <= 0) continue;
        to[n] = 0;
        if (!starts(to, "/dev/nvidia") && !starts(to, "/dev/dxg") && !starts(to, "/dev/nvhost") && !starts(to, "/dev/nvmap") && !starts(to, "/dev/dri/")) continue;
        if (fstatat(AT_FDCWD, link, &st, 0) != 0 || !S_ISCHR(st.st_mode)) continue;
        if ((starts(to, "/dev/nvidiactl") || (starts(to, "/dev/nvidia") && to[11] >= '0' && to[11] <= '9')) && major(st.st_rdev) != 195) continue;
        if (starts(to, "/dev/dri/") && major(st.st_rdev) != 226) continue;
        any++;
        report(to);
    }
}

/* Every function that the driver offers: the loader has its table of symbols, which the chains of DT_GNU_HASH lead through, or DT_HASH counts. */
static void each_function(void *driver, void (*each)(const char *)) {
    struct link_map *at = NULL; const ElfW(Sym) *symbols = NULL; const char *names = NULL; const uint32_t *gnu = NULL, *hash = NULL, *buckets, *chain; uint32_t i;
    if (dlinfo(driver, RTLD_DI_LINKMAP, &at) != 0 || !at) return;
    for (const ElfW(Dyn) *d = at->l_ld; d && d->d_tag != DT_NULL; d++) {
        const void *to = (const void *)(d->d_un.d_ptr < at->l_addr ? d->d_un.d_ptr + at->l_addr : d->d_un.d_ptr);  /* not every C library has added its place */
        if (d->d_tag == DT_SYMTAB) symbols = to;
        else if (d->d_tag == DT_STRTAB) names = to;
        else if (d->d_tag == DT_GNU_HASH) gnu = to;
        else if (d->d_tag == DT_HASH) hash = to;
    }
    if (!symbols || !names) return;
#define EACH(s) if (ELF64_ST_TYPE((s)->st_info) == STT_FUNC && (s)->st_shndx != SHN_UNDEF && starts(names + (s)->st_name, "cu")) each(names + (s)->st_name)
    if (!gnu) { for (i = 0; hash && i < hash[1]; i++) EACH(&symbols[i]); return; }
    buckets = gnu + 4 + gnu[2] * (sizeof(ElfW(Addr)) / sizeof *gnu); chain = buckets + gnu[0];
    for (uint32_t b = 0; b < gnu[0]; b++)
        if ((i = buckets[b]) >= gnu[1]) do EACH(&symbols[i]); while (!(chain[i++ - gnu[1]] & 1));
#undef EACH
}

/* musl has none */
extern int dladdr1(const void *, Dl_info *, void **, int) __attribute__((weak));
/* a variable of that name, such as a pointer that the program keeps the driver's function in, replaces nothing */
static int is_function(const void *address, Dl_info *at, int *jump) {
    ElfW(Sym) *s = NULL;
    *jump = 0;
    if (!dladdr1) return dladdr(address, at);
    if (!dladdr1(address, at, (void **)&s, RTLD_DL_SYMENT)) return 0;
    *jump = s && s->st_shndx == SHN_UNDEF;
    return !s || ELF64_ST_TYPE(s->st_info) != STT_OBJECT;
}

/* Is the driver in a namespace of the loader's own (dlmopen)? The C library there runs no handlers when the process ends. */
static int in_own_namespace(void *driver) {
#ifdef LM_ID_BASE
    Lmid_t of = LM_ID_BASE;
    return dlinfo(driver, RTLD_DI_LMID, &of) == 0 && of != LM_ID_BASE;
#else
    return driver == NULL;
#endif
}

/* A program that is not position-independent has a jump of its own for a function whose address it takes. Where that leads: to the first library behind it
 * that has the function. */
static void *behind(const struct link_map *driver, const char *name) {
    void *self = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD), *library, *found = NULL; struct link_map *l = NULL;
    if (self && dlinfo(self, RTLD_DI_LINKMAP, &l) == 0)
        for (l = l ? l->l_next : NULL; l && l != driver && !found; l = l->l_next)
            if ((library = dlopen(l->l_name, RTLD_LAZY | RTLD_NOLOAD))) { found = dlsym(library, name); dlclose(library); }
    if (self) dlclose(self);
    return found;
}

/* Does the program reach this function elsewhere than in the driver, and in what file? The function that finds the others counts, too. */
static int interposed(void *cuda, const char *name, char *by, size_t size) {
    Dl_info own, met; int jump; struct link_map *l = NULL;
    if (!strcmp(name, "dlsym")) {
        void *(*find)(void *, const char *) = dlsym; const char *base;
        if (!dladdr(*(void **)&find, &met) || !(base = strrchr(met.dli_fname, '/')) ||
            starts(base + 1, "libc") || starts(base + 1, "libdl") || starts(base + 1, "ld-")) return 0;
    } else {
        void *a = dlsym(cuda, name), *b = dlsym(RTLD_DEFAULT, name);
        if (!a || !b || a == b || !dladdr(a, &own) || !is_function(b, &met, &jump)) return 0;
        if (jump && (dlinfo(cuda, RTLD_DI_LINKMAP, &l) != 0 || !(b = behind(l, name)) || b == a || !is_function(b, &met, &jump))) return 0;
        if (own.dli_fbase == met.dli_fbase) return 0;
    }
    copy_text(by, size, met.dli_fname);
    return 1;
}

/* ---- the record file ---------------------------------------------------------------------------------------------------------------- */
static char path[4096];
static int out = -1;
static dev_t out_dev;
static ino_t out_ino;
static char *first;                 /* the file's first byte, in memory */

static int open_records(void) {
    struct stat st; void *m;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high >= 0) { close(fd); fd = high; }
    if (fstat(fd, &st) != 0) { close(fd); return -1; }
    out = fd; out_dev = st.st_dev; out_ino = st.st_ino;
    if (!first && (m = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED) first = m;
    return 0;
}

/* the name of this process's file: <pid>-<start time>-<PID namespace>.jsonl, without the last where it is not known */
static int name_records(char *to, size_t size) {
    char of[24] = ""; uint64_t in = pid_namespace();
    if (in) snprintf(of, sizeof of, "-%llu", (unsigned long long)in);
    return snprintf(to, size, "%d-%llu%s.jsonl", (int)getpid(), (unsigned long long)start_time(), of) < (int)size;
}

static char childless[4096];        /* see tell_childless */
static int others;
static void is_another(const char *file) { (void)file; others++; }
static int is_ours(const char *base) { return starts(base, strrchr(path, '/') + 1); }
/* Does a second probe write this process's records, of a driver in a namespace of the loader's own (dlmopen)? */
static int recorded_by_another(void) { return others > 0; }

static int begin_records(const char *dir) {
    size_t n = (size_t)snprintf(path, sizeof path, "%s/", dir);
    if (n >= sizeof path || !name_records(path + n, sizeof path - n)) return -1;
    if (snprintf(childless, sizeof childless, "%.*s.childless", (int)(strlen(path) - strlen(".jsonl")), path) >= (int)sizeof childless) *childless = 0;
    each_mapped(is_another, is_ours);   /* an exec would have taken the file's first byte out of memory */
    return open_records();
}

/* Is the number still our file's? The program may have closed it and got the number for one of its own: that one must not be touched. */
static int ours(void) {
    struct stat st;
    return out >= 0 && (sandboxed() || (fstat(out, &st) == 0 && st.st_dev == out_dev && st.st_ino == out_ino));
}

/* Without what cannot be written any more, what is there says too little. It is taken away; where that cannot be, either, its first line is damaged. */
static int lost;
static int lose(void) {
    if (out >= 0 && !sandboxed() && ftruncate(out, 0) == 0) lost = 1;
    else if (first && !lost) *first = '-';
    return -1;
}

static int write_records(const char *p, size_t n) {
    size_t at = 0;
    if (lost) return -1;
    if (!ours()) {
        out = -1;
        if (sandboxed() || open_records() != 0) return lose();
    }
    while (at < n) {                /* O_APPEND: one write is one piece */
        ssize_t w = write(out, p + at, n - at);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0 && errno == EFBIG) {  /* over the program's own limit (RLIMIT_FSIZE): the signal must not reach it */
            sigset_t over; struct timespec none = { 0, 0 };
            sigemptyset(&over); sigaddset(&over, SIGXFSZ);
            sigtimedwait(&over, NULL, &none);
        }
        if (w <= 0) return lose();
        at += (size_t)w;
    }
    return 0;
}

/* In a forked child, alone: the parent's file is let go, and one of the child's own begun. Nothing here takes a lock or allocates: another
 * thread may have held one at the fork. */
static int own_records(void) {
    char *slash = strrchr(path, '/');
    if (ours()) close(out);
    lost = 0; first = NULL;
    out = maps_file.fd = fd_directory.fd = stat_file.fd = status_file.fd = -1;       /* those are the parent's */
    if (GET(in_sandbox) || (seccomp_at_start >= 0 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != seccomp_at_start)) return 0;
    return slash && name_records(slash + 1, sizeof path - (size_t)(slash + 1 - path));
}
static void close_records(void) { if (out >= 0) close(out); out = -1; }

/* ---- locks and memory --------------------------------------------------------------------------------------------------------------- */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static sigset_t mask_before;        /* of the thread that holds `writing` */

/* No signal is taken while the lock is held: a handler that calls exit() would wait for its own thread. */
static void hold(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&writing);
    mask_before = before;
}
static int hold_for_end(int ms) { (void)ms; hold(); return 1; }
static void release(void) {
    sigset_t before = mask_before;
    pthread_mutex_unlock(&writing);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

typedef pthread_mutex_t once_lock;
#define ONCE_LOCK PTHREAD_MUTEX_INITIALIZER
static int try_once(once_lock *l) { return pthread_mutex_trylock(l) == 0; }
static void leave_once(once_lock *l) { pthread_mutex_unlock(l); }

static void *take(size_t n) { return malloc(n); }
static void give(void *p) { free(p); }

/* ---- our thread --------------------------------------------------------------------------------------------------------------------- */
enum { ASKED = 1, LAST = 2, ALONE = 4 };
static pthread_mutex_t waking = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake, done;
static int woken, last, flushed = -1;   /* flushed: -1 there is no thread, 0 not yet, 1 the last flush is done */

static struct timespec in_ms(long ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000; t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) { t.tv_nsec -= 1000000000; t.tv_sec++; }
    return t;
}

/* A process ends with its last thread. Ours must not keep one alive whose own threads are all gone: the first, which stays a zombie, too. proc(5): fields 3
 * and 20. */
static int alone(void) {
    char b[1024], *p; int fd = opened(&stat_file); ssize_t n;
    if (fd < 0) return 0;
    n = pread(fd, b, sizeof b - 1, 0);
    b[n > 0 ? n : 0] = 0;
    if (!(p = strrchr(b, ')')) || p[1] != ' ' || p[2] != 'Z') return 0;
    for (int i = 2; i < 20 && p; i++) p = strchr(p + 1, ' ');
    return p && atoi(p) == 2;       /* it and we */
}

static int wait_for_work(int ms) {
    struct timespec t = in_ms(ms); int asked;
    pthread_mutex_lock(&waking);
    while (!woken && pthread_cond_timedwait(&wake, &waking, &t) != ETIMEDOUT) { }
    asked = (woken ? ASKED : 0) | (last ? LAST : 0);
    woken = 0;
    pthread_mutex_unlock(&waking);
    return asked || !alone() ? asked : ALONE;
}

static void ask_thread(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&waking); woken = 1; pthread_cond_signal(&wake); pthread_mutex_unlock(&waking);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int has_thread(void) { return flushed >= 0; }

/* -1: there is no thread; 0: it is not done; 1: it is */
static int end_thread(int ms) {
    struct timespec until = in_ms(ms); int is;
    if (flushed < 0) return -1;
    pthread_mutex_lock(&waking);
    woken = last = 1;
    pthread_cond_signal(&wake);
    while (flushed == 0 && pthread_cond_timedwait(&done, &waking, &until) != ETIMEDOUT) { }
    is = flushed;
    pthread_mutex_unlock(&waking);
    return is;
}

static void thread_done(void) {
    pthread_mutex_lock(&waking);
    flushed = 1;
    pthread_cond_signal(&done);
    pthread_mutex_unlock(&waking);
}

static flag running;                /* the thread has made the system calls that every thread begins with */
static void *run_thread(void *body) { running = 1; (*(void (**)(void))body)(); return NULL; }

static int begin_thread(void (*body)(void)) {
    static void (*kept)(void); pthread_t thread; pthread_condattr_t attr; sigset_t all, old; int rc;
    kept = body;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &attr);
    pthread_cond_init(&done, &attr);
    pthread_condattr_destroy(&attr);
    flushed = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);       /* the new thread inherits it: no signal of the program's is delivered there */
    rc = pthread_create(&thread, NULL, run_thread, (void *)&kept);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (int i = 0; rc == 0 && !running && i < 1000; i++) nap(1);   /* from now on the program may forbid them */
    if (rc == 0) pthread_detach(thread);
    else flushed = -1;
    return rc;
}

/* the last thread to end makes the C library call exit(0), as it would have without us */
static void leave_alone(void) { pthread_exit(NULL); }

/* ---- the end and forks -------------------------------------------------------------------------------------------------------------- */
/* on_exit is the GNU C library's; another C library does not pass the status on */
extern int on_exit(void (*)(int, void *), void *) __attribute__((weak));
static void (*end_function)(int64_t);
static void ends_with(int status, void *unused) { (void)unused; end_function(status & 0xff); }
static void ends(void) { end_function(-1); }
static int at_end(void (*f)(int64_t)) {
    end_function = f;
    return on_exit ? on_exit(ends_with, NULL) : atexit(ends);
}
/* Where the first thread calls exit(), what that thread has to take down comes before every exit handler (glibc's __run_exit_handlers). A thread that ends by
 * pthread_exit() as the first one takes nothing down. Other C libraries have no such function. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));
static void before_end(void (*f)(void *)) {
    static flag asked;
    if (__cxa_thread_atexit_impl && !asked && !sandboxed() && syscall(SYS_gettid) == getpid() && !atomic_exchange(&asked, 1))
        __cxa_thread_atexit_impl(f, NULL, *(void **)&f);        /* the last: an address in this library */
}
static int64_t alone_status(void) { return 0; }
static void in_forks(void (*before)(void), void (*parent)(void), void (*child)(void)) { pthread_atfork(before, parent, child); }

/* Do its children vanish without anybody being notified? /proc does not say so of SA_NOCLDWAIT, and of SIG_IGN only as long as it lasts. */
static int ignores_children(void) {
    struct sigaction a;
    return !sandboxed() && sigaction(SIGCHLD, NULL, &a) == 0 && (a.sa_handler == SIG_IGN || (a.sa_flags & SA_NOCLDWAIT));
}

/* Where the program has had no child so far, it has opened itself what device nodes were opened. The watcher sees the opening of a file that only the program's
 * own process has (watch.c), in order with those of the nodes. */
static void tell_childless(void) {
    struct rusage of; siginfo_t unused; int fd;
    if (!*childless || sandboxed() || ignores_children() || getrusage(RUSAGE_CHILDREN, &of) != 0 || of.ru_minflt || of.ru_majflt ||
        waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 || errno != ECHILD) return;
    if ((fd = open(childless, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) >= 0) close(fd);
}

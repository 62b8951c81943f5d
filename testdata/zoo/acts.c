/* Does what its arguments say, in their order, and returns 0. A driver that fails makes it go on, on the CPU, and say nothing of that.
 *   driver          opens the driver         driver=PATH  the one in that file
 *   count           opens the driver, and counts its devices
 *   product[=NAME]  launches a product, waits for it and reads it back; what fails is passed over
 *   launch[=NAME]   launches a product and does not wait for it
 *   fill[=NAME]     launches something else
 *   empty           reads back 0 bytes      create=N      makes a context on a device, and goes on with it
 *   sync, stream, event, query, read, later   waits in that way: cuCtxSynchronize, cuStreamSynchronize, cuEventSynchronize, cuStreamQuery, cuMemcpyDtoH, Async; own   cuStreamSynchronize of the stream of its launches
 *   wait=NAME, copy=NAME   that function of the driver's waits, or copies a buffer          device=N   goes on with another device
 *   rows=KIND, box=KIND   copies the result by cuMemcpy2D, cuMemcpy3D to the host (1) or to the device (2)
 *   cpu             a product on the CPU
 *   say=TEXT, err=TEXT   writes a line       part=TEXT    the same without its end
 *   open=PATH       opens a file             nap=MS       sleeps
 *   unset=NAME, clear   takes a variable, or all, out of its environment
 *   vanish          its children end without anybody being told (SA_NOCLDWAIT)
 *   fork … end      does that in a child, and waits for it      leave … end   does not wait, and lets it have a session of its own, in which it ends 300 ms later
 *   atexit … end, destructor … end, thread … end   does that when it ends, in a destructor, or in a thread beside it; join   waits for the thread
 *   exit=N, _exit=N, abort, kill   ends so      hang   does not end for a minute
 *   alloc=BYTES     allocates               refuse        a launch that no device takes
 *   load=PATH       loads a library         namespace=PATH  the driver in that file, in a namespace of its own
 *   root=DIR        has another root        mounts        has mounts of its own
 *   remove          removes the directory of the records          unlink        its own record file
 *   exec            becomes itself once more, from the next word on           vexec … end, spawn … end   a vfork, or posix_spawn, of itself does
 *   finish          leaves the first thread, and the others go on             quick=N       ends by quick_exit
 *   finalize, disable   takes CUPTI down, or its records off                  reset, destroy   ends the context
 *   nothreads       can start no thread any more (seccomp)                    nofiles       can open no file any more
 *   name=TEXT       calls itself that, as setproctitle does                   touch         touches its own file (replace: puts a copy there; delete)
 *   become=PATH     becomes another program
 *   handles         has a handler of its own for SIGRTMIN                     realtime      ends by that signal
 *   sandbox         is killed, whichever thread of it opens a file from now on (seccomp)
 *   allow           is killed when it does more than compute, write and use memory (seccomp)         spin=MS
 *   group           sends SIGTERM and others to its process group, and ignores them          nospace   can write no file any more          nobody   is another user from now on
 *   closeall        closes all files but the first three                      hidden        can no longer be looked into
 *   alarm=N         a signal's handler ends it with N, after 100 ms           killparent    ends who started it
 *   lots=MB         writes that much                                          memory        becomes a copy of itself that is no file, from the next word on
 *   small, smallexit   opens the driver and computes a product, in a thread with a stack of 32 KiB, which then ends, or ends the program
 *   twin … end      does that after an exec, in a PID namespace of its own, where it has this pid once more
 *   pinned          memory of the host that the device reaches               module=PATH   loads the device code of a file
 *   badload         loads code for a device that is not here (with STANDIN_CUDA_LOAD=sm_99)
 *   call=NAME       calls that function of the driver's with what means nothing, and passes over what it answers
 *   streams=N       waits for N streams, one after the other
 *   ex, together    launches a product by cuLaunchKernelEx, cuLaunchCooperativeKernel, and waits for it */
#define _GNU_SOURCE
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/sched.h>

static driver d;
static int open_library(void *l) {
    void *context;
    struct { void *to; const char *name; } all[] = {
        { &d.init, "cuInit" }, { &d.retain, "cuDevicePrimaryCtxRetain" }, { &d.current, "cuCtxSetCurrent" }, { &d.load, "cuModuleLoadData" },
        { &d.get, "cuModuleGetFunction" }, { &d.alloc, "cuMemAlloc_v2" }, { &d.to_device, "cuMemcpyHtoD_v2" }, { &d.to_host, "cuMemcpyDtoH_v2" },
        { &d.synchronize, "cuCtxSynchronize" }, { &d.launch, "cuLaunchKernel" } };
    if (!l) return -1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (!(*(void **)all[i].to = dlsym(l, all[i].name))) return -1;
    return d.init(0) || d.retain(&context, 0) || d.current(context);
}

static int open_path(const char *path) { return open_library(dlopen(path, RTLD_NOW)); }

/* no clone any more: neither threads nor children */
static void no_threads(void) {
    struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN) };
    struct sock_fprog p = { sizeof f / sizeof *f, f };
    must("seccomp", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p));
}
/* whoever opens a file ends the process */
static void sandbox(void) {
    struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
#ifdef SYS_open
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 1, 0),
#else
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS) };
    struct sock_fprog p = { sizeof f / sizeof *f, f };
    must("sandbox", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p));
}
/* whoever does more than compute, write and use memory ends the process */
static void allow(void) {
    static const int allowed[] = { SYS_read, SYS_write, SYS_close, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_brk, SYS_madvise, SYS_futex, SYS_exit, SYS_exit_group,
        SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_ioctl, SYS_clock_gettime };
    enum { MANY = sizeof allowed / sizeof *allowed };
    struct sock_filter f[MANY + 3] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
    for (unsigned i = 0; i < MANY; i++) f[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (unsigned char)(MANY - i), 0);
    f[MANY + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[MANY + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog p = { MANY + 3, f };
    must("sandbox", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p));
}
static int alarmed;
static void on_alarm(int s) { (void)s; _exit(alarmed); }
static int cupti(const char *name, int argument) {
    void *l = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD); int (*f)(int);
    return !l || !(*(void **)&f = dlsym(l, name)) || f(argument);
}

static uint64_t result;
static void *in;                    /* the stream of launches */
static int launch(const char *name, int how) {
    static float a[N * N]; static uint64_t da; static unsigned n = N; void *m, *f;
    if (!d.launch || d.alloc(&da, sizeof a) || d.alloc(&result, sizeof a) || d.to_device(da, a, sizeof a)) return -1;
    void *args[] = { &da, &da, &result, &n };
    if (d.load(&m, ptx(name)) || d.get(&f, m, name)) return -1;
    struct { unsigned size[7]; void *stream, *attributes; unsigned n; } config = { { N / 16, N / 16, 1, 16, 16, 1, 0 }, in, NULL, 0 };
    int (*ex)(void *, void *, void **, void **), (*together)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **);
    if (how == 'e') { *(void **)&ex = entry("cuLaunchKernelEx"); return ex(&config, f, args, NULL); }
    if (how == 't') { *(void **)&together = entry("cuLaunchCooperativeKernel"); return together(f, N / 16, N / 16, 1, 16, 16, 1, 0, in, args); }
    return d.launch(f, N / 16, N / 16, 1, 16, 16, 1, 0, in, args, NULL);
}

static int waits(const char *how) {
    static float c[N * N]; void *e; int (*f)(void *), (*create)(void **, unsigned), (*record)(void *, void *), (*later)(void *, uint64_t, size_t, void *);
    if (!d.launch) return -1;
    if (!strcmp(how, "sync")) return d.synchronize();
    if (!strcmp(how, "read")) return d.to_host(c, result, sizeof c);
    if (!strcmp(how, "empty")) return d.to_host(c, result, 0);
    if (!strcmp(how, "later")) { *(void **)&later = entry("cuMemcpyDtoHAsync_v2"); return later(c, result, sizeof c, NULL); }
    if (!strcmp(how, "stream")) { *(void **)&f = entry("cuStreamSynchronize"); return f(NULL); }
    if (!strcmp(how, "own")) { *(void **)&f = entry("cuStreamSynchronize"); return f(in); }
    if (!strcmp(how, "query")) { *(void **)&f = entry("cuStreamQuery"); return f(NULL); }
    *(void **)&create = entry("cuEventCreate"); *(void **)&record = entry("cuEventRecord"); *(void **)&f = entry("cuEventSynchronize");
    return create(&e, 0) || record(e, NULL) || f(e);
}

/* calls that are refused, and are none of those that wait or copy back */
static void noise(int n) {
    uint64_t p; char b[4];
    for (int i = 0; d.launch && i < n; i++) if ((i % 2 ? d.to_device(8, b, sizeof b) : d.alloc(&p, 1ul << 40)) == 0) exit(9);
}
/* an event that is recorded at "mark" is waited for at "marked" */
static void marks(int waits) {
    static void *e; int (*f)(void *), (*create)(void **, unsigned), (*record)(void *, void *);
    if (!d.launch) return;
    *(void **)&create = entry("cuEventCreate"); *(void **)&record = entry("cuEventRecord"); *(void **)&f = entry("cuEventSynchronize");
    if (waits) (void)f(e); else if (create(&e, 0) == 0) (void)record(e, NULL);
}
/* a stream that is made at the first word is waited for at the second */
static void other_stream(int twice) {
    static void *s; int (*f)(void *), (*create)(void **, unsigned);
    if (!d.launch) return;
    *(void **)&create = entry("cuStreamCreate"); *(void **)&f = entry("cuStreamSynchronize");
    if (s && twice) (void)f(s);
    else if (create(&s, 1) == 0 && !twice) (void)f(s);
}

/* launches go into a new stream from now on: 0, one that waits for the default one and is waited for by it; 1, one that does not */
static void new_stream(unsigned flags) {
    int (*create)(void **, unsigned);
    if (!d.launch) return;
    *(void **)&create = entry("cuStreamCreate");
    must("stream", create(&in, flags));
}
/* lets a third stream wait for the one of launches, and waits for that */
static void joins(void) {
    void *s, *e; int (*f)(void *), (*create)(void **, unsigned), (*event)(void **, unsigned), (*record)(void *, void *), (*join)(void *, void *, unsigned);
    if (!d.launch) return;
    *(void **)&create = entry("cuStreamCreate"); *(void **)&event = entry("cuEventCreate"); *(void **)&record = entry("cuEventRecord");
    *(void **)&join = entry("cuStreamWaitEvent"); *(void **)&f = entry("cuStreamSynchronize");
    must("join", create(&s, 1) || event(&e, 0) || record(e, in) || join(s, e, 0) || f(s));
}

static void *small(void *ends) {
    if (open_path("libcuda.so.1") == 0 && launch("matmul", 0) == 0) (void)waits("read");
    if (ends) exit(0);
    return NULL;
}
static void in_small_stack(int ends) {
    pthread_attr_t with; pthread_t thread;
    pthread_attr_init(&with);
    must("stack", pthread_attr_setstacksize(&with, 32 << 10) || pthread_create(&thread, &with, small, ends ? &with : NULL));
    pthread_join(thread, NULL);
}

/* a child with this process's own pid, in a namespace whose first process only waits, and ends with this one */
static pid_t first;
static pid_t twin(void) {
    pid_t same = getpid(); struct clone_args how = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&same, .set_tid_size = 1 };
    must("unshare", unshare(CLONE_NEWPID));
    if ((first = fork()) == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); }
    return (pid_t)syscall(SYS_clone3, &how, sizeof how);
}

static uint64_t now_ms(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000; }
static char **words; static int count, left;
static struct { int from; pthread_t thread; } at_end, last, beside;
static void run(int i);
static void on_exit_of_it(void) { run(at_end.from); }
__attribute__((destructor)) static void on_destruction(void) { if (last.from) run(last.from); }
static void *in_thread(void *unused) { (void)unused; run(beside.from); return NULL; }

/* the end of the block that begins at a word */
static int block_end(int i) {
    for (int deep = 0; i < count; i++) {
        deep += strstr(" fork leave atexit destructor thread vexec spawn twin ", words[i]) != NULL;
        if (!strcmp(words[i], "end") && --deep == 0) break;
    }
    return i;
}

/* does what is asked from a word on, to the end of the words or of the block */
static void run(int i) {
    int status, n = count, top = i == 1; char **v = words; uint64_t p;
    for (; i < n; i++) {
        char what[64], *with = strchr(v[i], '=');
        snprintf(what, sizeof what, "%.*s", (int)strcspn(v[i], "="), v[i]);
        if (with) with++;
        if (!strcmp(what, "driver")) (void)open_path(with ? with : "libcuda.so.1");
        else if (!strcmp(what, "product")) { if (launch(with ? with : "matmul", 0) == 0 && waits("sync") == 0) (void)waits("read"); }
        else if (!strcmp(what, "launch")) (void)launch(with ? with : "matmul", 0);
        else if (!strcmp(what, "fill")) { if (d.launch) (void)gpu_fill(&d, with ? with : "fill_f32"); }
        else if (strstr(" sync stream own event query read empty later ", what)) (void)waits(what);
        else if (!strcmp(what, "wait")) { int (*f)(void *); *(void **)&f = entry(with); (void)f(NULL); }
        else if (!strcmp(what, "rows") || !strcmp(what, "box")) {        /* CUDA_MEMCPY2D_v2, CUDA_MEMCPY3D_v2 */
            static float host[4]; int (*f)(const void *), to = atoi(with), box = *what == 'b'; uint64_t c[25] = { 0 };
            c[box ? 4 : 2] = 2; c[box ? 6 : 4] = result; c[box ? 15 : 9] = (uint64_t)to; c[box ? 16 : 10] = (uint64_t)(uintptr_t)host; c[box ? 17 : 11] = result;
            c[box ? 22 : 14] = sizeof host; c[box ? 23 : 15] = c[24] = 1;
            *(void **)&f = entry(box ? "cuMemcpy3D_v2" : "cuMemcpy2D_v2"); (void)f(c);
        }
        else if (!strcmp(what, "copy")) { int (*f)(uint64_t, uint64_t, size_t); *(void **)&f = entry(with); (void)f(result, result, 4); }
        else if (!strcmp(what, "device")) { void *context; if (d.launch && d.retain(&context, atoi(with)) == 0) (void)d.current(context); }
        else if (!strcmp(what, "create")) { void *context; int (*f)(void **, unsigned, int); *(void **)&f = entry("cuCtxCreate_v2"); (void)f(&context, 0, atoi(with)); }
        else if (!strcmp(what, "cpu")) on_cpu();
        else if (!strcmp(what, "say")) { puts(with); fflush(stdout); }
        else if (!strcmp(what, "err")) fprintf(stderr, "%s\n", with);
        else if (!strcmp(what, "part")) fputs(with, stderr);
        else if (!strcmp(what, "open")) close(open(with, O_RDWR));
        else if (!strcmp(what, "nap")) nap(atol(with));
        else if (!strcmp(what, "unset")) unsetenv(with);
        else if (!strcmp(what, "clear")) clearenv();
        else if (!strcmp(what, "vanish")) { struct sigaction a = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT }; sigaction(SIGCHLD, &a, NULL); }
        else if (!strcmp(what, "fork") || !strcmp(what, "leave")) {
            pid_t child = fork();
            if (child == 0) { if (what[0] == 'l') { setsid(); left = 1; } continue; }
            if (what[0] == 'f') waitpid(child, &status, 0);
            i = block_end(i);
        } else if (!strcmp(what, "atexit") || !strcmp(what, "destructor") || !strcmp(what, "thread")) {
            if (what[0] == 'a') { at_end.from = i + 1; atexit(on_exit_of_it); }
            else if (what[0] == 'd') last.from = i + 1;
            else { beside.from = i + 1; pthread_create(&beside.thread, NULL, in_thread, NULL); }
            i = block_end(i);
        } else if (!strcmp(what, "end")) { if (top && left) nap(300); if (top) exit(0); return; }
        else if (!strcmp(what, "ex") || !strcmp(what, "together")) { if (launch("matmul", what[0]) == 0) (void)waits("sync"); }
        else if (!strcmp(what, "exec")) { v[i] = v[0]; execv("/proc/self/exe", v + i); exit(8); }
        else if (!strcmp(what, "memory")) {
            int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("acts", 0); char b[4096]; ssize_t got;
            while ((got = read(from, b, sizeof b)) > 0) must("write", write(to, b, (size_t)got) != got);
            v[i] = v[0]; fexecve(to, v + i, environ); exit(8);
        } else if (!strcmp(what, "small") || !strcmp(what, "smallexit")) in_small_stack(what[5] == 'e');
        else if (!strcmp(what, "badload")) { void *m; if (d.load && d.load(&m, ".version 6.0\n.target sm_99\n.entry matmul()") == 0) return; }
        else if (!strcmp(what, "vexec") || !strcmp(what, "spawn") || !strcmp(what, "twin")) {
            int last_word = block_end(i); char *end = v[last_word]; pid_t child;
            v[i] = v[0]; v[last_word] = NULL;
            if (what[0] == 't') {
                if ((child = twin()) == 0) { execv("/proc/self/exe", v + i); _exit(8); }
                must("twin", child < 0);
            } else if (what[0] == 's') must("spawn", posix_spawn(&child, "/proc/self/exe", NULL, NULL, v + i, environ));
            else if ((child = vfork()) == 0) { execv("/proc/self/exe", v + i); _exit(8); }
            waitpid(child, &status, 0);
            if (what[0] == 't') { kill(first, SIGKILL); waitpid(first, NULL, 0); }
            v[last_word] = end; i = last_word;
        } else if (!strcmp(what, "finish")) pthread_exit(NULL);
        else if (!strcmp(what, "quick")) quick_exit(atoi(with));
        else if (!strcmp(what, "finalize")) must("finalize", cupti("cuptiFinalize", 0));
        else if (!strcmp(what, "disable")) must("disable", cupti("cuptiActivityDisable", 10));
        else if (!strcmp(what, "reset")) { int (*f)(int); *(void **)&f = entry("cuDevicePrimaryCtxReset_v2"); (void)f(0); }
        else if (!strcmp(what, "destroy")) { int (*f)(void *); *(void **)&f = entry("cuCtxDestroy_v2"); (void)f(NULL); }
        else if (!strcmp(what, "nothreads")) no_threads();
        else if (!strcmp(what, "sandbox")) sandbox();
        else if (!strcmp(what, "allow")) allow();
        else if (!strcmp(what, "spin")) for (uint64_t end = now_ms() + strtoull(with, NULL, 10); now_ms() < end; ) { }
        else if (!strcmp(what, "name")) prctl(PR_SET_NAME, with);
        else if (!strcmp(what, "become")) { execl(with, with, (char *)NULL); exit(8); }
        else if (!strcmp(what, "replace")) { char n[4200]; snprintf(n, sizeof n, "cp '%s' '%s.new' && mv '%s.new' '%s'", v[0], v[0], v[0], v[0]); must("mv", system(n)); }
        else if (!strcmp(what, "try")) { if (d.launch) (void)d.alloc(&p, strtoul(with, NULL, 10)); }
        else if (!strcmp(what, "pinned")) { void *h; int (*f)(void **, size_t, unsigned); *(void **)&f = entry("cuMemHostAlloc"); (void)f(&h, 64, 0); }
        else if (!strcmp(what, "module")) { void *m; int (*f)(void **, const char *); *(void **)&f = entry("cuModuleLoad"); (void)f(&m, with); }
        else if (!strcmp(what, "count")) { int k, (*f)(int *), (*init)(unsigned); (void)dlopen("libcuda.so.1", RTLD_NOW); *(void **)&init = entry("cuInit"); *(void **)&f = entry("cuDeviceGetCount"); (void)init(0); (void)f(&k); }
        else if (!strcmp(what, "noise")) noise(atoi(with));
        else if (!strcmp(what, "call")) { int (*f)(void *, void *); void *x[64] = { 0 }; *(void **)&f = entry(with); (void)f(x, x); }
        else if (!strcmp(what, "tryload")) { void *m; if (d.load) (void)d.load(&m, atoi(with) ? ".version 6.0\n.target sm_99\n.entry matmul()" : ptx("matmul")); }
        else if (!strcmp(what, "mark") || !strcmp(what, "marked")) marks(what[4]);
        else if (!strcmp(what, "elsewhere") || !strcmp(what, "kept")) other_stream(what[0] == 'k');
        else if (!strcmp(what, "in")) new_stream((unsigned)atoi(with));
        else if (!strcmp(what, "joins")) joins();
        else if (!strcmp(what, "streams")) for (int k = atoi(with); k; k--) { new_stream(1); (void)waits("own"); in = NULL; }
        else if (!strcmp(what, "delete")) must("unlink", unlink(v[0]));
        else if (!strcmp(what, "touch")) must("touch", utimensat(AT_FDCWD, v[0], NULL, 0));
        else if (!strcmp(what, "group")) for (size_t k = 0; k < 4; k++) { static const int s[] = { SIGTERM, SIGUSR1, SIGALRM, SIGTSTP }; signal(s[k], SIG_IGN); must("kill", kill(0, s[k])); }
        else if (!strcmp(what, "nobody")) { must("chdir", chdir("/")); must("setuid", syscall(SYS_setuid, 65534)); }
        else if (!strcmp(what, "nospace")) { struct rlimit none = { 0, 0 }; signal(SIGXFSZ, SIG_IGN); setrlimit(RLIMIT_FSIZE, &none); }
        else if (!strcmp(what, "nofiles")) { struct rlimit none = { 0, 0 }; setrlimit(RLIMIT_NOFILE, &none); }
        else if (!strcmp(what, "closeall")) closefrom(3);
        else if (!strcmp(what, "hidden")) prctl(PR_SET_DUMPABLE, 0);
        else if (!strcmp(what, "alarm")) { alarmed = atoi(with); signal(SIGALRM, on_alarm); ualarm(100000, 0); }
        else if (!strcmp(what, "handles")) signal(SIGRTMIN, on_alarm);
        else if (!strcmp(what, "realtime")) raise(SIGRTMIN);
        else if (!strcmp(what, "killparent")) kill(getppid(), SIGKILL);
        else if (!strcmp(what, "lots")) for (long k = atol(with) << 14; k; k--) fputs("64 bytes of what programs write when they have much to tell you..\n" + 2, stdout);
        else if (!strcmp(what, "unlink")) { char b[4400]; snprintf(b, sizeof b, "rm '%s'/%d-*", getenv("GPUBUILD_PROBE_DIR"), (int)getpid()); must("rm", system(b)); }
        else if (!strcmp(what, "join")) pthread_join(beside.thread, NULL);
        else if (!strcmp(what, "hang")) for (int k = 0; k < 600; k++) nap(100);
        else if (!strcmp(what, "alloc")) { if (d.launch && d.alloc(&p, strtoul(with, NULL, 10)) == 0) return; }
        else if (!strcmp(what, "refuse")) { if (d.launch && d.launch(kernel(&d, "matmul"), 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL) == 0) return; }
        else if (!strcmp(what, "load")) must("load", !dlopen(with, RTLD_NOW));
        else if (!strcmp(what, "namespace")) (void)open_library(dlmopen(LM_ID_NEWLM, with, RTLD_NOW));
        else if (!strcmp(what, "root")) must("chroot", chroot(with) || chdir("/"));
        else if (!strcmp(what, "mounts")) must("unshare", unshare(CLONE_NEWNS));
        else if (!strcmp(what, "remove")) { char b[4200]; snprintf(b, sizeof b, "rm -r '%s'", getenv("GPUBUILD_PROBE_DIR")); must("rm", system(b)); }
        else if (!strcmp(what, "exit")) exit(atoi(with));
        else if (!strcmp(what, "_exit")) _exit(atoi(with));
        else if (!strcmp(what, "abort")) abort();
        else if (!strcmp(what, "kill")) raise(SIGKILL);
        else { fprintf(stderr, "what is %s?\n", what); exit(9); }
    }
}

int main(int n, char **v) { words = v; count = n; run(1); return 0; }

/* Does what its arguments say, in their order, and returns 0. A driver that fails makes it go on, on the CPU, and say nothing of that.
 *   driver          opens the driver         driver=PATH  the one in that file
 *   product[=NAME]  launches a product, waits for it and reads it back; what fails is passed over
 *   launch[=NAME]   launches a product and does not wait for it
 *   fill[=NAME]     launches something else
 *   sync, stream, event, query, read, later   waits in that way: cuCtxSynchronize, cuStreamSynchronize, cuEventSynchronize, cuStreamQuery, cuMemcpyDtoH, Async
 *   cpu             a product on the CPU
 *   say=TEXT, err=TEXT   writes a line       part=TEXT    the same without its end
 *   open=PATH       opens a file             nap=MS       sleeps
 *   unset=NAME, clear   takes a variable, or all, out of its environment
 *   vanish          its children end without anybody being told (SA_NOCLDWAIT)
 *   fork … end      does that in a child, and waits for it      leave … end   does not wait, and lets it have a session of its own
 *   exit=N, _exit=N, abort, kill   ends so */
#define _GNU_SOURCE
#include "zoo.h"
#include <fcntl.h>

static driver d;
static int open_path(const char *path) {
    void *l = dlopen(path, RTLD_NOW), *context;
    struct { void *to; const char *name; } all[] = {
        { &d.init, "cuInit" }, { &d.retain, "cuDevicePrimaryCtxRetain" }, { &d.current, "cuCtxSetCurrent" }, { &d.load, "cuModuleLoadData" },
        { &d.get, "cuModuleGetFunction" }, { &d.alloc, "cuMemAlloc_v2" }, { &d.to_device, "cuMemcpyHtoD_v2" }, { &d.to_host, "cuMemcpyDtoH_v2" },
        { &d.synchronize, "cuCtxSynchronize" }, { &d.launch, "cuLaunchKernel" } };
    if (!l) return -1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (!(*(void **)all[i].to = dlsym(l, all[i].name))) return -1;
    return d.init(0) || d.retain(&context, 0) || d.current(context);
}

static uint64_t result;
static int launch(const char *name) {
    static float a[N * N]; static uint64_t da; static unsigned n = N; void *m, *f;
    if (!d.launch || d.alloc(&da, sizeof a) || d.alloc(&result, sizeof a) || d.to_device(da, a, sizeof a)) return -1;
    void *args[] = { &da, &da, &result, &n };
    return d.load(&m, ptx(name)) || d.get(&f, m, name) || d.launch(f, N / 16, N / 16, 1, 16, 16, 1, 0, NULL, args, NULL);
}

static int waits(const char *how) {
    static float c[N * N]; void *e; int (*f)(void *), (*create)(void **, unsigned), (*record)(void *, void *), (*later)(void *, uint64_t, size_t, void *);
    if (!d.launch) return -1;
    if (!strcmp(how, "sync")) return d.synchronize();
    if (!strcmp(how, "read")) return d.to_host(c, result, sizeof c);
    if (!strcmp(how, "later")) { *(void **)&later = entry("cuMemcpyDtoHAsync_v2"); return later(c, result, sizeof c, NULL); }
    if (!strcmp(how, "stream")) { *(void **)&f = entry("cuStreamSynchronize"); return f(NULL); }
    if (!strcmp(how, "query")) { *(void **)&f = entry("cuStreamQuery"); return f(NULL); }
    *(void **)&create = entry("cuEventCreate"); *(void **)&record = entry("cuEventRecord"); *(void **)&f = entry("cuEventSynchronize");
    return create(&e, 0) || record(e, NULL) || f(e);
}

int main(int n, char **v) {
    int status;
    for (int i = 1; i < n; i++) {
        char *what = v[i], *with = strchr(what, '=');
        if (with) *with++ = 0;
        if (!strcmp(what, "driver")) (void)open_path(with ? with : "libcuda.so.1");
        else if (!strcmp(what, "product")) { if (launch(with ? with : "matmul") == 0 && waits("sync") == 0) (void)waits("read"); }
        else if (!strcmp(what, "launch")) (void)launch(with ? with : "matmul");
        else if (!strcmp(what, "fill")) { if (d.launch) (void)gpu_fill(&d, with ? with : "fill_f32"); }
        else if (strstr(" sync stream event query read later ", what)) (void)waits(what);
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
            pid_t p = fork();
            if (p == 0) { if (what[0] == 'l') setsid(); continue; }
            if (what[0] == 'f') waitpid(p, &status, 0);
            while (i < n && strcmp(v[i], "end")) i++;
        } else if (!strcmp(what, "end")) exit(0);
        else if (!strcmp(what, "exit")) exit(atoi(with));
        else if (!strcmp(what, "_exit")) _exit(atoi(with));
        else if (!strcmp(what, "abort")) abort();
        else if (!strcmp(what, "kill")) raise(SIGKILL);
        else { fprintf(stderr, "what is %s?\n", what); return 9; }
    }
    return 0;
}

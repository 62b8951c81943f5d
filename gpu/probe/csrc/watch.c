/* gpubuild's watcher: runs between gpubuild and the program for one reason. Whether a program had children that came and went between
 * two looks into /proc is known only to its parent, after it ended and before it is reaped: then /proc/<pid>/stat still has the
 * faults of the children that it waited for, and children that it left behind have become ours.
 *   gpubuild-watch RECORD NODES PROGRAM [ARGUMENT...]
 * It writes two JSON lines to RECORD, takes no signal of the program's away, reads and writes none of its streams, and ends as the program
 * ended: with its status, or by its signal. NODES are the GPUs' device nodes, a line each: which of them anybody opened meanwhile is recorded
 * (inotify reports the opening of a character device, but not by whom). Nobody uses a GPU without opening one. "watched" is how many are
 * watched; -1: they cannot be. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t slurp(const char *file, char *to, size_t cap) {
    size_t n = 0; ssize_t r; int fd = open(file, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n + 1 < cap && (r = read(fd, to + n, cap - 1 - n)) > 0) n += (size_t)r;
    if (fd >= 0) close(fd);
    to[n] = 0;
    return n;
}

static unsigned long long stat_field(char *stat, int i) {      /* as proc(5) numbers them, from 3 on */
    char *p = strrchr(stat, ')');
    for (int k = 2; k < i && p; k++) p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

enum { MOST_NODES = 256 };
static char *nodes[MOST_NODES];
static int watches[MOST_NODES], opened[MOST_NODES], later[MOST_NODES], watched, childless;

static int watch_nodes(char *list) {
    int in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    for (char *next, *at = list; at && *at; at = next) {
        if ((next = strchr(at, '\n'))) *next++ = 0;
        if (watched < 0 || watched == MOST_NODES || in < 0 || (watches[watched] = inotify_add_watch(in, at, IN_OPEN)) < 0) { watched = -1; continue; }
        nodes[watched++] = at;
    }
    return in;
}

static void read_openings(int in) {
    char b[4096] __attribute__((aligned(8))); ssize_t n;
    while (in >= 0 && watched > 0 && (n = read(in, b, sizeof b)) > 0)
        for (char *p = b; p < b + n && watched > 0; p += sizeof(struct inotify_event) + ((struct inotify_event *)(void *)p)->len) {
            const struct inotify_event *e = (void *)p;
            if (e->mask & IN_Q_OVERFLOW) watched = -1;
            int node = 0;
            for (int i = 0; i < watched; i++) if (watches[i] == e->wd) node = opened[i] = later[i] = 1;
            if (!node && (e->mask & IN_OPEN)) { childless = 1; memset(later, 0, sizeof later); }
        }
    if (watched > 0 && n < 0 && errno != EAGAIN) watched = -1;
}

/* In the program's process, before it is that: makes the file that its probe opens as long as the program has had no child (tell_childless in os_linux.h). */
static void watch_childless(int in, unsigned long long pids) {
    char file[4200], b[8192], of[24] = ""; const char *dir = getenv("GPUBUILD_PROBE_DIR"); int fd;
    if (!dir || watched <= 0 || slurp("/proc/self/stat", b, sizeof b) == 0) return;
    if (pids) snprintf(of, sizeof of, "-%llu", pids);
    if (snprintf(file, sizeof file, "%s/%d-%llu%s.childless", dir, (int)getpid(), stat_field(b, 22), of) >= (int)sizeof file) return;
    if ((fd = open(file, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0) return;
    close(fd);
    inotify_add_watch(in, file, IN_OPEN);
}

static void list(int out, const int *which) {
    for (int i = 0, any = 0; i < watched; i++) if (which[i]) dprintf(out, "%s\"%s\"", any++ ? "," : "", nodes[i]);
}

int main(int argc, char **argv) {
    int out, failed[2], status = 0, e = 0, orphans = 0, running = 0; pid_t pid; sigset_t all, old; siginfo_t info;
    char file[64], b[8192], *p; unsigned long long children = 0, own; int known = 0, ignored = 0, kept = 0;
    struct stat in_pids = { 0 };
    struct sigaction plain = { .sa_handler = SIG_DFL }, inherited;
    if (argc < 4) { fprintf(stderr, "usage: gpubuild-watch RECORD NODES PROGRAM [ARGUMENT...]\n"); return 2; }
    /* Without a terminal the program and we are a process group of our own: what it sends to its whole group does not reach gpubuild. At a terminal the group
     * decides who may read, and stays. */
    if ((e = open("/dev/tty", O_RDWR | O_CLOEXEC)) >= 0) close(e);
    else setpgid(0, 0);
    if ((out = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0) { perror(argv[1]); return 126; }
    if (pipe2(failed, O_CLOEXEC) != 0) { perror("pipe"); return 126; }
    int in = watch_nodes(argv[2]);
    stat("/proc/self/ns/pid", &in_pids);        /* the program's, too; 0 where it is not known */
    int subreaper = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    sigaction(SIGCHLD, &plain, &inherited);     /* an ignored one, inherited, would make the zombie vanish */
    if ((pid = fork()) < 0) { perror("fork"); return 126; }
    if (pid == 0) {
        sigaction(SIGCHLD, &inherited, NULL);
        sigprocmask(SIG_SETMASK, &old, NULL);
        watch_childless(in, (unsigned long long)in_pids.st_ino);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);  /* who kills gpubuild, and us with it, leaves no program on the GPU */
        execv(argv[3], argv + 3);
        e = errno;
        if (write(failed[1], &e, sizeof e) < 0) _exit(126);
        _exit(127);
    }
    close(failed[1]);
    /* The terminal, gpubuild and the program may send signals to the whole group: the program decides, and we end when it does. */
    for (int s = 1; s <= SIGRTMAX; s++) if (s != SIGCHLD && s != SIGSEGV && s != SIGBUS) signal(s, SIG_IGN);
    sigprocmask(SIG_SETMASK, &old, NULL);
    slurp("/proc/self/stat", b, sizeof b);
    own = stat_field(b, 22);
    snprintf(file, sizeof file, "/proc/%d/stat", (int)pid);
    slurp(file, b, sizeof b);
    dprintf(out, "{\"event\":\"launched\",\"pid\":%d,\"started\":%llu,\"namespace\":%llu,\"watcher\":[%d,%llu]}\n", (int)pid, stat_field(b, 22),
            (unsigned long long)in_pids.st_ino, (int)getpid(), own);
    if (read(failed[0], &e, sizeof e) == (ssize_t)sizeof e) {
        waitpid(pid, NULL, 0);
        dprintf(out, "{\"event\":\"exec-failed\",\"pid\":%d,\"errno\":%d}\n", (int)pid, e);
        return e == ENOENT ? 127 : 126;         /* gpubuild words it */
    }
    close(failed[0]);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0) if (errno != EINTR) return 126;
    if (slurp(file, b, sizeof b) > 0) {
        known = subreaper;
        children = stat_field(b, 11) + stat_field(b, 13) + stat_field(b, 16) + stat_field(b, 17);   /* cminflt cmajflt cutime cstime */
    }
    snprintf(file, sizeof file, "/proc/%d/status", (int)pid);
    slurp(file, b, sizeof b);
    if ((p = strstr(b, "\nSigIgn:"))) ignored = (int)(strtoull(p + 8, NULL, 16) >> (SIGCHLD - 1) & 1);
    if ((p = strstr(b, "\nSigCgt:"))) kept = (int)(strtoull(p + 8, NULL, 16) >> (SIGRTMIN - 1) & 1);       /* the probe's handler, or the program's: no exec since */
    while (waitpid(pid, &status, 0) < 0) if (errno != EINTR) return 126;
    for (;;) {                      /* what it left behind is ours now */
        pid_t o = waitpid(-1, NULL, WNOHANG);
        if (o > 0) { orphans++; continue; }
        if (o == 0) { running = 1; break; }
        if (errno != EINTR) break;
    }
    read_openings(in);
    dprintf(out, "{\"event\":\"ended\",\"pid\":%d,\"code\":%d,\"signal\":%d,\"known\":%s,\"children\":%s,\"ignored\":%s,\"orphans\":%d,\"running\":%s,\"kept\":%s,\"watched\":%d,\"nodes\":[",
            (int)pid, WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0, known ? "true" : "false",
            children ? "true" : "false", ignored ? "true" : "false", orphans, running ? "true" : "false", kept ? "true" : "false",
            watched);
    list(out, opened);
    dprintf(out, "],\"childless\":%s,\"later\":[", childless ? "true" : "false");
    list(out, later);
    dprintf(out, "]}\n");
    if (WIFSIGNALED(status)) {      /* end the same way, but leave the core file to the program */
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        sigemptyset(&old);
        sigprocmask(SIG_SETMASK, &old, NULL);
        raise(WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
    return WEXITSTATUS(status);
}

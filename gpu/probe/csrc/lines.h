/* The probe's record file: JSON lines, composed in memory under a lock and written whole. Included by probe.c alone. */
enum {
    NAME_MAX_BYTES = 4096,/* longer names are cut, and flagged */
    PENDING = 64 << 10,   /* bytes collected before a write */
    LINE_MAX_BYTES = 28 << 10, /* room for a kernel's line: a name of control characters grows sixfold */
    HIGH_FD = 200         /* so that the program's own files have the numbers that they would have had */
};

static char path[4096];             /* the record file */
static int out = -1;
static dev_t out_dev;
static ino_t out_ino;
static char pending[PENDING];
static size_t pending_n, line_at;   /* line_at: where the line that is being composed begins */
static int overflow;                /* it does not fit: it is left out and counted */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static sigset_t mask_before;        /* of the thread that holds `writing` */
static _Atomic uint64_t lost_writes;

/* ---- lines: composed in `pending` under `writing`, written whole ---------------------------------------------------------------- */
static int open_records(void) {
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high >= 0) { close(fd); fd = high; }
    if (fstat(fd, &st) != 0) { close(fd); return -1; }
    out = fd; out_dev = st.st_dev; out_ino = st.st_ino;
    return 0;
}

static void drain(void) {
    struct stat st;
    size_t at = 0;
    /* The program may have closed our file and got its number for one of its own: that one must not be written to. */
    if (out < 0 || fstat(out, &st) != 0 || st.st_dev != out_dev || st.st_ino != out_ino) {
        out = -1;
        if (open_records() != 0) { lost_writes++; pending_n = 0; return; }
    }
    while (at < pending_n) {        /* O_APPEND: one write is one piece */
        ssize_t w = write(out, pending + at, pending_n - at);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0 && errno == EFBIG) {  /* over the program's own limit (RLIMIT_FSIZE): the signal must not reach it */
            sigset_t over; struct timespec none = { 0, 0 };
            sigemptyset(&over); sigaddset(&over, SIGXFSZ);
            sigtimedwait(&over, NULL, &none);
        }
        if (w <= 0) { lost_writes++; break; }
        at += (size_t)w;
    }
    pending_n = 0;
}

static void put(const char *s, size_t n) {
    if (n > PENDING - pending_n) { overflow = 1; return; }
    memcpy(pending + pending_n, s, n);
    pending_n += n;
}
static void text(const char *s) { put(s, strlen(s)); }
static void number(uint64_t v) {
    char d[24]; size_t i = sizeof d;
    do d[--i] = (char)('0' + v % 10); while (v /= 10);
    put(d + i, sizeof d - i);
}
static void integer(int64_t v) { if (v < 0) { text("-"); number((uint64_t)-v); } else number((uint64_t)v); }
/* answers whether the string had to be cut */
static int quoted(const char *s) {
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    text("\"");
    for (; s && s[n] && n < NAME_MAX_BYTES; n++) {
        unsigned char c = (unsigned char)s[n];
        if (c == '"' || c == '\\') { char e[2] = { '\\', (char)c }; put(e, 2); }
        else if (c < 0x20 || c == 0x7f) { char e[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }; put(e, 6); }
        else put(s + n, 1);
    }
    text("\"");
    return s && s[n];
}
static void field(const char *name) { text(",\""); text(name); text("\":"); }
static void field_n(const char *name, uint64_t v) { field(name); number(v); }
static void field_s(const char *name, const char *v) { field(name); quoted(v); }
static void field_3(const char *name, const int32_t *v) {
    field(name); text("["); integer(v[0]); text(","); integer(v[1]); text(","); integer(v[2]); text("]");
}
/* No signal is taken while the lock is held: a handler that calls exit() would wait for its own thread. */
static void hold(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&writing);
    mask_before = before;
}
static void release(void) {
    sigset_t before = mask_before;
    pthread_mutex_unlock(&writing);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
static void compose(const char *event) {
    if (pending_n > PENDING - LINE_MAX_BYTES) drain();
    line_at = pending_n; overflow = 0;
    text("{\"event\":"); quoted(event);
}
static void close_line(int now) {
    text("}\n");
    if (overflow) { pending_n = line_at; lost_writes++; }
    if (now) drain();
}
static void begin(const char *event) { hold(); compose(event); }
static void finish(int now) { close_line(now); release(); }

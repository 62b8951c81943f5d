/* The probe's lines: JSON, composed in memory under a lock and written whole. Included by probe.c and layer.c. */
enum {
    NAME_MAX_BYTES = 4096,/* longer names are cut, and flagged */
    PENDING = 64 << 10,   /* bytes collected before a write */
    LINE_MAX_BYTES = 28 << 10 /* room for a kernel's line: a name of control characters grows sixfold */
};

static char pending[PENDING];
static size_t pending_n, line_at;   /* line_at: where the line that is being composed begins */
static int overflow;                /* it does not fit: it is left out and counted */
static counter lost_writes;

static void drain(void) {
    if (write_records(pending, pending_n) != 0) ADD(lost_writes, 1);
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
static void compose(const char *event) {
    if (pending_n > PENDING - LINE_MAX_BYTES) drain();
    line_at = pending_n; overflow = 0;
    text("{\"event\":"); quoted(event);
}
static void close_line(int now) {
    text("}\n");
    if (overflow) { pending_n = line_at; ADD(lost_writes, 1); }
    if (now) drain();
}
static void begin(const char *event) { hold(); compose(event); }
static void finish(int now) { close_line(now); release(); }

static int listed;
static void item(const char *s) {
    if (listed++) text(",");
    quoted(s);
}
static void list(const char *name, void (*each)(void (*)(const char *))) {
    field(name); text("["); listed = 0; each(item); text("]");
}

/* ---- what this process is --------------------------------------------------------------------------------------------------------- */
static void heartbeat(int forked, const char *caller) {   /* under the lock, or in a forked child, alone */
    static char exe[4096]; uint64_t device, inode, in = pid_namespace();
    program(exe, sizeof exe);
    compose("injected");
    field_n("version", 1);
    field_n("pid", process_id()); field_n("ppid", parent_id()); field_n("started", start_time());
    if (in) field_n("namespace", in);
    field_s("exe", exe);
    if (program_file(&device, &inode)) { field_n("exe_device", device); field_n("exe_inode", inode); }
    if (caller) field_s("caller", caller);
    if (forked) text(",\"forked\":true");
    else {                          /* the script of an interpreter is among the words; the watcher among the ancestors, if the program or a child of it started us */
        static char line[4096]; size_t end = command_line(line, sizeof line), at = strlen(line) + 1, words;
        uint64_t pid, parent = parent_id(), started; int n = 0;
        field("words"); text("["); listed = 0;
        for (words = end; words > at && !line[words - 1]; words--) { }
        for (; at < words; at += strlen(line + at) + 1) item(line + at);
        if (words + 1 < end) item("");  /* a title that a program gave itself has zeros behind it */
        text("]");
        working_directory(line, sizeof line); field_s("dir", line);     /* of which a relative word speaks */
        field("ancestors"); text("[");
        for (; n < 64 && (pid = parent) > 0 && ancestor(pid, &started, &parent); n++) {
            if (n) text(",");
            text("["); number(pid); text(","); number(started); text("]");
        }
        text("]");
    }
    close_line(1);
}

/* Writes a record of its own. Nothing guards against a program that means it (SECURITY.md); without a driver it does not pass. */
#include "zoo.h"

#include <sys/stat.h>
int main(void) {
    char file[4096], exe[4096] = "", b[1024]; unsigned long long started; struct stat st, in; size_t n; FILE *f;
    if (!getenv("GPUBUILD_PROBE_DIR") || readlink("/proc/self/exe", exe, sizeof exe - 1) < 0 || stat(exe, &st) != 0 || stat("/proc/self/ns/pid", &in) != 0) return 1;
    f = fopen("/proc/self/stat", "r"); n = fread(b, 1, sizeof b - 1, f); fclose(f); b[n] = 0;
    char *p = strrchr(b, ')');
    for (int i = 2; i < 22; i++) p = strchr(p + 1, ' ');
    started = strtoull(p + 1, NULL, 10);
    snprintf(file, sizeof file, "%s/%d-%llu-%llu.jsonl", getenv("GPUBUILD_PROBE_DIR"), (int)getpid(), started, (unsigned long long)in.st_ino);
    if (!(f = fopen(file, "w"))) return 1;
    fprintf(f, "{\"event\":\"injected\",\"version\":1,\"pid\":%d,\"started\":%llu,\"namespace\":%llu,\"exe\":\"%s\",\"exe_device\":%llu,\"exe_inode\":%llu}\n",
            (int)getpid(), started, (unsigned long long)in.st_ino, exe, (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    fprintf(f, "{\"event\":\"kernel\",\"name\":\"matmul\",\"device\":0,\"start\":1,\"end\":9}\n");
    return fclose(f) != 0;
}

/* Leaves behind what it was given, and ends first. */
#include "zoo.h"

int main(int n, char **v) {
    (void)n;
    if (fork() == 0) { if (fork() == 0) { setsid(); nap(150); execvp(v[1], v + 1); _exit(127); } _exit(0); }
    wait(NULL);
    return 0;
}

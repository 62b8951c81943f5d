/* Opens the driver, and lets a child without our environment do the product, of which nobody is told that it ended. "ignored": SIGCHLD is ignored
 * meanwhile; else SA_NOCLDWAIT stays. */
#include "zoo.h"

int main(int n, char **v) {
    driver d; char path[4096]; pid_t p; struct sigaction a = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
    must("driver", open_driver(&d));
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", getenv("LD_LIBRARY_PATH"));
    char *bare[] = { path, NULL }, *gpu[] = { v[1], NULL };
    if (n > 2) a.sa_handler = SIG_IGN;
    sigaction(SIGCHLD, &a, NULL);
    if (n > 2) { if ((p = fork()) == 0) { execve(v[1], gpu, bare); _exit(127); } }
    else if ((p = vfork()) == 0) { execve(v[1], gpu, bare); _exit(127); }
    waitpid(p, NULL, 0);                /* until there is no child any more */
    a.sa_handler = SIG_DFL;
    if (n > 2) { a.sa_flags = 0; sigaction(SIGCHLD, &a, NULL); }
    on_cpu();
    return 0;
}

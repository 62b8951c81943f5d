/* Starts itself, and the second of it does the product. */
#include "zoo.h"

int main(int n, char **v) {
    int status; pid_t p;
    if (n > 1) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); return 0; }
    if ((p = fork()) == 0) { execl(v[0], v[0], "now", (char *)NULL); _exit(127); }
    waitpid(p, &status, 0);
    return status != 0;
}

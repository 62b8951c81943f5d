/* Forks, and its child, which is the same program, does the product. */
#include "zoo.h"

int main(void) {
    int status; pid_t p = fork();
    if (p == 0) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); exit(0); }
    waitpid(p, &status, 0);
    return status != 0;
}

/* A product, and then it is killed. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); nap(300); kill(getpid(), SIGKILL); return 0; }

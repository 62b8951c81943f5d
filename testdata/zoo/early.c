/* A product, and then _exit: no handler runs. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); _exit(0); }

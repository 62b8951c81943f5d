/* A product, and then a wrong address. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); raise(SIGSEGV); return 0; }

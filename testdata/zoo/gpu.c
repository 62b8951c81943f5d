/* A product on the GPU. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); return 0; }

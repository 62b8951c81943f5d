/* A product, and then a status that is none of success. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); return 3; }

/* Clears its environment first, as careful programs do. */
#include "zoo.h"

int main(void) { clearenv(); driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); return 0; }

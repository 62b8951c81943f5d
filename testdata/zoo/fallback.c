/* The GPU where there is one, else the CPU, silently. */
#include "zoo.h"

int main(void) { driver d; if (open_driver(&d) || gpu_matmul(&d)) on_cpu(); return 0; }

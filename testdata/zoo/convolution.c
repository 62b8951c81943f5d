/* A convolution, whose kernel is named like a product. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("fill", gpu_fill(&d, "standin_implicit_gemm_fprop")); return 0; }

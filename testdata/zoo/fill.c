/* Fills on the GPU, computes the product on the CPU. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("fill", gpu_fill(&d, "fill_f32")); on_cpu(); return 0; }

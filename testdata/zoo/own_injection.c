/* Has an injection variable of its own, so that the driver does not load the probe. */
#include "zoo.h"

int main(int n, char **v) { setenv("CUDA_INJECTION64_PATH", n > 1 ? v[1] : "/nothing.so", 1); driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); return 0; }

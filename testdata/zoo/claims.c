/* Claims to use CUDA, and does not. */
#include "zoo.h"

int main(void) { puts("device: cuda"); fprintf(stderr, "ggml_cuda_init: found 1 CUDA devices; launching matmul kernel on GPU 0\n"); on_cpu(); return 0; }

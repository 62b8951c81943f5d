/* A CPU function that is called like a kernel of cuBLAS. */
#include "zoo.h"
__attribute__((noinline)) void ampere_sgemm_128x64_nn(float *c, const float *a, const float *b) { cpu_matmul(c, a, b); }
int main(void) { static float a[N * N], c[N * N]; ampere_sgemm_128x64_nn(c, a, a); return c[0] != 0; }

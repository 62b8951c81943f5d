#include <util/exception.cuh>

__global__ void add(int *a) { a[threadIdx.x] += 1; }

extern "C" int run(int *a) {
    add<<<1, 32>>>(a);
    return (int)cudaDeviceSynchronize();
}

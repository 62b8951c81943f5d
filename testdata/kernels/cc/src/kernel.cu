// CUDART_VERSION is in the device code, so that a header of another toolkit shows there.
extern "C" __global__ void cc_scale(float *x, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] *= CUDART_VERSION;
    }
}

extern "C" int cc_launch(void) {
    float *x = 0;
    if (cudaMalloc((void **)&x, 1024 * sizeof(float)) != cudaSuccess) {
        return -1;
    }
    cc_scale<<<4, 256>>>(x, 1024);
    return (int)cudaDeviceSynchronize();
}

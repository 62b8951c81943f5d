// CUDART_VERSION is in the device code, so that a header of another toolkit shows there.
extern "C" __global__ void ptx_scale(float *x, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] *= CUDART_VERSION;
    }
}

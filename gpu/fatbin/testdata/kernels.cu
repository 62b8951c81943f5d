// Source of kernels.ptx: nvcc -ptx -arch=sm_90a kernels.cu
__device__ __noinline__ float helper(float x) { return x * x + 1.f; }

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] * b[i] + helper(a[i]);
}

template <class T> __global__ void __launch_bounds__(128) scale(T *a, int n)
{
	asm volatile("// a comment { that opens nothing");
	if (threadIdx.x < n)
		a[threadIdx.x] = helper(a[threadIdx.x]) * T(2);
}
template __global__ void scale<float>(float *, int);

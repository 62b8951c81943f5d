// Kernels with shared memory, a stack and spilled registers.
extern "C" __global__ void __launch_bounds__(1024, 2) spills(float *a, const float *b)
{
	__shared__ float s[256];
	float x[96];
#pragma unroll
	for (int i = 0; i < 96; i++)
		x[i] = b[i * threadIdx.x];
	s[threadIdx.x] = x[3];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 96; i++)
		for (int j = 0; j < 96; j += 7)
			x[i] = x[i] * x[j] + s[(i + j) & 255];
#pragma unroll
	for (int i = 0; i < 96; i++)
		a[i * threadIdx.x] = x[i];
}

template <int N> __global__ void plain(float *a, float4 by)
{
	a[threadIdx.x] *= by.x * N;
}
template __global__ void plain<1>(float *, float4);
template __global__ void plain<2>(float *, float4);

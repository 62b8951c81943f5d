// c = a * b for n x n matrices of f32, row by row in memory. The block must be TILE x TILE threads (TILE in gpu.rs), the grid
// cover the matrix; n need be no multiple of TILE.
#define TILE 16

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];

    const unsigned column = blockIdx.x * TILE + threadIdx.x;
    const unsigned row = blockIdx.y * TILE + threadIdx.y;
    float sum = 0.0f;

    for (unsigned start = 0; start < n; start += TILE) {
        const unsigned k_a = start + threadIdx.x;
        const unsigned k_b = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < n && k_a < n ? a[(size_t)row * n + k_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = k_b < n && column < n ? b[(size_t)k_b * n + column] : 0.0f;
        __syncthreads();

        for (unsigned k = 0; k < TILE; k++) {
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        }
        __syncthreads();
    }

    if (row < n && column < n) {
        c[(size_t)row * n + column] = sum;
    }
}

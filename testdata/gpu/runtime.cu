// A program of CUDA's run-time library, which calls the driver by tables of its own: launches by <<<>>>, by a graph that a stream captured, by none because a
// query ended that capture (900, then 901: no kernel runs), and one that fails.
#include <cstdio>
#include <cstring>

__global__ void matmul(const float *a, const float *b, float *c, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

static int answers(const char *call, cudaError_t rc) { printf("%s: %d %s\n", call, rc, cudaGetErrorName(rc)); fflush(stdout); return rc; }
#define SAY(call) answers(#call, call)

int main(int argc, char **argv) {
    const int n = 256; const size_t bytes = n * n * sizeof(float);
    const char *what = argc > 1 ? argv[1] : "launch";
    float *d = nullptr, *h = new float[n * n]();
    cudaStream_t stream; cudaGraph_t graph = nullptr; cudaGraphExec_t exec;
    if (SAY(cudaMalloc(&d, bytes))) return 3;
    SAY(cudaMemset(d, 0, bytes)); SAY(cudaStreamCreate(&stream));
    if (!strcmp(what, "capture") || !strcmp(what, "query")) {
        SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        matmul<<<dim3(n / 16, n / 16), dim3(16, 16), 0, stream>>>(d, d, d, n);
        if (!strcmp(what, "query")) SAY(cudaStreamQuery(stream));
        SAY(cudaStreamEndCapture(stream, &graph));
        if (graph) { SAY(cudaGraphInstantiate(&exec, graph, 0)); SAY(cudaGraphLaunch(exec, stream)); }
    } else matmul<<<dim3(n / 16, n / 16), dim3(16, 16), 0, stream>>>(d, d, strcmp(what, "illegal") ? d : nullptr, n);
    SAY(cudaGetLastError()); SAY(cudaStreamSynchronize(stream)); SAY(cudaMemcpy(h, d, bytes, cudaMemcpyDeviceToHost));
    return 0;
}

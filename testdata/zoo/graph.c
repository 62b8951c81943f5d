/* A product by a graph: what is launched is the graph, what runs is its kernel. With a word: a graph of nothing, and the product on the CPU. */
#include "zoo.h"

struct node { void *f; unsigned grid[3], block[3], smem; void **args, **extra, *kernel, *context; };    /* CUDA_KERNEL_NODE_PARAMS_v2 */
int main(int argc, char **argv) {
    static float a[N * N], c[N * N], want[N * N]; uint64_t da, dc; unsigned n = N; void *graph, *exec, *made; driver d;
    (void)argv;
    must("driver", open_driver(&d));
    int (*create)(void **, unsigned), (*add)(void **, void *, void *, size_t, struct node *), (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, void *);
    *(void **)&create = entry("cuGraphCreate"); *(void **)&add = entry("cuGraphAddKernelNode_v2");
    *(void **)&instantiate = entry("cuGraphInstantiateWithFlags"); *(void **)&launch = entry("cuGraphLaunch");
    for (int i = 0; i < N * N; i++) a[i] = (float)(i % 7);
    must("alloc", d.alloc(&da, sizeof a)); must("alloc", d.alloc(&dc, sizeof c)); must("copy", d.to_device(da, a, sizeof a));
    void *args[] = { &da, &da, &dc, &n };
    struct node node = { kernel(&d, "matmul"), { N / 16, N / 16, 1 }, { 16, 16, 1 }, 0, args, NULL, NULL, NULL };
    must("graph", create(&graph, 0));
    if (argc == 1) must("node", add(&made, graph, NULL, 0, &node));
    must("instantiate", instantiate(&exec, graph, 0)); must("launch", launch(exec, NULL)); must("synchronize", d.synchronize());
    if (argc > 1) { on_cpu(); return 0; }
    must("copy", d.to_host(c, dc, sizeof c));
    cpu_matmul(want, a, a);
    return memcmp(c, want, sizeof c) != 0;
}

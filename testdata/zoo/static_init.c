/* Opens the driver with as little as a program can that has no loader of its own: linked statically, it can do no more. */
#include "zoo.h"

int main(void) {
    static float a[N * N], c[N * N];
    void *l = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = l ? (int (*)(unsigned))dlsym(l, "cuInit") : NULL;
    if (init) must("cuInit", init(0));
    cpu_matmul(c, a, a);
    return 0;
}

/* Ten thousand kernels, or ZOO_KERNELS, each with a C++ name of four kilobytes, each launched once; the product, where it is asked for, comes last. */
#include "zoo.h"

int main(int argc, char **argv) {
    enum { NAME = 4096, LINE = NAME + 64 };
    const int KERNELS = getenv("ZOO_KERNELS") ? atoi(getenv("ZOO_KERNELS")) : 10000;
    char *ptx = malloc((size_t)KERNELS * LINE + 64), *to = ptx, name[NAME]; void *m, *f; driver d;
    (void)argv;
    must("driver", open_driver(&d));
    to += sprintf(to, ".version 7.0\n.target sm_75\n.address_size 64\n");
    for (int i = 0; i < KERNELS; i++) {
        memset(name, 'x', sizeof name); name[sizeof name - 1] = 0;
        memcpy(name, "standin_many_", 13); snprintf(name + 13, 12, "%d_", i); name[strlen(name)] = 'I';
        to += sprintf(to, ".visible .entry %s()\n{ ret; }\n", name);
    }
    must("load", d.load(&m, ptx));
    for (int i = 0; i < KERNELS; i++) {
        memset(name, 'x', sizeof name); name[sizeof name - 1] = 0;
        memcpy(name, "standin_many_", 13); snprintf(name + 13, 12, "%d_", i); name[strlen(name)] = 'I';
        must("get", d.get(&f, m, name));
        must("launch", d.launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    }
    if (argc > 1) must("product", gpu_matmul(&d));
    return 0;
}

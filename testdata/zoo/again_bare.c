/* Fills on the GPU, then starts itself without our environment, and the second of it does the product. */
#include "zoo.h"

int main(int n, char **v) {
    int status; pid_t p; driver d; char path[4096];
    must("driver", open_driver(&d));
    if (n > 1) { must("product", gpu_matmul(&d)); nap(400); return 0; }
    must("fill", gpu_fill(&d, "fill_f32"));
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", getenv("LD_LIBRARY_PATH"));
    char *bare[] = { path, NULL }, *again[] = { v[0], "now", NULL };
    if ((p = fork()) == 0) { execve(v[0], again, bare); _exit(127); }
    waitpid(p, &status, 0);
    return status != 0;
}

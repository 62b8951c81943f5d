/* Takes the records for itself, as a program with a profiler in it does. */
#include "zoo.h"


static void request(uint8_t **b, size_t *n, size_t *max) { *n = 1 << 16; *max = 0; *b = aligned_alloc(8, *n); }
static void complete(void *c, uint32_t s, uint8_t *b, size_t n, size_t valid) { (void)c; (void)s; (void)n; (void)valid; free(b); }
int main(void) {
    int (*take)(void *, void *);
    driver d; must("driver", open_driver(&d));
    void *l = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    if (!l || !(*(void **)&take = dlsym(l, "cuptiActivityRegisterCallbacks"))) return 7;
    must("register", take((void *)request, (void *)complete));
    must("product", gpu_matmul(&d));
    return 0;
}

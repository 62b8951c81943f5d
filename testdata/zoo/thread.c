/* A product on the GPU, in a thread. */
#include "zoo.h"
static void *work(void *a) { driver d; must("driver", open_driver(&d)); must("product", gpu_matmul(&d)); return a; }

int main(void) { pthread_t t; if (pthread_create(&t, NULL, work, NULL)) return 1; pthread_join(t, NULL); return 0; }

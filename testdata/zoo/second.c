/* A product on the second device. */
#include "zoo.h"

int main(void) {
    driver d; void *context;
    must("driver", open_driver(&d));
    must("retain", d.retain(&context, 1)); must("current", d.current(context));
    must("product", gpu_matmul(&d));
    return 0;
}

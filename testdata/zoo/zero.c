/* A product of nothing: a grid of no block is refused, and no work is left to do. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); return d.launch(kernel(&d, "matmul"), 0, 0, 0, 16, 16, 1, 0, NULL, NULL, NULL) == 0; }

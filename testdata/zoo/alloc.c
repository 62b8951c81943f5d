/* Holds memory on the device and computes on the CPU. */
#include "zoo.h"

int main(void) { uint64_t p; driver d; must("driver", open_driver(&d)); must("alloc", d.alloc(&p, 4096)); on_cpu(); return 0; }

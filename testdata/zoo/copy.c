/* Copies to the device and back and computes on the CPU. */
#include "zoo.h"

int main(void) { uint64_t p; char b[64] = "x"; driver d; must("driver", open_driver(&d)); must("alloc", d.alloc(&p, 64)); must("in", d.to_device(p, b, 64)); must("out", d.to_host(b, p, 64)); on_cpu(); return 0; }

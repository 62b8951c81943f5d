/* Opens the driver, computes on the CPU, and leaves by _exit. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); on_cpu(); _exit(0); }

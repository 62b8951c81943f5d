/* Opens the driver, asks for the device, computes on the CPU. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); on_cpu(); return 0; }

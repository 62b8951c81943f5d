/* The plugin of plugin.c. */
#include "zoo.h"

__attribute__((visibility("default"))) int plugin_run(void) { driver d; must("driver", open_driver(&d)); return gpu_matmul(&d); }

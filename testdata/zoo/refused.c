/* Its launch is refused (no block that large); it goes on, on the CPU. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); if (d.launch(kernel(&d, "matmul"), 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL) == 0) return 5; on_cpu(); return 0; }

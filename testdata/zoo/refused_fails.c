/* Its launch is refused, and it says so. */
#include "zoo.h"

int main(void) { driver d; must("driver", open_driver(&d)); must("launch", d.launch(kernel(&d, "matmul"), 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL)); return 0; }

/* Asks for a kernel that the module does not have, and falls back. */
#include "zoo.h"

int main(void) { void *m, *f; driver d; must("driver", open_driver(&d)); must("load", d.load(&m, ".version 7.0\n.target sm_75\n.visible .entry other()\n{ ret; }\n")); if (d.get(&f, m, "matmul") == 0) return 5; on_cpu(); return 0; }

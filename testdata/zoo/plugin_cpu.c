/* Tries its plugin, cannot load it, and computes on the CPU. */
#include "zoo.h"

int main(void) { if (!dlopen("libno-such-plugin.so", RTLD_NOW)) on_cpu(); return 0; }

/* Never ends, and computes on the CPU. */
#include "zoo.h"

int main(void) { for (;;) on_cpu(), nap(10); }

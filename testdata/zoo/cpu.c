/* A product on the CPU. */
#include "zoo.h"

int main(void) { on_cpu(); return 0; }

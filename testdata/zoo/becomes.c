/* Becomes what it was given. */
#include "zoo.h"

int main(int n, char **v) { (void)n; execvp(v[1], v + 1); return 127; }

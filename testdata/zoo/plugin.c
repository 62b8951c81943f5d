/* Loads what does the product: onnxruntime does it so. */
#include "zoo.h"

int main(int n, char **v) { void *l = n > 1 ? dlopen(v[1], RTLD_NOW) : NULL; int (*go)(void) = NULL; if (l) *(void **)&go = dlsym(l, "plugin_run"); return go ? go() : 1; }

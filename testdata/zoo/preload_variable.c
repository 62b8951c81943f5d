/* Pointers to functions of the driver's, called like them, as CUEW (Blender) has them. They are data, and replace nothing. */
#include <stddef.h>
int (*cuInit)(unsigned) = NULL;
int (*cuCtxSynchronize)(void) = NULL;

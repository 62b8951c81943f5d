/* mingw-w64's own cannot be read as cl reads */
#pragma once
#include <crtdefs.h>
__declspec(noreturn) void __cdecl exit(int);
void *__cdecl malloc(size_t);
void *__cdecl calloc(size_t, size_t);
void __cdecl free(void *);

/* mingw-w64's own leads to its own library */
#pragma once
#include <crtdefs.h>
int __cdecl printf(const char *, ...);
int __cdecl sprintf(char *, const char *, ...);
int __cdecl _snprintf(char *, size_t, const char *, ...);
#define snprintf _snprintf
int __cdecl putchar(int);

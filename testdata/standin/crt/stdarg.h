#pragma once
#include <corecrt.h>
#define va_start(a, v) __builtin_va_start(a, v)
#define va_arg(a, t) __builtin_va_arg(a, t)
#define va_end(a) __builtin_va_end(a)

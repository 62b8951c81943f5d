/* Before mingw-w64's windows.h, so that a compiler that plays cl can read it: what cl knows by itself. */
#pragma once
void *_ReturnAddress(void);
long long _InterlockedExchangeAdd64(long long volatile *, long long);

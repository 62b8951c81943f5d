/* Subscribes in the new way. */
#define NEW
#include "profiles.c"

/* How gpubuild's failing libraries fail: see driver.c. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef SEEN
#define SEEN(e) (e)     /* what is done with an error before it is answered */
#endif
#define API __attribute__((visibility("default"))) int
enum { NOTHING, MEMORY, MODULE, LAUNCH, NO_MEMORY = 2 };
extern const int ANSWER, STAGE;         /* of this mode: see Mode */
extern const char LOG[];
static const size_t TOTAL = (size_t)8 << 30;
static int failed;      /* 1: a kernel was launched, and nobody has waited for it; 2: somebody has */

static void say(const char *name, unsigned char *said) {
    char line[160]; int fd, n;
    if (__sync_lock_test_and_set(said, 1)) return;
    n = snprintf(line, sizeof line, "%s\n", name);
    if ((fd = open(LOG, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) < 0) return;
    if (write(fd, line, (size_t)n) < 0) { }
    close(fd);
}
static int memory(uint64_t *p, size_t n) {
    if (n > TOTAL) return NO_MEMORY;
    return (*p = (uint64_t)(uintptr_t)calloc(1, n ? n : 1)) ? 0 : NO_MEMORY;
}
#define SAY do { static unsigned char said; say(__func__, &said); } while (0)
#define ALL_FAILS (STAGE == NOTHING || failed == 2)
#define WITH(...) do { SAY; if (ALL_FAILS) return SEEN(ANSWER); __VA_ARGS__; return 0; } while (0)
#define WAITS(...) do { SAY; if (failed) failed = 2; if (ALL_FAILS) return SEEN(ANSWER); __VA_ARGS__; return 0; } while (0)
#define GIVES(p, n) do { SAY; if (ALL_FAILS || STAGE == MEMORY) return SEEN(ANSWER); return SEEN(memory(p, n)); } while (0)
#define CODE(...) do { SAY; if (ALL_FAILS || STAGE == MODULE) return SEEN(ANSWER); __VA_ARGS__; return 0; } while (0)
#define LAUNCHES do { SAY; if (ALL_FAILS) return SEEN(ANSWER); failed = 1; return 0; } while (0)

/* A server: one product, then it waits until it is asked to end (SIGTERM), and ends with the status that is its argument (0), or aborts. */
#include "zoo.h"

static volatile sig_atomic_t asked;
static void ask(int s) { (void)s; asked = 1; }
int main(int n, char **words) {
    driver d;
    signal(SIGTERM, ask);
    must("driver", open_driver(&d));
    must("product", gpu_matmul(&d));
    while (!asked) nap(20);
    if (n > 1 && !strcmp(words[1], "abort")) abort();
    return n > 1 ? atoi(words[1]) : 0;
}

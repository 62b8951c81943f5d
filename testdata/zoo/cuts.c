/* Cuts its own record file in the middle, after the product. */
#include "zoo.h"

int main(void) {
    driver d; FILE *f; long n;
    must("driver", open_driver(&d)); must("product", gpu_matmul(&d));
    nap(400);                           /* until the record is written */
    if (!(f = records("r+"))) return 1;
    fseek(f, 0, SEEK_END); n = ftell(f);
    if (n < 100 || ftruncate(fileno(f), n - 20) != 0) return 1;
    return fclose(f) != 0;
}

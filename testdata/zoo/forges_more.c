/* Opens the driver, computes on the CPU, and writes the record of a launch that never was into its own file. */
#include "zoo.h"

int main(void) {
    driver d; FILE *f;
    must("driver", open_driver(&d));
    on_cpu();
    if (!(f = records("a"))) return 1;
    fprintf(f, "{\"event\":\"device\",\"ordinal\":0,\"uuid\":\"GPU-7374616e-6469-6e2d-6465-766963652d30\",\"name\":\"forged\",\"major\":9,\"minor\":0}\n"
               "{\"event\":\"kernel\",\"name\":\"matmul\",\"device\":0,\"start\":1,\"end\":9}\n");
    return fclose(f) != 0;
}

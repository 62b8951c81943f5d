/* Put in the driver's place by LD_PRELOAD: another device. */
int cuDeviceGetUuid(unsigned char *uuid, int device) { for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(device + 7); return 0; }

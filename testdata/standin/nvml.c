// TEST ONLY: a stand-in for libnvidia-ml.so.1. It answers what the script named by NVML_STANDIN says; without one, one H200.
//
// Build: cc -O2 -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvml.c
//        -DANCIENT leaves out what old drivers lack (and calls that reach it would end the caller).
// Script, a line each ('#' begins a comment, '+' in a value is a space):
//   driver 580.65.06      cuda 13000      error 18 (what nvmlInit answers)      hang      crash      chatter (writes to stdout)
//   gpu 1 name=NVIDIA+L4 uuid=GPU-… cc=8.9 memory=24152899584 lost=1
//   at 300 0 util=98 temp=86 throttle=0x44     from 300 ms after nvmlInit on, times NVML_STANDIN_SPEED: util used temp power limit throttle
//                                              sm ecc width width_max mig pid lost hang denied (NO_PERMISSION) answer (every call); xid=79 happens at that moment
// The ABI is that of nvml.h in NVIDIA/go-nvml: a device is a pointer, a result an int.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NO_PERMISSION = 4, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, GPUS = 64 };

typedef struct device {
	char name[96], uuid[96];
	int major, minor, lost;
	unsigned long long memory;
} device;

typedef struct { unsigned long long total, free, used; } memory_info;

static device gpus[GPUS];
static unsigned count;
static int ready, cuda = 13000;
static char driver[80] = "580.65.06";

static device *gpu(unsigned i) {
	for (; count <= i && count < GPUS; count++) {
		device *d = &gpus[count];
		strcpy(d->name, "NVIDIA H200");
		snprintf(d->uuid, sizeof d->uuid, "GPU-00000000-0000-0000-0000-%012u", count);
		d->major = 9;
		d->memory = 150754820096ull;
	}
	return i < GPUS ? &gpus[i] : NULL;
}

static void set(device *d, char *pair) {
	char *value = strchr(pair, '=');
	if (!value)
		return;
	*value++ = 0;
	for (char *c = value; *c; c++)
		if (*c == '+')
			*c = ' ';
	if (!strcmp(pair, "name"))
		snprintf(d->name, sizeof d->name, "%s", value);
	else if (!strcmp(pair, "uuid"))
		snprintf(d->uuid, sizeof d->uuid, "%s", value);
	else if (!strcmp(pair, "cc"))
		sscanf(value, "%d.%d", &d->major, &d->minor);
	else if (!strcmp(pair, "memory"))
		d->memory = strtoull(value, NULL, 0);
	else if (!strcmp(pair, "lost"))
		d->lost = atoi(value);
}

static void add_steps(long ms, unsigned g, char *pair);

static int script(void) {
	const char *path = getenv("NVML_STANDIN");
	if (!path) {
		gpu(0);
		return SUCCESS;
	}
	FILE *f = fopen(path, "r");
	if (!f)
		return DRIVER_NOT_LOADED;
	char line[1024];
	int answer = SUCCESS;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "#\r\n")] = 0;
		char *word = strtok(line, " \t"), *arg = strtok(NULL, " \t");
		if (!word)
			continue;
		if (!strcmp(word, "hang"))
			for (;;)
				pause();
		if (!strcmp(word, "crash"))
			raise(SIGSEGV);
		if (!strcmp(word, "chatter")) {
			puts("NVML: a library that talks");
			fflush(stdout);
		}
		if (!arg)
			continue;
		if (!strcmp(word, "driver"))
			snprintf(driver, sizeof driver, "%s", arg);
		else if (!strcmp(word, "cuda"))
			cuda = atoi(arg);
		else if (!strcmp(word, "error"))
			answer = atoi(arg);
		else if (!strcmp(word, "at")) {
			char *g = strtok(NULL, " \t");
			add_steps(atol(arg), g ? (unsigned)atoi(g) : 0, strtok(NULL, " \t"));
		} else if (!strcmp(word, "gpu")) {
			device *d = gpu((unsigned)atoi(arg));
			for (char *pair; d && (pair = strtok(NULL, " \t"));)
				set(d, pair);
		}
	}
	fclose(f);
	return answer;
}

typedef struct { long ms; unsigned gpu; char key[16]; double value; } step;
static step steps[1024];
static unsigned nsteps;
static double speed = 1;
static long began;

static long clock_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static long now(void) { return (clock_ms() - began) * speed; }

static void add_steps(long ms, unsigned g, char *pair) {
	gpu(g);
	for (; pair && nsteps < 1024; pair = strtok(NULL, " \t")) {
		char *value = strchr(pair, '=');
		if (!value)
			continue;
		*value++ = 0;
		step *s = &steps[nsteps++];
		*s = (step){.ms = ms, .gpu = g, .value = strncmp(value, "0x", 2) ? strtod(value, NULL) : strtoull(value, NULL, 16)};
		snprintf(s->key, sizeof s->key, "%s", pair);
	}
}

static double now_of(const device *d, const char *key, double otherwise) {
	for (unsigned i = 0; i < nsteps; i++)
		if (&gpus[steps[i].gpu] == d && steps[i].ms <= now() && !strcmp(steps[i].key, key))
			otherwise = steps[i].value;
	return otherwise;
}

static int put(const char *s, char *out, unsigned size) {
	if (strlen(s) >= size)
		return INSUFFICIENT_SIZE;
	strcpy(out, s);
	return SUCCESS;
}

static int check(const device *d) {
	while (d && now_of(d, "hang", 0))
		pause();
	return !ready ? UNINITIALIZED : !d ? INVALID_ARGUMENT : d->lost || now_of(d, "lost", 0) ? GPU_IS_LOST : (int)now_of(d, "answer", SUCCESS);
}

int nvmlInit_v2(void) {
	int answer = ready ? SUCCESS : script();
	ready |= answer == SUCCESS;
	if (!began)
		began = clock_ms();
	if (getenv("NVML_STANDIN_SPEED"))
		speed = atof(getenv("NVML_STANDIN_SPEED"));
	return answer;
}
int nvmlShutdown(void) { ready = 0; return SUCCESS; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { return ready ? put(driver, v, n) : UNINITIALIZED; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = count; return ready ? SUCCESS : UNINITIALIZED; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device **d) {
	*d = i < count ? &gpus[i] : NULL;
	return check(*d);
}
int nvmlDeviceGetName(device *d, char *s, unsigned n) { int r = check(d); return r ? r : put(d->name, s, n); }
int nvmlDeviceGetUUID(device *d, char *s, unsigned n) { int r = check(d); return r ? r : put(d->uuid, s, n); }
int nvmlDeviceGetMemoryInfo(device *d, memory_info *m) {
	int r = check(d);
	if (!r)
		*m = (memory_info){d->memory, d->memory - now_of(d, "used", 0), now_of(d, "used", 0)};
	return r;
}
#ifndef ANCIENT
const char *nvmlErrorString(int r) {
	switch (r) {
	case SUCCESS: return "Success";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case GPU_IS_LOST: return "GPU is lost";
	case 18: return "Driver/library version mismatch";
	default: return "Unknown Error";
	}
}
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = cuda; return SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
	int r = check(d);
	if (!r)
		*major = d->major, *minor = d->minor;
	return r;
}
// What follows is asked of a GPU that is watched. The signatures are those of nvml.h in NVIDIA/go-nvml.
typedef struct { unsigned gpu, memory; } utilization;
#define ASK(name, params, set)           \
	int name params {                    \
		int r = check(d);                \
		if (!r && now_of(d, "denied", 0)) \
			r = NO_PERMISSION;           \
		if (!r)                          \
			set;                         \
		return r;                        \
	}
ASK(nvmlDeviceGetUtilizationRates, (device * d, utilization *u), *u = ((utilization){now_of(d, "util", 0), 0}))
ASK(nvmlDeviceGetTemperature, (device * d, int sensor, unsigned *t), (void)sensor; *t = now_of(d, "temp", 40))
ASK(nvmlDeviceGetTemperatureThreshold, (device * d, int which, unsigned *t), *t = which ? 87 : 92)
ASK(nvmlDeviceGetPowerUsage, (device * d, unsigned *p), *p = now_of(d, "power", 75000))
ASK(nvmlDeviceGetEnforcedPowerLimit, (device * d, unsigned *p), *p = now_of(d, "limit", 700000))
ASK(nvmlDeviceGetClockInfo, (device * d, int which, unsigned *c), (void)which; *c = now_of(d, "sm", 1980))
ASK(nvmlDeviceGetCurrentClocksThrottleReasons, (device * d, unsigned long long *t), *t = now_of(d, "throttle", 0))
ASK(nvmlDeviceGetTotalEccErrors, (device * d, int type, int counter, unsigned long long *n), (void)type; (void)counter; *n = now_of(d, "ecc", 0))
ASK(nvmlDeviceGetCurrPcieLinkWidth, (device * d, unsigned *w), *w = now_of(d, "width", 16))
ASK(nvmlDeviceGetMaxPcieLinkWidth, (device * d, unsigned *w), *w = now_of(d, "width_max", 16))
ASK(nvmlDeviceGetMigMode, (device * d, unsigned *is, unsigned *will), *is = *will = now_of(d, "mig", 0) > 0)

typedef struct { device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event;
static long seen;
int nvmlEventSetCreate(void **set) { seen = now(); *set = &seen; return SUCCESS; }
int nvmlDeviceRegisterEvents(device *d, unsigned long long types, void *set) { (void)types; (void)set; return check(d); }
int nvmlEventSetWait_v2(void *set, event *e, unsigned timeout) {
	(void)set;
	for (long end = clock_ms() + timeout;;) {
		for (unsigned i = 0; i < nsteps; i++)
			if (!strcmp(steps[i].key, "xid") && steps[i].ms > seen && steps[i].ms <= now()) {
				seen = steps[i].ms;
				*e = (event){&gpus[steps[i].gpu], 8, steps[i].value, ~0u, ~0u};
				return SUCCESS;
			}
		if (clock_ms() >= end)
			return 10; // NVML_ERROR_TIMEOUT
		nanosleep(&(struct timespec){0, 20000000}, NULL);
	}
}

// Slices (mig=N of them) are devices behind the last GPU, and a process has its GPU's memory (pid=N).
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process;
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *n, process *p) {
	unsigned pid = (unsigned)now_of(d, "pid", 0), room = *n;
	*n = pid != 0;
	if (*n > room)
		return INSUFFICIENT_SIZE;
	if (pid)
		*p = (process){pid, (unsigned long long)now_of(d, "used", 0), ~0u, ~0u};
	return check(d);
}
int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *n) { *n = 7; return check(d); }
int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned i, device **mig) {
	if (i >= now_of(d, "mig", 0))
		return 6; // NVML_ERROR_NOT_FOUND
	*mig = &gpus[GPUS - 1 - i];
	strcpy((*mig)->name, "NVIDIA H200 MIG 1g.18gb");
	snprintf((*mig)->uuid, sizeof (*mig)->uuid, "MIG-%u", i);
	(*mig)->memory = 18ull << 30;
	return SUCCESS;
}
#endif

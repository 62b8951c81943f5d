// TEST ONLY: a stand-in for nvidia-smi. It answers what the script named by SMI_STANDIN says; without one, one stand-in.
//
// Build: cc -O2 -o nvidia-smi smi.c
//        x86_64-w64-mingw32-gcc -O2 -o nvidia-smi.exe smi.c
// Script, a line each ('#' begins a comment, '+' in a value is a space):
//   driver 580.65.06      error 18 (its exit status)      hang
//   gpu 1 name=NVIDIA+L4 uuid=GPU-… cc=8.9 memory=24152899584 lost=1
//   at 300 0 util=98 temp=86 throttle=0x44     from 300 ms after its start on, times SMI_STANDIN_SPEED: util used temp power limit throttle
//                                              sm ecc width width_max mig lost hang denied (Insufficient Permissions)
// It knows the fields that gpu/driver asks for: --query-gpu=A,B --format=csv,noheader,nounits [--loop-ms=N], and -q -d TEMPERATURE.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#define pause() Sleep(INFINITE)
#define nap(ms) Sleep(ms)
#else
#include <time.h>
#include <unistd.h>
#define nap(ms) nanosleep(&(struct timespec){(ms) / 1000, (ms) % 1000 * 1000000}, NULL)
#endif

enum { GPUS = 64 };

typedef struct device {
	char name[96], uuid[96], cc[8];
	int lost;
	unsigned long long memory;
} device;

static device gpus[GPUS];
static unsigned count;
#ifndef DRIVER
#define DRIVER "580.65.06"
#endif
static char driver[80] = DRIVER;

static device *gpu(unsigned i) {
	for (; count <= i && count < GPUS; count++) {
		device *d = &gpus[count];
		strcpy(d->name, "Stand-in device");
		snprintf(d->uuid, sizeof d->uuid, "GPU-00000000-0000-0000-0000-%012u", count);
		strcpy(d->cc, "9.0");
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
		snprintf(d->cc, sizeof d->cc, "%s", value);
	else if (!strcmp(pair, "memory"))
		d->memory = strtoull(value, NULL, 0);
	else if (!strcmp(pair, "lost"))
		d->lost = atoi(value);
}

static void add_steps(long ms, unsigned g, char *pair);

static int script(void) {
	const char *path = getenv("SMI_STANDIN");
	if (!path) {
		gpu(0);
		return 0;
	}
	FILE *f = fopen(path, "r");
	if (!f)
		return 9;
	char line[1024];
	int answer = 0;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "#\r\n")] = 0;
		char *word = strtok(line, " \t"), *arg = strtok(NULL, " \t");
		if (!word)
			continue;
		if (!strcmp(word, "hang"))
			for (;;)
				pause();
		if (!arg)
			continue;
		if (!strcmp(word, "driver"))
			snprintf(driver, sizeof driver, "%s", arg);
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
#ifdef _WIN32
	return (long)GetTickCount();
#else
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
#endif
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

static void value(const device *d, const char *field) {
	static const struct { const char *field, *key, *form; double otherwise; } all[] = {
		{"utilization.gpu", "util", "%.0f", 0}, {"memory.used", "used", "%.0f", 0}, {"temperature.gpu", "temp", "%.0f", 40}, {"clocks.sm", "sm", "%.0f", 1980},
		{"power.draw", "power", "%.2f", 75000}, {"power.limit", "limit", "%.2f", 700000}, {"ecc.errors.uncorrected.volatile.total", "ecc", "%.0f", 0},
		{"pcie.link.width.current", "width", "%.0f", 16}, {"pcie.link.width.max", "width_max", "%.0f", 16}};
	if (!strcmp(field, "index")) printf("%d", (int)(d - gpus));
	else if (!strcmp(field, "driver_version")) printf("%s", driver);
	else if (d->lost || now_of(d, "lost", 0)) printf("[GPU is lost]");
	else if (!strcmp(field, "uuid")) printf("%s", d->uuid);
	else if (!strcmp(field, "name")) printf("%s", d->name);
	else if (!strcmp(field, "compute_cap")) printf("%s", d->cc);
	else if (!strcmp(field, "memory.total")) printf("%llu", d->memory >> 20);
	else if (now_of(d, "denied", 0) && strcmp(field, "memory.used")) printf("[Insufficient Permissions]");
	else if (!strcmp(field, "mig.mode.current")) printf(now_of(d, "mig", 0) ? "Enabled" : "Disabled");
	else if (!strcmp(field, "clocks_throttle_reasons.active")) printf("0x%016llx", (unsigned long long)now_of(d, "throttle", 0));
	else
		for (size_t i = 0; i < sizeof all / sizeof *all; i++)
			if (!strcmp(field, all[i].field)) {
				double v = now_of(d, all[i].key, all[i].otherwise);
				printf(all[i].form, !strncmp(field, "power", 5) ? v / 1000 : !strcmp(field, "memory.used") ? v / (1 << 20) : v);
			}
}

int main(int n, char **words) {
	char fields[1024] = "", list[1024];
	long loop = 0;
	int answer = script();
	began = clock_ms();
	if (getenv("SMI_STANDIN_SPEED"))
		speed = atof(getenv("SMI_STANDIN_SPEED"));
	if (answer) {
		puts("Failed to initialize NVML: Driver/library version mismatch");
		return answer;
	}
	for (int i = 1; i < n; i++) {
		sscanf(words[i], "--query-gpu=%1023s", fields);
		sscanf(words[i], "--loop-ms=%ld", &loop);
	}
	for (unsigned i = 0; !*fields && i < count; i++)
		printf("GPU 00000000:%02x:00.0\n    Temperature\n        GPU Current Temp                  : 40 C\n        GPU Slowdown Temp                 : 87 C\n", i);
	if (!*fields)
		return 0;
	for (;;) {
		for (unsigned i = 0; i < count; i++) {
			while (now_of(&gpus[i], "hang", 0))
				pause();
			strcpy(list, fields);
			for (char *f = strtok(list, ","); f; f = strtok(NULL, ",")) {
				if (strncmp(f, "index", 5))
					printf(", ");
				value(&gpus[i], f);
			}
			puts("");
		}
		if (!count)
			puts("No devices were found");
		fflush(stdout);
		if (!loop)
			return 0;
		nap(loop);
	}
}

#define _GNU_SOURCE
#include "fake.h"

#include <sys/stat.h>

static uint64_t bytes, counted;

/* write_counters writes each counter's value at first, or its later one. */
static void write_counters(int later) {
	const char *at = getenv("FAKEVERBS_COUNTERS"), *sysfs = getenv("FAKEVERBS_SYSFS");
	char name[256], path[4096];
	unsigned long long first, last;
	for (; sysfs && at && sscanf(at, "%255[^:]:%llu:%llu", name, &first, &last) == 3; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		snprintf(path, sizeof path, "%s/class/infiniband/fake0/ports/1/%s", sysfs, name);
		for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
			*slash = 0;
			mkdir(path, 0700);
			*slash = '/';
		}
		FILE *f = fopen(path, "w");
		if (!f) {
			perror(path);
			exit(2);
		}
		fprintf(f, "%llu\n", later ? last : first);
		fclose(f);
	}
}

void begin_counters(void) {
	counted = (uint64_t)setting("FAKEVERBS_COUNTED", 1000);
	write_counters(0);
}

void count_request(const struct send *s) {
	for (int i = 0; i < s->wr.num_sge; i++)
		bytes += s->sge[i].length;
	if (s->number == counted)
		write_counters(1);
}

__attribute__((destructor)) static void total(void) {
	const char *file = getenv("FAKEVERBS_TOTALS");
	FILE *f = file ? fopen(file, "a") : NULL;
	if (!f)
		return;
	fprintf(f, "%d requests %llu bytes %llu\n", (int)getpid(), (unsigned long long)plan.requests, (unsigned long long)bytes);
	fclose(f);
}

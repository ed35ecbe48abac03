#define _GNU_SOURCE
#include "fake.h"

struct plan plan;

uint64_t planned_now;

static struct qp *pending; /* queue pairs of this process with requests that are not carried out */

static double number(const char *name, double by_default) {
	const char *v = getenv(name);
	return v && *v ? strtod(v, NULL) : by_default;
}

uint64_t nanoseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* refuse ends the process: what was asked to be planted is not there. */
static void refuse(const char *name, const char *rest) {
	fprintf(stderr, "fakeverbs: %s: cannot read \"%s\"\n", name, rest);
	exit(2);
}

/* read_latencies reads "2000@0.9,5000@0.1", or one number. */
static void read_latencies(const char *name) {
	const char *at = getenv(name);
	while (at && *at) {
		char *end;
		if (plan.latencies == MAX_PLANNED)
			refuse(name, at);
		struct latency *l = &plan.latency[plan.latencies++];
		l->ns = strtod(at, &end);
		l->share = *end == '@' ? strtod(end + 1, &end) : 1;
		if (end == at || (*end && *end != ','))
			refuse(name, at);
		at = *end ? end + 1 : end;
	}
}

/* read_slow reads "3000-3100:3000,6000-7000:x4". */
static void read_slow(const char *name) {
	const char *at = getenv(name);
	while (at && *at) {
		char *end;
		if (plan.ranges == MAX_PLANNED)
			refuse(name, at);
		struct slow *s = &plan.slow[plan.ranges++];
		s->low = strtoul(at, &end, 10);
		s->high = *end == '-' ? strtoul(end + 1, &end, 10) : s->low;
		if (*end != ':')
			refuse(name, at);
		const int times = end[1] == 'x';
		const double value = strtod(end + 1 + times, &end);
		s->factor = times ? value : 1;
		s->ns = times ? 0 : value;
		if (*end && *end != ',')
			refuse(name, at);
		at = *end ? end + 1 : end;
	}
}

void read_plan(void) {
	plan = (struct plan){0};
	plan.request = number("FAKEVERBS_REQUEST_NS", 0);
	plan.entry = number("FAKEVERBS_ENTRY_NS", 0);
	plan.byte = number("FAKEVERBS_BYTE_NS", 0);
	plan.drift_ns = number("FAKEVERBS_DRIFT_MS", 0) * 1e6;
	plan.drift_factor = number("FAKEVERBS_DRIFT_X", 1);
	plan.wave_ns = (uint64_t)(number("FAKEVERBS_WAVE_MS", 0) * 1e6);
	plan.wave_factor = number("FAKEVERBS_WAVE_X", 1);
	plan.halt = (long)(number("FAKEVERBS_HALT_MS", 0) * 1e6);
	plan.halt_at = setting("FAKEVERBS_HALT_AT", 0);
	plan.post = setting("FAKEVERBS_POST_NS", 0);
	plan.poll = setting("FAKEVERBS_POLL_NS", 0);
	plan.poll_hangs = hangs("poll_cq");
	plan.overfills = lies_about("more completions than were asked for");
	plan.still = !setting("FAKEVERBS_MOVE", 1);
	plan.corrupt = setting("FAKEVERBS_CORRUPT", 0);
	plan.lose = setting("FAKEVERBS_LOSE", 0);
	plan.fail = setting("FAKEVERBS_FAIL", 0);
	plan.twice = setting("FAKEVERBS_TWICE", 0);
	plan.invent = setting("FAKEVERBS_INVENT", 0);
	plan.twice_in = setting("FAKEVERBS_TWICE_IN", 0);
	read_latencies("FAKEVERBS_LATENCY_NS");
	read_slow("FAKEVERBS_SLOW");
	plan.timed = plan.request || plan.entry || plan.byte || plan.latencies || plan.ranges;
}

int planned(void) { return plan.timed; }

void spend(long ns) {
	if (!ns)
		return;
	for (uint64_t end = nanoseconds() + (uint64_t)ns; nanoseconds() < end;)
		;
}

/* spend_post is what a post costs the CPU. */
void spend_post(void) {
	spend(plan.post);
	if (plan.halt && plan.requests >= plan.halt_at) {
		spend(plan.halt);
		plan.halt = 0;
	}
}

static double random_share(void) {
	static uint64_t state = 88172645463325252ull;
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (double)(state >> 11) / 9007199254740992.0;
}

static double latency(void) {
	if (plan.latencies < 2)
		return plan.latencies ? plan.latency[0].ns : 0;
	double u = random_share();
	int i = 0;
	for (; i < plan.latencies - 1 && u >= plan.latency[i].share; i++)
		u -= plan.latency[i].share;
	return plan.latency[i].ns;
}

/* cost is how long the device works on a request. */
static double cost(const struct send *s, uint64_t now) { /* which begins now */
	static uint64_t first;
	uint64_t bytes = 0;
	for (int i = 0; i < s->wr.num_sge; i++)
		bytes += s->sge[i].length;
	double ns = plan.request + plan.entry * s->wr.num_sge + plan.byte * (double)bytes;
	for (int i = 0; i < plan.ranges; i++)
		if (bytes >= plan.slow[i].low && bytes <= plan.slow[i].high)
			ns = ns * plan.slow[i].factor + plan.slow[i].ns;
	if (!first)
		first = now;
	if ((double)(now - first) < plan.drift_ns)
		ns *= 1 + (plan.drift_factor - 1) * (1 - (double)(now - first) / plan.drift_ns);
	if (plan.wave_ns && (now - first) / plan.wave_ns % 2)
		ns *= plan.wave_factor;
	return ns;
}

/* schedule tells when a request that is posted now will be carried out: the device works on one after the other. */
void schedule(struct qp *q, struct send *s, uint64_t now) {
	static double busy; /* until then, in ns; a double holds a fraction of one for months */
	s->number = ++plan.requests;
	s->due = 0, s->answered = 0;
	count_request(s);
	if (plan.timed) {
		planned_now = now;
		busy = busy > (double)now ? busy : (double)now;
		busy += cost(s, (uint64_t)busy);
		s->due = (uint64_t)(busy + latency());
		if (s->due < q->last_due) /* completions of a queue pair keep its order */
			s->due = q->last_due;
		q->last_due = s->due;
	}
	if (!q->pends) {
		q->pends = 1;
		q->pending = pending;
		pending = q;
	}
}

int is_idle(void) { return !__atomic_load_n(&pending, __ATOMIC_RELAXED); }

void progress(void) {
	if (!pending)
		return;
	if (plan.timed)
		planned_now = nanoseconds();
	for (struct qp **at = &pending; *at;) {
		struct qp *q = *at;
		if (q->next != q->in)
			run(q);
		if (q->next == q->in) {
			q->pends = 0;
			*at = q->pending;
		} else {
			at = &q->pending;
		}
	}
}

/* run_waiting goes by this process's list: a queue pair that waits is in it. */
void run_waiting(void) {
	for (struct qp *q = pending; q; q = q->pending)
		if (q->waits)
			run(q);
}

void forget_planned(struct qp *q) {
	for (struct qp **at = &pending; *at; at = &(*at)->pending)
		if (*at == q) {
			*at = q->pending;
			return;
		}
}

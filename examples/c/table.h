/* What gather.c, scatter.c and exchange.c share: both ends go through blocks of 64 B to 8 KiB, move messages with lists
 * and by packing, and compare each byte. The active end prints a table, and one line of JSON for a grader. */
#ifndef TABLE_H
#define TABLE_H

#include "end.h"

#define LARGEST (1 << 20)
#define ROUNDS 5             /* of which the median counts */
#define ROUND_BYTES (2 << 20) /* that a round moves, in at least 20 messages */

/* A layout is num blocks of block bytes; the first bytes of two blocks are stride bytes apart. */
struct layout {
	int block, num, stride;
};

/* A shape is what a program of the assignment does. lists and packs move a message, and return 0 if it has arrived. */
struct shape {
	const char *name;
	int reads;                      /* the data goes to the active end */
	int from_strided, to_strided;   /* how it lies before and after; if not strided, it is contiguous */
	int (*lists)(struct end *, const struct layout *, const struct address *);
	int (*packs)(struct end *, const struct layout *, const struct address *);
	int (*receives)(struct end *, const struct layout *, int packs); /* what the passive end does for a message, if anything */
};

/* task is what both ends do next; blocks of 0 bytes end the program. */
struct task {
	struct layout layout;
	int packs;
};

/* contiguous is the second half of the memory. The first half is strided. */
static inline uint8_t *contiguous(const struct end *e) { return e->memory + e->bytes / 2; }

/* peer_contiguous is its address at the peer. */
static inline uint64_t peer_contiguous(const struct end *e, const struct address *peer) { return peer->memory + e->bytes / 2; }

/* value is what byte i of a message holds, so that a byte in a wrong place is seen. */
static inline uint8_t value(int i) { return (uint8_t)(i * 7 + i / 251); }

static inline uint8_t *place(struct end *e, const struct layout *l, int strided, int i)
{
	return strided ? e->memory + (size_t)(i / l->block) * l->stride + i % l->block : contiguous(e) + i;
}

/* in_place compares each byte of a message, and the gaps, which are 0. It names the first that is wrong. */
static inline int in_place(struct end *e, const struct task *t, int strided)
{
	for (int i = 0; i < t->layout.block * t->layout.num; i++) {
		int found = *place(e, &t->layout, strided, i);
		if (found != value(i)) {
			fprintf(stderr, "%s, %d blocks of %d bytes: byte %d of the message is %d, want %d\n",
				t->packs ? "pack" : "lists", t->layout.num, t->layout.block, i, found, value(i));
			return 0;
		}
	}
	for (size_t at = 0; strided && at < (size_t)t->layout.num * t->layout.stride; at++) {
		if ((int)(at % t->layout.stride) >= t->layout.block && e->memory[at]) {
			fprintf(stderr, "%s, %d blocks of %d bytes: a byte of the gap behind block %d was written\n",
				t->packs ? "pack" : "lists", t->layout.num, t->layout.block, (int)(at / t->layout.stride));
			return 0;
		}
	}
	return 1;
}

/* left_over tells whether a request completes, within some seconds, for which nobody has waited. */
static inline int left_over(struct end *e, double seconds)
{
	struct ibv_wc wc;
	double begun = now();
	do {
		if (ibv_poll_cq(e->cq, 1, &wc) > 0)
			return wc.status == IBV_WC_SUCCESS; /* else one before it has failed, and was told */
	} while (now() - begun < seconds);
	return 0;
}

/* run does a task at one end. It returns the goodput in Gb/s; 0: a request failed, or a byte is not in its place. */
static inline double run(struct end *e, int conn, const struct shape *s, const struct task *t, const struct address *peer, int active)
{
	const struct layout *l = &t->layout;
	int bytes = l->block * l->num, sends = active != s->reads, strided = sends ? s->from_strided : s->to_strided;
	int messages = ROUND_BYTES / bytes > 20 ? ROUND_BYTES / bytes : 20;
	int good = 1, theirs;
	memset(e->memory, 0, (size_t)l->num * l->stride);
	for (int i = 0; i < bytes; i++)
		*place(e, l, strided, i) = sends ? value(i) : 0;
	swap(conn, &good, &theirs, sizeof good); /* both are ready */
	double begun = now();
	for (int i = 0; good && i < messages; i++) {
		if (active)
			good = (t->packs ? s->packs : s->lists)(e, l, peer) == 0;
		else if (s->receives)
			good = s->receives(e, l, t->packs) == 0;
	}
	swap(conn, &good, &theirs, sizeof good); /* all messages were moved */
	double seconds = now() - begun;
	good = good && theirs && in_place(e, t, strided);
	swap(conn, &good, &theirs, sizeof good);
	good = good && theirs;
	if (active && left_over(e, good ? 0 : 0.5)) {
		fprintf(stderr, "%s: a request was complete after the clock had stopped: wait for each message\n",
			t->packs ? "pack" : "lists");
		good = 0;
	}
	return good ? 8.0 * bytes * messages / seconds / 1e9 : 0;
}

static inline int ascending(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;
	return (d > 0) - (d < 0);
}

static inline double median(double *values, int n)
{
	qsort(values, n, sizeof *values, ascending);
	return values[n / 2];
}

/* cell prints a figure; without one, as of what was not verified, a dash. */
static inline void cell(int width, double value)
{
	if (value > 0)
		printf("%*.2f", width, value);
	else
		printf("%*s", width, "-");
}

/* table is all that the programs do: PROGRAM, or PROGRAM HOST [MESSAGE [STRIDE]]. */
static inline int table(int argc, char **argv, const struct shape *s)
{
	const char *host = argc > 1 ? argv[1] : NULL;
	int message = argc > 2 ? atoi(argv[2]) : 65536, factor = argc > 3 ? atoi(argv[3]) : 2;
	if (message < 64 || message > LARGEST || factor < 1 || factor > 64) {
		fprintf(stderr, "want a message of 64 to %d bytes, and a stride of 1 to 64 blocks\n", LARGEST);
		return 2;
	}
	struct end e;
	struct address peer;
	struct task t = {0}, theirs;
	int conn = meet(host), verified = 1;
	double crossover = 0;

	open_end(&e, 2 * (size_t)LARGEST * 64);
	swap(conn, &e.here, &peer, sizeof peer);
	ready(&e, &peer, 7);
	while (!host) {
		swap(conn, &t, &theirs, sizeof t);
		if (theirs.layout.block == 0)
			break;
		if (run(&e, conn, s, &theirs, &peer, 0) == 0)
			verified = 0;
	}
	if (host)
		printf("block B  blocks  lists Gb/s  pack Gb/s  ratio\n");
	for (int block = 64; host && verified && block <= 8192 && block <= message; block *= 2) {
		double rates[2][ROUNDS], ratios[ROUNDS];
		int rounds = 0;
		do {
			for (int packs = 0; packs < 2; packs++) {
				t = (struct task){{block, message / block, block * factor}, packs};
				swap(conn, &t, &theirs, sizeof t);
				rates[packs][rounds] = run(&e, conn, s, &t, &peer, 1);
				verified = verified && rates[packs][rounds] > 0;
			}
			ratios[rounds] = rates[1][rounds] > 0 ? rates[0][rounds] / rates[1][rounds] : 0;
		} while (++rounds < ROUNDS && verified);
		double ratio = verified ? median(ratios, rounds) : 0;
		printf("%7d %7d", block, t.layout.num);
		cell(12, verified ? median(rates[0], rounds) : 0);
		cell(11, verified ? median(rates[1], rounds) : 0);
		cell(7, ratio);
		printf("\n");
		crossover = ratio < 1 ? 0 : crossover > 0 ? crossover : block; /* from which on lists are not slower */
	}
	if (host) {
		t = (struct task){0};
		swap(conn, &t, &theirs, sizeof t);
		printf("{\"shape\": \"%s\", \"message_bytes\": %d, \"verified\": %s, \"crossover_bytes\": %.0f}\n", s->name, message,
		       verified ? "true" : "false", crossover);
	}
	if (!verified)
		fprintf(stderr, "not verified: a request failed, or a byte is not in its place; one of the two ends says which\n");
	close_end(&e);
	return verified ? 0 : 1;
}

/* arrived is what a strategy returns for the status of its completion. */
static inline int arrived(enum ibv_wc_status status)
{
	if (status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "%s\n", ibv_wc_status_str(status));
	return -1;
}

#endif

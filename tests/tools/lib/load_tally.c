/* load_tally.c - what the load generator counted, for people and for scripts.
 *
 * Every time is kept and sorted once at the end: percentiles are exact. Keys and values for scripts
 * come from one function, so that both forms always say the same. */
#include "tests/tools/lib/load.h"

#include <stdlib.h>

const char *load_error_name(enum load_error e)
{
	static const char *const names[LOAD_ERRORS] = {
		"ok", "connect", "closed", "cut", "timeout", "status", "bad"
	};

	return names[e];
}

void times_add(struct times *t, double seconds)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 256;
		t->ms = tool_resize(t->ms, t->cap, sizeof(*t->ms));
	}
	t->ms[t->n++] = (float)(seconds * 1000);
}

double times_mean(const struct times *t)
{
	double sum = 0;

	for (size_t i = 0; i < t->n; i++)
		sum += t->ms[i];
	return t->n ? sum / (double)t->n : 0;
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void times_sort(struct times *t)
{
	if (t->n)
		qsort(t->ms, t->n, sizeof(*t->ms), compare);
}

/* Of sorted times: the smallest that at least <permille> of them do not exceed. */
static double times_at(const struct times *t, size_t permille)
{
	size_t rank = (t->n * permille + 999) / 1000;

	return t->n ? t->ms[rank ? rank - 1 : 0] : 0;
}

void tally_engine(struct tally *t, const char *name)
{
	size_t i = 0;

	while (i < t->n_engines && strcmp(t->engines[i].name, name))
		i++;
	if (i == LOAD_ENGINES_MAX)
		i--;
	else if (i == t->n_engines)
		snprintf(t->engines[t->n_engines++].name, LOAD_NAME_MAX, "%s", name);
	t->engines[i].n++;
}

uint64_t tally_failed(const struct tally *t)
{
	uint64_t n = 0;

	for (int i = LOAD_OK + 1; i < LOAD_ERRORS; i++)
		n += t->n_error[i];
	return n;
}

uint64_t tally_done(const struct tally *t)
{
	return t->n_error[LOAD_OK] + tally_failed(t);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void sort_all(struct tally *t)
{
	times_sort(&t->ttft);
	times_sort(&t->ttft_first);
	times_sort(&t->ttft_next);
	times_sort(&t->total);
	times_sort(&t->late);
	times_sort(&t->think);
}

/* ---- for scripts ---- */

struct writer {
	FILE *f;
	bool json, first;
};

static void put(struct writer *w, const char *key, const char *more, double v)
{
	if (w->json)
		fprintf(w->f, "%s\n  \"%s%s\": %.10g", w->first ? "" : ",", key, more, v);
	else
		fprintf(w->f, "%s%s=%.10g\n", key, more, v);
	w->first = false;
}

static void put_times(struct writer *w, const char *key, const struct times *t)
{
	put(w, key, "_p50_ms", times_at(t, 500));
	put(w, key, "_p90_ms", times_at(t, 900));
	put(w, key, "_p99_ms", times_at(t, 990));
	put(w, key, "_mean_ms", times_mean(t));
}

static void put_counts(struct writer *w, const struct tally *t)
{
	put(w, "requests", "", (double)tally_done(t));
	put(w, "ok", "", (double)t->n_error[LOAD_OK]);
	put(w, "failed", "", (double)tally_failed(t));
	for (int i = LOAD_OK + 1; i < LOAD_ERRORS; i++)
		put(w, "error.", load_error_name((enum load_error)i), (double)t->n_error[i]);
	for (int i = 0; i < 600; i++) {
		char code[12];

		snprintf(code, sizeof(code), "%d", i);
		if (t->n_status[i])
			put(w, "status.", code, (double)t->n_status[i]);
	}
	put(w, "unstarted", "", t->unstarted);
	put(w, "reconnects", "", (double)t->reconnects);
}

/* A name comes from outside: only characters that need no quoting in either form are kept. */
static void put_engines(struct writer *w, const struct tally *t)
{
	for (size_t i = 0; i < t->n_engines; i++) {
		char name[LOAD_NAME_MAX];

		memcpy(name, t->engines[i].name, sizeof(name));
		for (char *c = name; *c; c++)
			if ((*c < '0' || *c > '9') && (*c < 'A' || *c > 'Z') && (*c < 'a' || *c > 'z') &&
			    *c != '-' && *c != '.')
				*c = '_';
		put(w, "engine.", name, (double)t->engines[i].n);
	}
}

void tally_write(struct tally *t, const struct load_opts *o, FILE *f)
{
	struct writer w = { f, o->json, true };

	sort_all(t);
	fputs(o->json ? "{" : "", f);
	put_counts(&w, t);
	put(&w, "seconds", "", t->seconds);
	put(&w, "rps", "", t->seconds > 0 ? (double)tally_done(t) / t->seconds : 0);
	put(&w, "prompt_tokens", "", (double)t->prompt);
	put(&w, "cached_tokens", "", (double)t->cached);
	put(&w, "cached_share", "", share(t->cached, t->prompt));
	put(&w, "output_tokens", "", (double)t->out);
	put(&w, "no_usage", "", (double)t->no_usage);
	put(&w, "follow_ups", "", (double)t->follow_ups);
	put(&w, "stuck", "", (double)t->stuck);
	put(&w, "stuck_share", "", share(t->stuck, t->follow_ups));
	put_times(&w, "ttft", &t->ttft);
	put_times(&w, "ttft_first_turn", &t->ttft_first);
	put_times(&w, "ttft_next_turns", &t->ttft_next);
	put_times(&w, "total", &t->total);
	put(&w, "open_loop", "", o->rate > 0 || o->agents != NULL);
	put_times(&w, "late", &t->late);
	put(&w, "think_constant", "", o->think_constant);
	put(&w, "think_mean_s", "", times_mean(&t->think) / 1000);
	put_engines(&w, t);
	fputs(o->json ? "\n}\n" : "", f);
}

/* ---- for people ---- */

static void print_times(FILE *f, const char *what, const struct times *t)
{
	fprintf(f, "  %-18s p50 %8.1f   p90 %8.1f   p99 %8.1f   mean %8.1f ms\n", what, times_at(t, 500),
		times_at(t, 900), times_at(t, 990), times_mean(t));
}

void tally_print(struct tally *t, const struct load_opts *o, FILE *f)
{
	sort_all(t);
	fprintf(f, "%llu requests in %.1f s, %llu failed", (unsigned long long)tally_done(t), t->seconds,
		(unsigned long long)tally_failed(t));
	for (int i = LOAD_OK + 1; i < LOAD_ERRORS; i++)
		if (t->n_error[i])
			fprintf(f, ", %s %llu", load_error_name((enum load_error)i),
				(unsigned long long)t->n_error[i]);
	for (int i = 0; i < 600; i++)
		if (t->n_status[i] && i != 200)
			fprintf(f, ", status %d: %llu", i, (unsigned long long)t->n_status[i]);
	fprintf(f, "\n  cached             %.1f %% of %llu prompt tokens\n",
		100 * share(t->cached, t->prompt), (unsigned long long)t->prompt);
	fprintf(f, "  same engine again  %.1f %% of %llu later turns\n",
		100 * share(t->stuck, t->follow_ups), (unsigned long long)t->follow_ups);
	print_times(f, "first token", &t->ttft);
	print_times(f, "- of first turns", &t->ttft_first);
	print_times(f, "- of later turns", &t->ttft_next);
	print_times(f, "whole answer", &t->total);
	if (o->rate > 0 || o->agents)
		print_times(f, "sent too late by", &t->late);
	if (t->think.n)
		fprintf(f, "  pauses             %.2f s on average, %s\n", times_mean(&t->think) / 1000,
			o->think_constant ? "all alike" : "drawn from an exponential");
	fprintf(f, "  requests          ");
	for (size_t i = 0; i < t->n_engines; i++)
		fprintf(f, " %s %llu", t->engines[i].name, (unsigned long long)t->engines[i].n);
	fprintf(f, "\n");
	if (t->unstarted)
		fprintf(f, "  the time limit left %u conversations unfinished\n", t->unstarted);
}

void tally_fini(struct tally *t)
{
	free(t->ttft.ms);
	free(t->ttft_first.ms);
	free(t->ttft_next.ms);
	free(t->total.ms);
	free(t->late.ms);
	free(t->think.ms);
}

/* doctor_attach - a configuration of HAProxy and, after a NUL byte, any other file that it names:
 * where "--write" gives a diff, a small patch(1) applies it, the result is readable and attached,
 * and the diff of "--remove" gives the input again and deletes the SPOE file. */
#include "agent/base/buf.h"
#include "agent/doctor/attach.h"
#include "tests/fuzz/lib/fuzz.h"

#define CFG	"haproxy.cfg"
#define SPOE	"/folder/kvroute.spoe"

struct disk {
	struct buf cfg, spoe;
	bool has_spoe;
	struct span other;
};

static int open_text(void *arg, const char *path, struct span *text, const char **why)
{
	struct disk *disk = arg;

	if (strcmp(path, SPOE) != 0)
		*text = disk->other;
	else if (disk->has_spoe)
		*text = span_of(disk->spoe.p, disk->spoe.n);
	else
		return -1;
	return 0;
}

/* ---- a small patch(1) ---------------------------------------------------------------------- */

/* Take a line, with its "\n". */
static struct span next_line(struct span *s)
{
	const char *stop = s->n > 0 ? memchr(s->p, '\n', s->n) : NULL;
	struct span l = span_of(s->p, stop != NULL ? (size_t)(stop - s->p) + 1 : s->n);

	s->p += l.n;
	s->n -= l.n;
	return l;
}

static bool begins(struct span s, const char *with)
{
	return s.n >= strlen(with) && memcmp(s.p, with, strlen(with)) == 0;
}

/* Apply the hunks at the start of <diff> to <old>. Every old line must be as the diff says. */
static void apply_hunks(struct span *diff, struct span old, struct buf *to)
{
	unsigned from, n, at = 1;

	while (begins(*diff, "@@ ")) {
		must(sscanf(next_line(diff).p, "@@ -%u,%u", &from, &n) == 2);
		for (; at < from + (n == 0); at++)
			buf_span(to, next_line(&old));
		while (diff->n > 0 && strchr(" +-", diff->p[0]) != NULL && !begins(*diff, "--- ")) {
			struct span l = next_line(diff), text = span_of(l.p + 1, l.n - 1);

			if (begins(*diff, "\\")) {
				next_line(diff);
				text.n--;
			}
			if (l.p[0] != '+') {
				must(span_eq(next_line(&old), text));
				at++;
			}
			if (l.p[0] != '-')
				buf_span(to, text);
		}
	}
	buf_span(to, old);
}

static void apply(struct disk *disk, struct span diff)
{
	struct buf result = { 0 };
	struct span old, new;

	while (diff.n > 0) {
		old = next_line(&diff);
		new = next_line(&diff);
		buf_start(&result, 0);
		if (span_eq(old, SPAN("--- a/haproxy.cfg\n"))) {
			must(span_eq(new, SPAN("+++ b/haproxy.cfg\n")));
			apply_hunks(&diff, span_of(disk->cfg.p, disk->cfg.n), &result);
			buf_start(&disk->cfg, 0);
			buf_add(&disk->cfg, result.p, result.n);
			continue;
		}
		must(span_eq(old, disk->has_spoe ? SPAN("--- a/kvroute.spoe\n") : SPAN("--- /dev/null\n")));
		must(span_eq(new, disk->has_spoe ? SPAN("+++ /dev/null\n") : SPAN("+++ b/kvroute.spoe\n")));
		apply_hunks(&diff, span_of(disk->spoe.p, disk->spoe.n), &result);
		must((result.n == 0) == disk->has_spoe);
		disk->has_spoe = !disk->has_spoe;
		buf_start(&disk->spoe, 0);
		buf_add(&disk->spoe, result.p, result.n);
	}
	buf_free(&result);
}

/* ---- the target ---------------------------------------------------------------------------- */

static struct doctor *examine(struct disk *disk, int version)
{
	static const char *const env[] = { "HOME=/root", "LIST=a b", NULL };
	struct doctor_opts o;
	struct doctor *d;

	doctor_defaults(&o);
	o.version = version;
	o.env = env;
	o.open = open_text;
	o.arg = disk;
	d = must_alloc(doctor_new(&o));
	doctor_file(d, CFG, span_of(disk->cfg.p, disk->cfg.n));
	must(doctor_check(d) == 0);
	return d;
}

/* Change <disk> by a diff. Returns false if there is none. */
static bool change(struct disk *disk, int version, bool attach)
{
	static const struct doctor_attach o = { .spoe = SPOE, .root = "/folder" };
	struct doctor *d = examine(disk, version);
	struct buf diff = { 0 }, said = { 0 };
	int status = attach ? doctor_attach(d, &o, &diff, &said) : doctor_detach(d, &o, &diff, &said);

	must(status == 0 ? diff.n > 0 : diff.n == 0 && said.n > 0);
	if (status == 0)
		apply(disk, span_of(diff.p, diff.n));
	doctor_free(d);
	buf_free(&diff);
	buf_free(&said);
	return status == 0;
}

/* Nothing has changed, so there is nothing to bring up to date. */
static void check_update(struct disk *disk, int version)
{
	static const struct doctor_attach o = { .root = "/folder" };
	struct doctor *d = examine(disk, version);
	struct buf diff = { 0 }, said = { 0 };

	must(doctor_update(d, &o, &diff, &said) == 0 && diff.n == 0);
	doctor_free(d);
	buf_free(&diff);
	buf_free(&said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t n = nul != NULL ? (size_t)(nul - data) : size;
	struct disk disk = { .other = span_of(data + n, 0) };
	int version = DOCTOR_VERSION(2, 6, 0) + (size % 2 > 0) * 600000;
	struct doctor *d;

	if (size > 65536)
		return 0;
	if (nul != NULL)
		disk.other = span_of(nul + 1, size - n - 1);
	buf_add(&disk.cfg, data, n);
	if (change(&disk, version, true)) {
		must(disk.has_spoe && disk.cfg.n > n);
		d = examine(&disk, version);
		must(doctor_status(d) < 2);
		doctor_free(d);
		must(!change(&disk, version, true));
		check_update(&disk, version);
		must(change(&disk, version, false));
		must(!disk.has_spoe);
		must(span_eq(span_of(disk.cfg.p, disk.cfg.n), span_of(data, n)));
	}
	buf_free(&disk.cfg);
	buf_free(&disk.spoe);
	return 0;
}

/* doctor - a configuration of HAProxy and, after a NUL byte, the SPOE file that it names: a second
 * run finds the same; every finding has a file, a sentence and a remedy. */
#include "agent/doctor/doctor.h"
#include "tests/fuzz/lib/fuzz.h"

static int open_text(void *arg, const char *path, struct span *text, const char **why)
{
	*text = *(struct span *)arg;
	return 0;
}

static void examine(struct span cfg, struct span spoe, int version, struct buf *to)
{
	static const char *const env[] = { "HOME=/root", "LIST=a b", NULL };
	struct doctor_opts o;
	struct doctor *d;

	doctor_defaults(&o);
	o.version = version;
	o.env = env;
	o.open = open_text;
	o.arg = &spoe;
	d = must_alloc(doctor_new(&o));
	doctor_file(d, "haproxy.cfg", cfg);
	must(doctor_check(d) == 0);
	doctor_print(d, to);
	must(!to->failed);
	must(doctor_status(d) >= 0 && doctor_status(d) <= 2);
	must(to->n > 0 || doctor_status(d) == 0);
	doctor_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t n = nul != NULL ? (size_t)(nul - data) : size;
	struct span cfg = span_of(data, n), spoe = span_of(data + n, 0);
	struct buf a = { 0 }, b = { 0 };
	int version = DOCTOR_VERSION(2, 6, 0) + (size % 2 > 0) * 600000;

	if (size > 65536)
		return 0;
	if (nul != NULL)
		spoe = span_of(nul + 1, size - n - 1);
	examine(cfg, spoe, version, &a);
	examine(cfg, spoe, version, &b);
	must(span_eq(span_of(a.p, a.n), span_of(b.p, b.n)));
	buf_free(&a);
	buf_free(&b);
	return 0;
}

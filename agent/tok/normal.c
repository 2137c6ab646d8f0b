/* Steps over whole texts, each from one buffer into the other; a step that changes nothing copies nothing.
 *
 * Normal forms go by the book (Unicode 15, 3.11): every character taken apart to its end, marks put in order of their class, and for
 * the composed forms put together again. Before that a quick check: text in which no character may change in this form,
 * nor is a mark, is left alone; that is nearly all text, and costs two loads a character. */
#include "agent/tok/normal.h"

#include "agent/base/mem.h"
#include "agent/tok/unicode.h"

struct normal {
	struct normal_step *step;
	size_t n;
	char *strings;
};

/* ---- building ------------------------------------------------------------------------------------------ */

static struct span keep(char **at, struct span s)
{
	char *p = *at;

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	*at += s.n;
	return span_of(p, s.n);
}

struct normal *normal_new(const struct normal_step *steps, size_t n, struct err *e)
{
	struct normal *m = mem_alloc(sizeof(*m));
	size_t bytes = 1;
	char *at;

	for (size_t i = 0; i < n; i++) {
		bytes += steps[i].pattern.n + steps[i].content.n;
		if (steps[i].regex || (steps[i].kind == NORMAL_REPLACE && steps[i].pattern.n == 0)) {
			err_set(e, "step %zu of the normalizer, Replace: only a String that is not empty is understood", i + 1);
			mem_free(m);
			return NULL;
		}
	}
	if (m == NULL || (m->step = mem_calloc(n + 1, sizeof(*steps))) == NULL || (m->strings = mem_alloc(bytes)) == NULL) {
		err_set(e, "not enough memory");
		normal_free(m);
		return NULL;
	}
	at = m->strings;
	for (size_t i = 0; i < n; i++) {
		m->step[i] = steps[i];
		m->step[i].pattern = keep(&at, steps[i].pattern);
		m->step[i].content = keep(&at, steps[i].content);
	}
	m->n = n;
	return m;
}

void normal_free(struct normal *m)
{
	if (m == NULL)
		return;
	mem_free(m->step);
	mem_free(m->strings);
	mem_free(m);
}

bool normal_first_differs(const struct normal *m)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->step[i].kind == NORMAL_PREPEND || m->step[i].kind == NORMAL_STRIP)
			return true;
	}
	return false;
}

void normal_buf_fini(struct normal_buf *b)
{
	for (int i = 0; i < 2; i++) {
		if (b->p[i] != NULL)
			mem_wipe(b->p[i], b->cap[i]);
		mem_free(b->p[i]);
	}
	*b = (struct normal_buf){ .cap = { 0, 0 } };
}

/* ---- room that grows ------------------------------------------------------------------------------------- */

struct out {
	uint8_t **p;
	size_t *cap, n;
	bool failed;
};

static bool room(struct out *o, size_t more)
{
	size_t cap = *o->cap;
	uint8_t *q;

	if (o->failed || cap - o->n >= more)
		return !o->failed;
	cap = (cap + more) * 2;
	if ((q = mem_alloc(cap)) == NULL) {
		o->failed = true;
		return false;
	}
	if (o->n > 0)
		memcpy(q, *o->p, o->n);
	if (*o->p != NULL)
		mem_wipe(*o->p, *o->cap);
	mem_free(*o->p);
	*o->p = q;
	*o->cap = cap;
	return true;
}

static void put(struct out *o, const void *p, size_t n)
{
	if (n > 0 && room(o, n)) {
		memcpy(*o->p + o->n, p, n);
		o->n += n;
	}
}

static void put_char(struct out *o, uint32_t cp)
{
	if (room(o, 4))
		o->n += utf8_put(*o->p + o->n, cp);
}

/* ---- normal forms ------------------------------------------------------------------------------------------- */

#define RUN_MAX	1024u

/* A starter and the marks behind it, taken apart. More than RUN_MAX of them are no text: they go out as they are. */
struct run {
	uint32_t cp[RUN_MAX];
	uint8_t ccc[RUN_MAX];
	size_t n;
};

static void sort(struct run *r)
{
	for (size_t i = 1; i < r->n; i++) {
		uint32_t cp = r->cp[i];
		uint8_t ccc = r->ccc[i];
		size_t k = i;

		for (; ccc != 0 && k > 0 && r->ccc[k - 1] > ccc; k--) {
			r->cp[k] = r->cp[k - 1];
			r->ccc[k] = r->ccc[k - 1];
		}
		r->cp[k] = cp;
		r->ccc[k] = ccc;
	}
}

static void compose(struct run *r)
{
	size_t starter = 0, n = 1;
	uint32_t both;

	if (r->n == 0)
		return;
	for (size_t i = 1; i < r->n; i++) {
		bool blocked = n > starter + 1 && (r->ccc[n - 1] == 0 || r->ccc[n - 1] >= r->ccc[i]);

		both = !blocked && r->ccc[starter] == 0 ? uc_compose(r->cp[starter], r->cp[i]) : 0;
		if (both != 0) {
			r->cp[starter] = both;
			continue;
		}
		if (r->ccc[i] == 0)
			starter = n;
		r->cp[n] = r->cp[i];
		r->ccc[n++] = r->ccc[i];
	}
	r->n = n;
}

static void flush(struct run *r, bool composed, struct out *o)
{
	sort(r);
	if (composed)
		compose(r);
	for (size_t i = 0; i < r->n; i++)
		put_char(o, r->cp[i]);
	r->n = 0;
}

static void form(struct span in, bool compat, bool composed, struct out *o)
{
	const uint8_t *p = (const uint8_t *)in.p;
	struct run r = { .n = 0 };
	uint32_t cp, hangul[3];
	uint8_t bit = compat ? (composed ? UC_NFKC : UC_NFKD) : composed ? UC_NFC : UC_NFD;

	for (size_t i = 0; i < in.n; ) {
		const uint32_t *parts;
		struct uc_kind k;
		size_t n;

		i += utf8_get(p + i, in.n - i, &cp);
		k = uc_kind(cp);
		if ((k.ccc == 0 && !(k.bits & bit)) || r.n + 32 > RUN_MAX)	/* it neither changes nor joins what is before it */
			flush(&r, composed, o);
		parts = uc_decompose(cp, compat, hangul, &n);
		if (n == 0)
			parts = &cp, n = 1;
		for (size_t j = 0; j < n; j++, r.n++) {
			r.cp[r.n] = parts[j];
			r.ccc[r.n] = uc_kind(parts[j]).ccc;
		}
	}
	flush(&r, composed, o);
}

static bool changes(struct span in, uint8_t bit)
{
	const uint8_t *p = (const uint8_t *)in.p;
	uint32_t cp;

	for (size_t i = 0; i < in.n; ) {
		struct uc_kind k;

		if (p[i] < 0x80) {
			i++;
			continue;
		}
		i += utf8_get(p + i, in.n - i, &cp);
		k = uc_kind(cp);
		if (k.ccc != 0 || (k.bits & bit))
			return true;
	}
	return false;
}

/* ---- the other steps -------------------------------------------------------------------------------------------- */

static void replace(const struct normal_step *s, struct span in, struct out *o)
{
	const char *p = in.p, *end = in.p + in.n, *hit;

	while ((hit = memmem(p, (size_t)(end - p), s->pattern.p, s->pattern.n)) != NULL) {
		put(o, p, (size_t)(hit - p));
		put(o, s->content.p, s->content.n);
		p = hit + s->pattern.n;
	}
	put(o, p, (size_t)(end - p));
}

static void each_char(const struct normal_step *s, struct span in, struct out *o)
{
	const uint8_t *p = (const uint8_t *)in.p;
	uint32_t cp;

	for (size_t i = 0; i < in.n; ) {
		i += utf8_get(p + i, in.n - i, &cp);
		if (s->kind == NORMAL_STRIP_ACCENTS) {
			if (!(uc_kind(cp).bits & UC_ACCENT))
				put_char(o, cp);
			continue;
		}
		put_char(o, cp == 0x130 ? 'i' : uc_lower(cp));
		if (cp == 0x130)
			put_char(o, 0x307);
	}
}

static struct span strip(const struct normal_step *s, struct span in)
{
	const uint8_t *p = (const uint8_t *)in.p;
	size_t from = 0, to = in.n, k;
	uint32_t cp;

	while (s->strip_left && from < to && (k = utf8_get(p + from, to - from, &cp), uc_class(cp) & UC_SPACE))
		from += k;
	while (s->strip_right && to > from) {
		for (k = 1; k < to - from && (p[to - k] & 0xc0) == 0x80; )
			k++;
		utf8_get(p + to - k, k, &cp);
		if (!(uc_class(cp) & UC_SPACE))
			break;
		to -= k;
	}
	return span_of(in.p + from, to - from);
}

/* Nothing to do is said by false. */
static bool run_step(const struct normal_step *s, struct span in, struct out *o)
{
	switch (s->kind) {
	case NORMAL_NFC: return changes(in, UC_NFC) ? form(in, false, true, o), true : false;
	case NORMAL_NFD: return changes(in, UC_NFD) ? form(in, false, false, o), true : false;
	case NORMAL_NFKC: return changes(in, UC_NFKC) ? form(in, true, true, o), true : false;
	case NORMAL_NFKD: return changes(in, UC_NFKD) ? form(in, true, false, o), true : false;
	case NORMAL_LOWERCASE: case NORMAL_STRIP_ACCENTS: each_char(s, in, o); return true;
	case NORMAL_PREPEND:
		put(o, s->content.p, s->content.n);
		put(o, in.p, in.n);
		return true;
	case NORMAL_REPLACE:
		if (memmem(in.p, in.n, s->pattern.p, s->pattern.n) == NULL)
			return false;
		replace(s, in, o);
		return true;
	case NORMAL_STRIP: case NORMAL_BYTE_LEVEL: break;
	}
	return false;
}

void normal_run(const struct normal *m, struct normal_buf *b, struct span in, struct span *out)
{
	int to = 0;

	*out = in.p != NULL ? in : SPAN("");
	for (size_t i = 0; i < m->n && out->n > 0; i++) {
		struct out o = { .p = &b->p[to], .cap = &b->cap[to] };

		if (m->step[i].kind == NORMAL_STRIP) {
			*out = strip(&m->step[i], *out);
			continue;
		}
		if (!run_step(&m->step[i], *out, &o))
			continue;
		if (o.failed) {
			*out = (struct span){ NULL, 0 };
			return;
		}
		*out = o.n > 0 ? span_of(b->p[to], o.n) : SPAN("");
		to ^= 1;
	}
}

/* From the last character on that nothing behind it can change. */
size_t normal_tail(const struct normal *m, const uint8_t *p, size_t n)
{
	size_t tail = 0, from;
	struct uc_kind k;
	uint32_t cp;

	for (size_t i = 0; i < m->n; i++) {
		if (m->step[i].kind == NORMAL_REPLACE && m->step[i].pattern.n - 1 > tail)
			tail = m->step[i].pattern.n - 1;
		if (m->step[i].kind == NORMAL_STRIP)
			return n;
		if (m->step[i].kind > NORMAL_NFKD)
			continue;
		for (from = n; from > 0; ) {
			for (from--; from > 0 && (p[from] & 0xc0) == 0x80; )
				from--;
			utf8_get(p + from, n - from, &cp);
			k = uc_kind(cp);
			if (k.ccc == 0 && k.bits == 0)
				break;
		}
		tail = n - from > tail ? n - from : tail;
	}
	return tail < n ? tail : n;
}

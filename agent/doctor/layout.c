/* layout.c - where lines may be added to a section.
 *
 * Lines that are not active on this machine count as well: the file stays right for another version
 * or environment. A section that begins within an .if ends where that branch ends. */
#include "agent/doctor/attach_in.h"

static bool is_word(struct span word, const char *const *list)
{
	for (; *list != NULL; list++) {
		if (span_eq(word, span_str(*list)))
			return true;
	}
	return false;
}

static bool opens_if(struct span word)
{
	static const char *const words[] = { ".if", ".elif", ".else", NULL };

	return is_word(word, words);
}

static struct span first_word(struct span text)
{
	size_t from = 0, n = 0;

	while (from < text.n && (text.p[from] == ' ' || text.p[from] == '\t' || text.p[from] == '\r'))
		from++;
	while (from + n < text.n && text.p[from + n] != ' ' && text.p[from + n] != '\t' &&
	    text.p[from + n] != '\r' && text.p[from + n] != '#')
		n++;
	return span_of(text.p + from, n);
}

int dr_raw_read(struct span text, dr_raws *to)
{
	const char *p = text.n > 0 ? text.p : "", *end = p + text.n, *stop;
	unsigned depth = 0;

	for (; p < end; p = stop + 1) {
		struct dr_raw r;

		if ((stop = memchr(p, '\n', (size_t)(end - p))) == NULL)
			stop = end;
		r.text = span_of(p, (size_t)(stop - p));
		r.word = first_word(r.text);
		if (depth > 0 && (span_eq(r.word, SPAN(".endif")) ||
		    (opens_if(r.word) && !span_eq(r.word, SPAN(".if")))))
			depth--;
		r.depth = depth;
		depth += opens_if(r.word);
		if (vec_push(to, r) < 0)
			return -1;
	}
	return 0;
}

/* Return the depth of a line that is added after line <no>. */
static unsigned depth_after(const dr_raws *raws, unsigned no)
{
	const struct dr_raw *r;

	if (no == 0)
		return 0;
	r = &raws->p[no - 1];
	return r->depth + opens_if(r->word);
}

struct dr_extent dr_extent_of(const dr_raws *raws, const struct dr_line *opening)
{
	struct dr_extent e = {
		.first = opening->no + 1, .last = opening->no, .depth = depth_after(raws, opening->no),
	};

	for (; e.last < raws->n; e.last++) {
		const struct dr_raw *r = &raws->p[e.last];

		if (r->depth < e.depth || dr_opens_section(r->word))
			break;
	}
	return e;
}

/* Return the first line from <no> on after which the depth is that of the section again. */
static unsigned leave_if(const dr_raws *raws, struct dr_extent e, unsigned no)
{
	while (no < e.last && depth_after(raws, no) > e.depth)
		no++;
	return no;
}

unsigned dr_section_end(const dr_raws *raws, struct dr_extent e)
{
	unsigned no = e.last;

	while (no >= e.first && raws->p[no - 1].word.n == 0)
		no--;
	while (no >= e.first && depth_after(raws, no) > e.depth)
		no--;
	return no;
}

unsigned dr_last_with(const dr_raws *raws, struct dr_extent e, const char *word)
{
	unsigned last = 0;

	for (unsigned no = e.first; no <= e.last; no++) {
		if (raws->p[no - 1].depth == e.depth && span_eq(raws->p[no - 1].word, span_str(word)))
			last = no;
	}
	return last;
}

unsigned dr_rules_end(const dr_raws *raws, struct dr_extent e)
{
	static const char *const rules[] = { "http-request", "tcp-request", NULL };
	static const char *const after[] = { "redirect", "use_backend", "default_backend", "use-server",
		"server", "server-template", "default-server", NULL };
	unsigned last = 0, before = 0;

	for (unsigned no = e.first; no <= e.last; no++) {
		if (is_word(raws->p[no - 1].word, rules))
			last = no;
		if (before == 0 && is_word(raws->p[no - 1].word, after))
			before = no;
	}
	if (last > 0)
		return leave_if(raws, e, last);
	if (before == 0)
		return dr_section_end(raws, e);
	while (before > e.first && depth_after(raws, before - 1) > e.depth)
		before--;
	return before - 1;
}

bool dr_marked(struct span line)
{
	static const char mark[] = DOCTOR_MARK;
	size_t n = sizeof(mark) - 1;

	return line.n >= n && memcmp(line.p + line.n - n, mark, n) == 0 &&
	    (line.n == n || line.p[line.n - n - 1] == ' ');
}

/* rules_paths.c - conditions by path, files of patterns and maps that never match.
 *
 * A condition is evaluated for a path of each API. A term that is not by path may hold or not, and
 * so may one behind a rule that rewrites paths. If no path can satisfy the condition, the line has
 * no effect, and HAProxy does not say so. */
#include "agent/doctor/doctor_in.h"

#define ENTRIES_MOST	20000u	/* of a file; a longer one is not read */

enum maybe { NO, MAYBE, YES };

/* The agent knows an API by the end of its path; the last one is of a stored response. */
static const char *const api_paths[] = {
	"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/messages",
	"/generate", "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent",
	"/v1/responses/resp_1",
};

#define N_PATHS	(sizeof(api_paths) / sizeof(api_paths[0]))

/* ---- patterns ------------------------------------------------------------------------------ */

enum way_of { WAY_EXACT, WAY_BEGIN, WAY_END, WAY_PART, WAY_DIR, WAY_UNKNOWN };

struct matcher {
	enum way_of way;
	bool fold;		/* -i */
};

static bool has_part(const char *path, struct span p, bool fold)
{
	size_t n = strlen(path);

	for (size_t i = 0; i + p.n <= n; i++) {
		if (fold ? strncasecmp(path + i, p.p, p.n) == 0 : strncmp(path + i, p.p, p.n) == 0)
			return true;
	}
	return false;
}

/* Tell if components of the path are <p>, which may have slashes around it. */
static bool has_dir(const char *path, struct span p)
{
	while (p.n > 0 && p.p[0] == '/')
		p = span_of(p.p + 1, p.n - 1);
	while (p.n > 0 && p.p[p.n - 1] == '/')
		p.n--;
	for (const char *s = path; (s = strchr(s, '/')) != NULL; s++) {
		if (strncmp(s + 1, p.p, p.n) == 0 && (s[1 + p.n] == '/' || s[1 + p.n] == '\0'))
			return true;
	}
	return false;
}

static bool same_bytes(const char *a, struct span p, bool fold)
{
	return fold ? strncasecmp(a, p.p, p.n) == 0 : strncmp(a, p.p, p.n) == 0;
}

/* Tell if a pattern matches <path>, or <path> below a prefix that the pattern names: an API may be
 * mounted there, and a proxy may remove it again. */
static bool pattern_matches(const struct matcher *m, struct span p, const char *path)
{
	size_t n = strlen(path);

	if (p.n == 0)
		return false;
	switch (m->way) {
	case WAY_EXACT:
		return p.n >= n && p.p[0] == '/' && same_bytes(path, span_of(p.p + p.n - n, n), m->fold);
	case WAY_BEGIN:
		if (p.n <= n && same_bytes(path, p, m->fold))
			return true;
		return p.p[0] == '/' && !dr_starts(p.p, "/v1") && !dr_starts(p.p, "/generate");
	case WAY_END:
		return p.n <= n && same_bytes(path + n - p.n, p, m->fold);
	case WAY_PART:
		return has_part(path, p, m->fold) || p.p[0] == '/';
	case WAY_DIR:
		return has_dir(path, p);
	default:
		return true;
	}
}

/* ---- files --------------------------------------------------------------------------------- */

/* Take the next entry of a file: a line without blanks around it. Returns false at the end. */
static bool next_entry(struct span *text, struct span *entry)
{
	while (text->n > 0) {
		const char *stop = memchr(text->p, '\n', text->n);
		size_t n = stop != NULL ? (size_t)(stop - text->p) : text->n, from = 0;

		*entry = span_of(text->p, n);
		*text = span_of(text->p + n + (stop != NULL), text->n - n - (stop != NULL));
		while (from < entry->n && (entry->p[from] == ' ' || entry->p[from] == '\t'))
			from++;
		*entry = span_of(entry->p + from, entry->n - from);
		while (entry->n > 0 && strchr(" \t\r", entry->p[entry->n - 1]) != NULL)
			entry->n--;
		if (entry->n > 0 && entry->p[0] != '#')
			return true;
	}
	return false;
}

/* Read a file of patterns or a map. Returns false if it is no file, or cannot be read: then that is
 * said at <at>. */
static bool read_file(struct doctor *d, const struct dr_line *at, const char *path,
		      struct span *text)
{
	const char *why = "no file can be opened";
	struct span rest, entry;

	if (dr_starts(path, "opt@") || dr_starts(path, "virt@") || d->o.open == NULL)
		return false;
	if (dr_starts(path, "file@"))
		path += 5;
	if (d->o.open(d->o.arg, path, text, &why) < 0) {
		dr_say(d, DR_FILE_MISSING, at, path, "%s; correct the path, or create the file", why);
		return false;
	}
	rest = *text;
	if (!next_entry(&rest, &entry))
		dr_say(d, DR_FILE_EMPTY, at, path, "write its entries, one a line, or delete the line that "
		    "names it");
	return true;
}

/* Tell if an entry of the file matches <path>. */
static enum maybe file_matches(struct doctor *d, const struct dr_line *at,
			       const struct matcher *m, const char *file, const char *path)
{
	struct span text, entry;
	unsigned n = 0;

	if (!read_file(d, at, file, &text))
		return MAYBE;
	while (next_entry(&text, &entry)) {
		if (++n > ENTRIES_MOST)
			return MAYBE;
		if (pattern_matches(m, entry, path))
			return YES;
	}
	return NO;
}

/* ---- terms --------------------------------------------------------------------------------- */

/* Return how "path_beg" or "path -m beg" matches; false if the fetch is not the path. */
static bool matcher_of(const char *fetch, struct matcher *m)
{
	static const struct {
		const char *fetch;
		enum way_of way;
	} ways[] = {
		{ "path", WAY_EXACT }, { "path_beg", WAY_BEGIN }, { "path_end", WAY_END },
		{ "path_sub", WAY_PART }, { "path_dir", WAY_DIR },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (dr_is(fetch, ways[i].fetch)) {
			*m = (struct matcher){ ways[i].way, false };
			return true;
		}
	}
	return false;
}

static enum way_of way_named(const char *word)
{
	static const char *const names[] = { "str", "beg", "end", "sub", "dir" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (dr_is(word, names[i]))
			return (enum way_of)i;
	}
	return WAY_UNKNOWN;
}

/* Evaluate "path_beg -i /a /b", the words <from> to <to> of a line. */
static enum maybe eval_words(struct doctor *d, const struct dr_line *l, unsigned from, unsigned to,
			     const char *path)
{
	struct matcher m;
	enum maybe got = NO, one;

	if (from >= to || !matcher_of(l->w[from], &m))
		return MAYBE;
	for (unsigned i = from + 1; i < to && got != YES; i++) {
		const char *w = l->w[i];

		if (dr_is(w, "-i")) {
			m.fold = true;
		} else if (dr_is(w, "-m") && i + 1 < to) {
			m.way = way_named(l->w[++i]);
		} else if (dr_is(w, "-f") && i + 1 < to) {
			one = file_matches(d, l, &m, l->w[++i], path);
			got = one > got ? one : got;
		} else if (w[0] == '-') {
			return MAYBE;
		} else if (m.way == WAY_UNKNOWN || pattern_matches(&m, span_str(w), path)) {
			got = m.way == WAY_UNKNOWN ? MAYBE : YES;
		}
	}
	return got;
}

/* Evaluate all lines "acl NAME" of the section and its defaults. */
static enum maybe eval_acl(struct doctor *d, const struct dr_section *s, const char *name,
			   const char *path)
{
	enum maybe got = NO, one;
	dr_lines acls = { 0 };
	bool found = false;

	dr_collect(d, s, "acl", &acls);
	for (size_t i = 0; i < acls.n; i++) {
		if (!dr_is(acls.p[i].w[1], name))
			continue;
		found = true;
		one = eval_words(d, &acls.p[i], 2, acls.p[i].n, path);
		got = one > got ? one : got;
	}
	vec_free(&acls);
	return found ? got : MAYBE;	/* METH_POST and other names that HAProxy defines */
}

/* Evaluate the term at <*i>, and advance to the next. */
static enum maybe eval_term(struct doctor *d, const struct dr_section *s, const struct dr_line *l,
			    unsigned *i, const char *path)
{
	bool not = l->w[*i][0] == '!';
	const char *w = l->w[*i] + not;
	unsigned from;
	enum maybe got;

	if (not && *w == '\0' && *i + 1 < l->n)
		w = l->w[++*i];
	if (dr_is(w, "{")) {
		for (from = ++*i; *i < l->n && !dr_is(l->w[*i], "}");)
			++*i;
		got = eval_words(d, l, from, *i, path);
	} else {
		got = eval_acl(d, s, w, path);
	}
	++*i;
	return not ? (enum maybe)(YES - got) : got;
}

/* Tell if the condition after "if" can hold for <path>. */
static bool may_hold(struct doctor *d, const struct dr_section *s, const struct dr_line *l,
		     unsigned from, const char *path)
{
	bool branch = true;

	for (unsigned i = from; i < l->n;) {
		if (dr_is(l->w[i], "or") || dr_is(l->w[i], "||")) {
			if (branch)
				return true;
			branch = true;
			i++;
		} else {
			branch &= eval_term(d, s, l, &i, path) != NO;
		}
	}
	return branch;
}

/* ---- lines --------------------------------------------------------------------------------- */

static bool rewrites(const struct doctor *d, const struct dr_section *s)
{
	static const char *const words[] = { "set-path", "replace-path", "set-uri", "replace-uri",
		"set-pathq", "replace-pathq", "normalize-uri" };
	dr_lines rules = { 0 };
	bool some = false;

	dr_collect(d, s, "http-request", &rules);
	for (size_t i = 0; i < rules.n; i++)
		for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
			some |= dr_starts(rules.p[i].w[1], words[k]);
	vec_free(&rules);
	return some;
}

static bool is_judged(const struct dr_line *l)
{
	return l->n > 3 && dr_is(l->w[0], "http-request") &&
	    (dr_is(l->w[1], "set-var(txn.api)") || dr_is(l->w[1], "wait-for-body") ||
	    dr_is(l->w[1], "send-spoe-group"));
}

static void check_line(struct doctor *d, const struct dr_section *s, const struct dr_line *l)
{
	unsigned from = dr_word(l, "if", 2);
	bool holds = false;

	for (size_t i = 0; from > 0 && !holds && i < N_PATHS; i++)
		holds = may_hold(d, s, l, from + 1, api_paths[i]);
	if (from > 0 && !holds)
		dr_say(d, DR_PATH_NEVER, l, dr_join(d, l, from), "correct the path, as path_beg "
		    "/v1/chat/completions /v1/completions /v1/messages; a path begins with \"/\"");
}

static void check_conditions(struct doctor *d, const struct dr_section *s)
{
	for (size_t i = 0; i < s->lines.n; i++) {
		if (is_judged(&s->lines.p[i]))
			check_line(d, s, &s->lines.p[i]);
	}
}

/* ---- maps ---------------------------------------------------------------------------------- */

/* Return the arguments of the first converter "map...(FILE[,DEFAULT])" of <word>; empty: none. */
static struct span map_args(const char *word)
{
	const char *at = strstr(word, ",map"), *open = at != NULL ? strchr(at, '(') : NULL;

	return open != NULL ? span_of(open + 1, strcspn(open + 1, ")")) : SPAN("");
}

/* Tell if a value of the map names no backend. */
static void check_values(struct doctor *d, const struct dr_line *l, struct span text)
{
	struct span entry;
	unsigned n = 0;

	while (next_entry(&text, &entry) && ++n <= ENTRIES_MOST) {
		size_t i = 0;
		const char *name;

		while (i < entry.n && entry.p[i] != ' ' && entry.p[i] != '\t')
			i++;
		while (i < entry.n && (entry.p[i] == ' ' || entry.p[i] == '\t'))
			i++;
		if (i == entry.n)
			continue;
		name = dr_text(&d->mem, entry.p + i, entry.n - i);
		if (dr_named(d, DR_BACKS, name) == NULL)
			dr_say(d, DR_MAP_UNKNOWN, l, name, "write the name of a backend into the map, or add the "
			    "backend");
	}
}

static void check_map(struct doctor *d, const struct dr_line *l, const char *word)
{
	struct span args = map_args(word), text;
	const char *comma, *path;

	if (args.n == 0)
		return;
	comma = memchr(args.p, ',', args.n);
	path = dr_text(&d->mem, args.p, comma != NULL ? (size_t)(comma - args.p) : args.n);
	if (read_file(d, l, path, &text) && dr_is(l->w[0], "use_backend") && word[strlen(word) - 1] == ']')
		check_values(d, l, text);
}

static void check_maps(struct doctor *d, const struct dr_section *s)
{
	for (size_t i = 0; i < s->lines.n; i++) {
		const struct dr_line *l = &s->lines.p[i];

		for (unsigned k = 1; k < l->n; k++) {
			if (dr_has(l->w[k], ",map"))
				check_map(d, l, l->w[k]);
		}
	}
}

static void check_section(struct doctor *d, const struct dr_section *s, bool rewritten)
{
	if (!rewritten)
		check_conditions(d, s);
	check_maps(d, s);
}

void dr_check_paths(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	bool rewritten = rewrites(d, s);

	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *f = &d->sections.p[i];

		if (f == s || !dr_leads(d, f, s))
			continue;
		rewritten |= rewrites(d, f);
		check_section(d, f, rewrites(d, f));
	}
	check_section(d, s, rewritten);
}

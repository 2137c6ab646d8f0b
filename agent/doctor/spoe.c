/* spoe.c - the part of a SPOE file that belongs to one engine: its agent, messages and groups.
 * Lines before the first "[engine]" belong to a filter that names no engine, and to no other, as in
 * HAProxy. */
#include "agent/base/mem.h"
#include "agent/doctor/doctor_in.h"

struct spoe_reader {
	struct spoe *s;
	const char *engine;
	bool inside;
	dr_lines *lines;	/* of the open part; NULL: none */
};

static void take_scope(struct doctor *d, struct spoe_reader *r, const struct dr_line *l)
{
	const char *name = l->w[0] + 1, *end = strchr(name, ']');
	size_t n = end != NULL ? (size_t)(end - name) : strlen(name);

	if (l->n > 1 || end == NULL || end[1] != '\0')
		dr_say(d, DR_UNREADABLE, l, dr_join(d, l, 0), "write [NAME] alone on the line");
	r->inside = n == strlen(r->engine) && strncmp(name, r->engine, n) == 0;
	r->lines = NULL;
	if (r->inside)
		r->s->scope = *l;
}

/* Return the parts that the word <opening> begins one of, or NULL. */
static spoe_parts *parts_of(struct spoe *s, const char *opening)
{
	return dr_is(opening, "spoe-agent") ? &s->agents :
	    dr_is(opening, "spoe-message") ? &s->messages :
	    dr_is(opening, "spoe-group") ? &s->groups : NULL;
}

static void open_part(
    struct doctor *d, struct spoe_reader *r, spoe_parts *parts, const struct dr_line *l)
{
	if (vec_push(parts, (struct spoe_part){ .at = *l, .name = l->w[1] }) < 0)
		d->mem.nomem = true;
	else
		r->lines = &parts->p[parts->n - 1].lines;
}

static void put_spoe(struct doctor *d, void *arg, const struct dr_line *l)
{
	struct spoe_reader *r = arg;
	spoe_parts *parts = parts_of(r->s, l->w[0]);

	if (l->w[0][0] == '[')
		take_scope(d, r, l);
	else if (!r->inside)
		return;
	else if (parts != NULL)
		open_part(d, r, parts, l);
	else if (r->lines == NULL)
		dr_say(d, DR_UNREADABLE, l, l->w[0],
		    "write it below a line spoe-agent, spoe-message or spoe-group");
	else if (vec_push(r->lines, *l) < 0)
		d->mem.nomem = true;
}

void dr_spoe_read(struct doctor *d, struct spoe *s, const char *path, struct span text,
		  const char *engine)
{
	struct spoe_reader r = { .s = s, .engine = engine, .inside = engine[0] == '\0' };

	s->path = path;
	dr_read_lines(d, path, text, put_spoe, &r);
	if (engine[0] == '\0' && s->agents.n > 0)
		s->scope = s->agents.p[0].at;
}

static void free_parts(spoe_parts *parts)
{
	for (size_t i = 0; i < parts->n; i++)
		vec_free(&parts->p[i].lines);
	vec_free(parts);
}

void dr_spoe_free(struct spoe *s)
{
	free_parts(&s->agents);
	free_parts(&s->messages);
	free_parts(&s->groups);
}

const struct spoe_part *dr_spoe_message(const struct spoe *s, const char *name)
{
	for (size_t i = 0; i < s->messages.n; i++) {
		if (dr_is(s->messages.p[i].name, name))
			return &s->messages.p[i];
	}
	return NULL;
}

const char *dr_spoe_arg(const struct spoe_part *m, const char *name, const struct dr_line **at)
{
	for (size_t i = 0; m != NULL && i < m->lines.n; i++) {
		const struct dr_line *l = &m->lines.p[i];

		for (unsigned k = 1; dr_is(l->w[0], "args") && k < l->n; k++) {
			if (!dr_starts(l->w[k], name))
				continue;
			*at = l;
			return l->w[k] + strlen(name);
		}
	}
	if (m != NULL)
		*at = &m->at;
	return NULL;
}

const struct dr_line *dr_part_line(const struct spoe_part *p, const char *w0, const char *w1)
{
	for (size_t i = p != NULL ? p->lines.n : 0; i-- > 0;) {
		const struct dr_line *l = &p->lines.p[i];

		if (dr_is(l->w[0], w0) && (w1 == NULL || (l->n > 1 && dr_is(l->w[1], w1))))
			return l;
	}
	return NULL;
}

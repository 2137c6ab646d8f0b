/* print.c - the effective values as a file that loads again to the same values. */
#include <stdio.h>

#include "agent/conf/value.h"
#include "agent/loop/share.h"

struct printer {
	void (*put)(void *arg, const char *text, size_t n);
	void *arg;
	const struct conf *defaults;
};

static void print_text(const struct printer *p, const char *text)
{
	p->put(p->arg, text, strlen(text));
}

/* Print <text> as comment lines. */
static void put_comment(const struct printer *p, const char *indent, const char *text)
{
	size_t n;

	for (;; text += n + 1) {
		n = strcspn(text, "\n");
		print_text(p, indent);
		print_text(p, "# ");
		p->put(p->arg, text, n);
		print_text(p, "\n");
		if (text[n] == '\0')
			return;
	}
}

/* Print the help, then "# size, 256 to 16 MiB; a change needs a restart; default 1 MiB". */
static void put_help(const struct printer *p, const char *indent, const struct conf_key *k)
{
	char range[CONF_ALLOWED_MAX], def[CONF_VALUE_MAX];

	conf_value_range(k, range, sizeof(range));
	put_comment(p, indent, k->help);
	print_text(p, indent);
	print_text(p, "# ");
	print_text(p, conf_type_name(k->type));
	print_text(p, ", ");
	print_text(p, range);
	print_text(p, k->reload ? "" : "; a change needs a restart");
	if (k->home != HOME_POOL && k->home != HOME_ENGINE) {
		conf_value_text(k, conf_key_home(k, p->defaults), def, sizeof(def));
		print_text(p, strlen(def) > 40 ? "\n  # default " : "; default ");
		print_text(p, def);
	}
	print_text(p, "\n");
}

static void put_key(const struct printer *p, const char *indent, const struct conf_key *k,
		    const void *rec)
{
	char value[CONF_VALUE_MAX];

	conf_value_text(k, rec, value, sizeof(value));
	print_text(p, indent);
	print_text(p, conf_key_word(k));
	print_text(p, ": ");
	print_text(p, value);
	print_text(p, "\n");
}

static void put_keys(const struct printer *p, const struct conf_section *s, const void *rec)
{
	const char *indent = s != NULL ? "  " : "";

	for (size_t i = 0; i < conf_n_keys; i++)
		if (conf_key_in(&conf_keys[i], s)) {
			print_text(p, s == NULL ? "\n" : "");
			put_help(p, indent, &conf_keys[i]);
			put_key(p, indent, &conf_keys[i], rec);
		}
}

/* Print "  - name: ..." and the other keys of one entry. The keys of a group stand together in the
 * table. */
static void put_entry(const struct printer *p, const struct conf_section *s, const void *rec)
{
	int name = conf_key_find(s, SPAN(""), SPAN("name"));
	struct span group = SPAN("");

	put_key(p, "  - ", &conf_keys[name], rec);
	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (!conf_key_in(k, s) || (int)i == name)
			continue;
		if (!span_eq(conf_key_group(k), group)) {
			group = conf_key_group(k);
			print_text(p, "    ");
			p->put(p->arg, group.p, group.n);
			print_text(p, ":\n");
		}
		put_key(p, group.n > 0 ? "      " : "    ", k, rec);
	}
}

/* Print the help that is not repeated in every entry. */
static void put_entry_help(const struct printer *p, const struct conf_section *s)
{
	for (size_t i = 0; i < conf_n_keys; i++)
		if (conf_key_in(&conf_keys[i], s) && conf_keys[i].home != HOME_POLICY)
			put_help(p, "  ", &conf_keys[i]);
}

static void put_section(const struct printer *p, const struct conf_section *s,
			const struct conf *c)
{
	const struct route_opts *r = &c->route;
	bool empty = (s->shape == SHAPE_POOLS && r->n_pools == 0) ||
		     (s->shape == SHAPE_ENGINES && c->loop.n_engines == 0);
	struct model_opts star = r->model_default;
	struct tenant_opts others = r->tenant_default;

	print_text(p, "\n");
	put_comment(p, "", s->help);
	print_text(p, s->name);
	print_text(p, empty ? ": []\n" : ":\n");
	switch (s->shape) {
	case SHAPE_KEYS:
		put_keys(p, s, c);
		break;
	case SHAPE_POLICY:
		put_keys(p, s, &r->pool_default);
		break;
	case SHAPE_POOLS:
		put_entry_help(p, s);
		for (size_t i = 0; i < r->n_pools; i++)
			put_entry(p, s, &r->pools[i]);
		break;
	case SHAPE_MODELS:
		put_entry_help(p, s);
		memset(star.name, 0, sizeof(star.name));
		star.name[0] = '*';
		put_entry(p, s, &star);
		for (size_t i = 0; i < r->n_models; i++)
			put_entry(p, s, &r->models[i]);
		break;
	case SHAPE_TENANTS:
		put_entry_help(p, s);
		memset(others.name, 0, sizeof(others.name));
		others.name[0] = '*';
		put_entry(p, s, &others);
		for (size_t i = 0; i < r->n_tenants; i++)
			put_entry(p, s, &r->tenants[i]);
		break;
	case SHAPE_ENGINES:
		put_entry_help(p, s);
		for (size_t i = 0; i < c->loop.n_engines; i++)
			put_entry(p, s, &c->loop.engines[i]);
		break;
	}
}

static void put_memory(const struct printer *p, const struct conf *c)
{
	uint64_t bytes = route_budget(&c->route) + loop_budget(&c->loop) +
	    share_snapshot_budget(&c->loop, &c->route) +
	    loop_threads_most(&c->loop) * route_thread_budget(&c->route);
	char line[120];

	snprintf(line, sizeof(line), "# What grows with use takes %llu MiB at most: kvroute(8), MEMORY.\n",
		 (unsigned long long)((bytes + (1u << 20) - 1) >> 20));
	print_text(p, line);
}

void conf_print(const struct conf *c, void (*to)(void *arg, const char *text, size_t n), void *arg)
{
	struct conf defaults;
	struct printer p = { to, arg, &defaults };

	conf_defaults(&defaults);
	print_text(&p, "# All settings of kvroute and their values. See kvroute.yaml(5).\n");
	put_memory(&p, c);
	put_keys(&p, NULL, c);
	for (size_t i = 0; i < conf_n_sections; i++)
		put_section(&p, &conf_sections[i], c);
	conf_free(&defaults);
}

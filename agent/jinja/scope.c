/* Decide which names are one variable, and assign slots.
 *
 * Jinja2 compiles a template to Python with one Python variable per name and scope. It also
 * fixes the initial value of each variable when its scope is entered (jinja2/idtracking.py):
 * undefined, the caller's variable of that name, or that of an enclosing scope. Templates rely
 * on the consequences: a "set" in a loop is lost after every turn; a name set anywhere at the
 * top level is that variable in every macro, also in earlier ones; a name set in one branch only
 * is the caller's if the branch is not taken. This file does the same in the same order:
 *
 *	look(scope)	visit the nodes of the scope itself, in the order of Python's visitor, and note
 *			loads and stores
 *	place(scope)	assign a slot to each name; for a for, macro or block: new scope, look, place
 *
 * Scopes are: a loop's body, its else and its filter; a macro; a call block; a block of set,
 * filter, with. The branches of an if are not scopes; they are visited one by one and joined. A
 * macro has a record of slots of its own; other scopes use the record of their function. Unknown
 * filters and tests are rejected here too, because Jinja2 allows them in branches that are not
 * executed, and branches are known here. */
#include "agent/jinja/ast_in.h"
#include "agent/jinja/run_in.h"

struct state {
	uint8_t load;		/* enum load; LOAD_NONE: not in this scope */
	bool stored;
	uint16_t up;		/* of LOAD_ALIAS */
	uint32_t from;
};

struct known_name {
	struct span name;
	uint32_t slot;
};

/* States of the first <n> names; later names have none. */
struct states {
	struct state *v;
	uint32_t n, room;
};

struct frame {
	struct frame *parent;
	uint32_t *n_slots;	/* slots of the enclosing function */
	uint32_t *number;	/* loops and functions of the template so far */
	struct known_name *name;
	uint32_t n, room;
	struct states st;
	struct jinja_mem *m;
	struct err *e;
	bool failed;
};

static int64_t name_of(const struct frame *f, struct span name)
{
	uint32_t i;

	for (i = 0; i < f->n; i++)
		if (span_eq(f->name[i].name, name))
			return i;
	return -1;
}

static bool has(const struct frame *f, const struct states *st, struct span name, uint32_t *slot)
{
	int64_t i = name_of(f, name);

	if (i < 0 || i >= st->n || st->v[i].load == LOAD_NONE)
		return false;
	*slot = f->name[i].slot;
	return true;
}

/* Find a name in <f> or an enclosing scope. */
static bool find(const struct frame *f, struct span name, uint16_t *up, uint32_t *slot)
{
	*up = 0;
	for (; f != NULL; f = f->parent) {
		if (has(f, &f->st, name, slot))
			return true;
		if (f->parent != NULL && f->parent->n_slots != f->n_slots)
			(*up)++;
	}
	return false;
}

static bool find_outside(const struct frame *f, struct span name, uint16_t *up, uint32_t *slot)
{
	bool found;

	if (f->parent == NULL)
		return false;
	found = find(f->parent, name, up, slot);
	if (f->parent->n_slots != f->n_slots)
		(*up)++;
	return found;
}

static struct state *state_of(struct frame *f, struct states *st, struct span name)
{
	int64_t i = name_of(f, name);
	struct known_name *v;
	struct state *s;
	uint32_t room;

	if (i < 0) {
		if (f->n == f->room) {
			room = f->room ? f->room * 2 : 16;
			v = jinja_mem_grow(f->m, f->name, f->n * sizeof(*v), room * sizeof(*v));
			if (v == NULL)
				return NULL;
			f->name = v;
			f->room = room;
		}
		f->name[f->n] = (struct known_name){ name, (*f->n_slots)++ };
		i = f->n++;
	}
	if ((uint32_t)i >= st->room) {
		room = f->room;
		s = jinja_mem_grow(f->m, st->v, st->n * sizeof(*s), room * sizeof(*s));
		if (s == NULL)
			return NULL;
		st->v = s;
		st->room = room;
	}
	if ((uint32_t)i >= st->n) {
		memset(&st->v[st->n], 0, ((uint32_t)i + 1 - st->n) * sizeof(*st->v));
		st->n = (uint32_t)i + 1;
	}
	return &st->v[i];
}

static void define(struct frame *f, struct states *st, struct span name, enum load load, bool store)
{
	struct state *s = state_of(f, st, name);

	if (s == NULL) {
		f->failed = true;
		return;
	}
	s->stored = s->stored || store;
	s->load = (uint8_t)load;
	if (load == LOAD_UNDEFINED && find_outside(f, name, &s->up, &s->from))
		s->load = LOAD_ALIAS;
}

static void store(struct frame *f, struct states *st, struct span name)
{
	struct state *s = state_of(f, st, name);

	if (s == NULL)
		f->failed = true;
	else if (s->load != LOAD_NONE)
		s->stored = true;
	else
		define(f, st, name, LOAD_UNDEFINED, true);
}

static void load(struct frame *f, struct states *st, struct span name)
{
	uint32_t slot;
	uint16_t up;

	if (!has(f, st, name, &slot) && !find_outside(f, name, &up, &slot))
		define(f, st, name, LOAD_RESOLVE, false);
}

/* ---- look -------------------------------------------------------------------------------- */

static void look(struct frame *f, struct states *st, const struct node *n);

static void look_all(struct frame *f, struct states *st, const struct node *n)
{
	for (; n != NULL && !f->failed; n = n->next)
		look(f, st, n);
}

static struct states copy_of(struct frame *f, const struct states *st)
{
	struct states c = *st;

	c.v = jinja_mem_take(f->m, st->room * sizeof(*c.v) + 1);
	if (c.v == NULL) {
		f->failed = true;
		return *st;
	}
	if (st->n > 0)
		memcpy(c.v, st->v, st->n * sizeof(*c.v));
	return c;
}

/* Join the states of a name after branches. If only some branches store it and nothing did
 * before, it is the caller's variable in the others. */
static void join_name(struct frame *f, struct states *st, const struct states branch[3], uint32_t i)
{
	struct state *s = state_of(f, st, f->name[i].name);
	bool before;
	unsigned b, stores = 0;

	if (s == NULL) {
		f->failed = true;
		return;
	}
	before = s->stored;
	for (b = 0; b < 3; b++) {
		if (i >= branch[b].n || branch[b].v[i].load == LOAD_NONE)
			continue;
		stores += branch[b].v[i].stored;
		*s = (struct state){ .load = branch[b].v[i].load, .stored = s->stored || branch[b].v[i].stored,
				     .up = branch[b].v[i].up, .from = branch[b].v[i].from };
	}
	if (before || stores == 0 || stores == 3)
		return;
	s->load = find_outside(f, f->name[i].name, &s->up, &s->from) ? LOAD_ALIAS : LOAD_RESOLVE;
}

static void look_if(struct frame *f, struct states *st, const struct node *n)
{
	struct states branch[3];
	uint32_t i;

	look(f, st, n->a);
	branch[0] = copy_of(f, st);
	branch[1] = copy_of(f, st);
	branch[2] = copy_of(f, st);
	if (f->failed)
		return;
	look_all(f, &branch[0], n->kids);
	look_all(f, &branch[1], n->b);
	look_all(f, &branch[2], n->alt);
	for (i = 0; i < f->n && !f->failed; i++)
		join_name(f, st, branch, i);
}

static void look_target(struct frame *f, struct states *st, const struct node *n, bool parameter)
{
	const struct node *k;

	if (n->type == N_NSREF)
		load(f, st, n->name);
	else if (n->type == N_NAME && parameter)
		define(f, st, n->name, LOAD_PARAMETER, true);
	else if (n->type == N_NAME)
		store(f, st, n->name);
	else
		for (k = n->kids; k != NULL; k = k->next)
			look_target(f, st, k, parameter);
}

static void look(struct frame *f, struct states *st, const struct node *n)
{
	switch (n->type) {
	case N_CONST: case N_HELD: case N_GENERATION: case N_BREAK: case N_CONTINUE:
		return;
	case N_NAME:
		load(f, st, n->name);
		return;
	case N_IF:
		look_if(f, st, n);
		return;
	case N_FOR:
		look(f, st, n->b);
		return;
	case N_SET:
		look(f, st, n->b);
		look_target(f, st, n->a, false);
		return;
	case N_SETBLOCK:
		look_target(f, st, n->a, false);
		return;
	case N_MACRO:
		store(f, st, n->name);
		return;
	case N_CALLBLOCK:
		look(f, st, n->a);
		return;
	case N_FILTERBLOCK:
		look(f, st, n->b);
		return;
	case N_WITH:
		look_all(f, st, n->b);
		return;
	}
	if (n->a != NULL)
		look(f, st, n->a);
	if (n->b != NULL)
		look(f, st, n->b);
	if (n->c != NULL)
		look(f, st, n->c);
	look_all(f, st, n->kids);
	look_all(f, st, n->alt);
}

/* ---- place ------------------------------------------------------------------------------- */

static int place(struct frame *f, struct node *n, bool soft);

static int place_all(struct frame *f, struct node *n, bool soft)
{
	for (; n != NULL; n = n->next)
		if (place(f, n, soft) != 0)
			return -1;
	return 0;
}

static void inner(struct frame *f, struct frame *parent, uint32_t *n_slots)
{
	memset(f, 0, sizeof(*f));
	f->parent = parent;
	f->n_slots = n_slots;
	f->number = parent->number;
	f->m = parent->m;
	f->e = parent->e;
}

/* Record the loads to perform when the scope is entered. */
static int close_frame(struct frame *f, struct scope *s)
{
	const struct state *st;
	uint32_t i;

	if (f->failed)
		return jx_no_memory(f->e);
	s->loads = jinja_mem_take(f->m, f->st.n * sizeof(*s->loads) + 1);
	if (s->loads == NULL)
		return jx_no_memory(f->e);
	for (i = 0; i < f->st.n; i++) {
		st = &f->st.v[i];
		if (st->load == LOAD_NONE || st->load == LOAD_PARAMETER)
			continue;
		s->loads[s->n++] = (struct scope_load){ .load = st->load, .up = st->up, .slot = f->name[i].slot,
							.from = st->from, .name = f->name[i].name };
	}
	return 0;
}

static bool uses(const struct node *n, struct span name)
{
	for (; n != NULL; n = n->next) {
		if (n->type == N_NAME && span_eq(n->name, name))
			return true;
		if (n->fn != NULL && uses(n->fn->defaults, name))
			return true;
		if (uses(n->a, name) || uses(n->b, name) || uses(n->c, name) ||
		    uses(n->kids, name) || uses(n->alt, name))
			return true;
	}
	return false;
}

static int place_for(struct frame *f, struct node *n, bool soft)
{
	struct frame body, other, filter;

	n->scope = jinja_mem_take(f->m, 3 * sizeof(*n->scope));
	if (n->scope == NULL)
		return jx_no_memory(f->e);
	memset(n->scope, 0, 3 * sizeof(*n->scope));
	inner(&body, f, f->n_slots);
	inner(&other, f, f->n_slots);
	inner(&filter, f, f->n_slots);
	n->loop_var = uses(n->kids, SPAN("loop"));
	n->top = f->parent == NULL;
	n->number = (*f->number)++;
	n->prints = jx_only_prints(n);
	if (uses(n->a, SPAN("loop")))
		return jx_syntax_error(f->e, n->line, "the variable 'loop' cannot be assigned to");
	if (n->loop_var)
		define(&body, &body.st, SPAN("loop"), LOAD_PARAMETER, true);
	look_target(&body, &body.st, n->a, true);
	look_all(&body, &body.st, n->kids);
	look_all(&other, &other.st, n->alt);
	if (n->c != NULL) {
		look_target(&filter, &filter.st, n->c->b, true);
		look(&filter, &filter.st, n->c->a);
	}
	if (close_frame(&body, &n->scope[0]) != 0 || close_frame(&other, &n->scope[1]) != 0 ||
	    close_frame(&filter, &n->scope[2]) != 0)
		return -1;
	if (n->loop_var) {
		uint16_t up;

		find(&body, SPAN("loop"), &up, &n->slot);
	}
	if (place(f, n->b, soft) != 0 || place(&body, n->a, false) != 0 ||
	    place_all(&body, n->kids, false) != 0 || place_all(&other, n->alt, false) != 0)
		return -1;
	return n->c == NULL ? 0 : place(&filter, n->c, false);
}

/* Return the slot of a special parameter of a macro, or -1 if the body does not use it. */
static int32_t special(struct frame *f, const struct function *fn, const char *name)
{
	const struct node *p;
	uint32_t slot;
	uint16_t up;

	for (p = fn->params; p != NULL; p = p->next)
		if (span_eq(p->name, span_str(name)))
			return -1;
	if (!uses(fn->body, span_str(name)))
		return -1;
	define(f, &f->st, span_str(name), LOAD_PARAMETER, true);
	if (f->failed || !find(f, span_str(name), &up, &slot) || up != 0)
		return -1;
	return (int32_t)slot;
}

static int place_function(struct frame *f, struct function *fn)
{
	struct frame in;
	struct node *p;

	inner(&in, f, &fn->n_slots);
	fn->number = (*f->number)++;
	for (p = fn->params; p != NULL; p = p->next) {
		look_target(&in, &in.st, p, true);
		fn->explicit_caller = fn->explicit_caller || span_eq(p->name, SPAN("caller"));
	}
	look_all(&in, &in.st, fn->defaults);
	look_all(&in, &in.st, fn->body);
	fn->caller = special(&in, fn, "caller");
	fn->kwargs = special(&in, fn, "kwargs");
	fn->varargs = special(&in, fn, "varargs");
	if (close_frame(&in, &fn->scope) != 0 || place_all(&in, fn->params, false) != 0 ||
	    place_all(&in, fn->defaults, false) != 0)
		return -1;
	return place_all(&in, fn->body, false);
}

static struct scope *scope_new(struct frame *f)
{
	struct scope *s = jinja_mem_take(f->m, sizeof(*s));

	if (s == NULL)
		jx_no_memory(f->e);
	else
		memset(s, 0, sizeof(*s));
	return s;
}

/* Open a scope in the same function, for set, filter and with. */
static int place_block(struct frame *f, struct node *n, bool soft)
{
	struct frame in;
	struct node *k;

	inner(&in, f, f->n_slots);
	n->scope = scope_new(f);
	if (n->scope == NULL)
		return -1;
	for (k = n->type == N_WITH ? n->alt : NULL; k != NULL; k = k->next)
		look_target(&in, &in.st, k, true);
	look_all(&in, &in.st, n->kids);
	if (n->type != N_WITH && n->b != NULL)
		look(&in, &in.st, n->b);
	if (close_frame(&in, n->scope) != 0)
		return -1;
	if (n->type == N_WITH) {
		if (place_all(&in, n->alt, false) != 0 || place_all(f, n->b, soft) != 0)
			return -1;
	} else if (n->b != NULL && place(&in, n->b, false) != 0) {
		return -1;
	}
	if (n->type == N_SETBLOCK && place(f, n->a, soft) != 0)
		return -1;
	return place_all(&in, n->kids, false);
}

static int place_name(struct frame *f, struct node *n)
{
	if (find(f, n->name, &n->up, &n->slot))
		return 0;
	return jx_syntax_error(f->e, n->line,
			       "the name '" SPAN_FMT "' is in a place where it means nothing",
			       SPAN_ARG(n->name));
}

static int check_known(struct frame *f, struct node *n, bool soft)
{
	const char *what = n->type == N_FILTER ? "filter" : "test";

	n->soft = soft;
	if (n->id == NAME_REFUSED)
		return jx_syntax_error(f->e, n->line, "the %s '" SPAN_FMT "' is not known here",
				       what, SPAN_ARG(n->name));
	if (n->id == NAME_UNKNOWN && !soft)
		return jx_syntax_error(f->e, n->line, "no %s is named '" SPAN_FMT "'", what, SPAN_ARG(n->name));
	return 0;
}

/* Note which values are only gone through, counted, named or indexed. */
static void mark_carried(struct node *n)
{
	bool counts = n->type == N_FILTER && n->a != NULL &&
		      (span_eq(n->name, SPAN("length")) || span_eq(n->name, SPAN("count")));

	if (n->type == N_GETITEM || n->type == N_GETATTR || n->type == N_IF || n->type == N_AND ||
	    n->type == N_OR || n->type == N_NOT || n->type == N_COND)
		n->a->member = true;
	if (n->type == N_SET)		/* reads of the variable are checked in turn */
		n->b->member = true;
	switch (n->type) {
	case N_FOR: case N_SET:
		n->b->carried = true;
		return;
	case N_AND: case N_OR:
		n->b->carried = true;
		break;
	case N_COND:
		n->b->carried = true;
		if (n->c != NULL)
			n->c->carried = true;
		break;
	case N_IF: case N_NOT: case N_GETITEM: case N_SLICE:
		break;
	case N_TEST:
		counts = n->a != NULL && span_eq(n->name, SPAN("defined"));
		if (n->a != NULL)
			n->a->presence = counts || span_eq(n->name, SPAN("none"));
		/* fall through */
	default:
		if (!counts)
			return;
	}
	n->a->carried = true;
	n->a->indexed = n->type == N_GETITEM;
}

static int place(struct frame *f, struct node *n, bool soft)
{
	mark_carried(n);
	switch (n->type) {
	case N_CONST: case N_HELD:
		return 0;
	case N_NAME: case N_NSREF:
		return place_name(f, n);
	case N_FOR:
		return place_for(f, n, soft);
	case N_MACRO:
		return place_name(f, n) != 0 ? -1 : place_function(f, n->fn);
	case N_CALLBLOCK:
		return place(f, n->a, soft) != 0 ? -1 : place_function(f, n->fn);
	case N_GENERATION:
		return place_function(f, n->fn);
	case N_SETBLOCK: case N_FILTERBLOCK: case N_WITH:
		return place_block(f, n, soft);
	case N_FILTER: case N_TEST:
		if (check_known(f, n, soft) != 0)
			return -1;
		break;
	case N_IF: case N_COND:
		soft = true;
		break;
	}
	if ((n->a != NULL && place(f, n->a, soft) != 0) || (n->c != NULL && place(f, n->c, soft) != 0))
		return -1;
	if (n->b != NULL && (n->type == N_IF ? place_all(f, n->b, soft) : place(f, n->b, soft)) != 0)
		return -1;
	return place_all(f, n->kids, soft) != 0 ? -1 : place_all(f, n->alt, soft);
}

int jx_scope_resolve(struct jinja *t, struct err *e)
{
	uint32_t number = 0;
	struct frame root = { .n_slots = &t->n_slots, .number = &number, .m = t->mem, .e = e };

	look_all(&root, &root.st, t->body);
	if (close_frame(&root, &t->scope) != 0)
		return -1;
	if ((t->root = jinja_mem_take(t->mem, root.n * sizeof(*t->root) + 1)) == NULL)
		return jx_no_memory(e);
	for (; t->n_root < root.n; t->n_root++)
		t->root[t->n_root] = root.name[t->n_root].slot;
	return place_all(&root, t->body, false);
}

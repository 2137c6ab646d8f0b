/* dump.c - the tree of a space as text: one line a node, children by their first page.
 *
 * The text is put together under the lock, for reading, and handed out after it: the one who takes
 * it may be a slow socket. Nodes wait on a stack of our own, as a chain may be as deep as a prompt
 * is long. Not charged to the budget; gone when the call returns. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/index/tree.h"

struct todo {
	const struct node *nd;
	uint32_t level;
};

struct dump {
	char *text;
	size_t n, cap;
	struct todo *todo;
	size_t n_todo, cap_todo;
	bool failed;		/* no memory */
};

static void *grow(void *p, size_t need, size_t *cap, size_t size)
{
	size_t to = *cap ? *cap * 2 : 256;
	void *q;

	if (need <= *cap)
		return p;
	while (to < need)
		to *= 2;
	if ((q = mem_resize(p, to, size)) != NULL)
		*cap = to;
	return q;
}

static void say(struct dump *d, const char *s, size_t n)
{
	char *t;

	if (d->failed || (t = grow(d->text, d->n + n, &d->cap, 1)) == NULL) {
		d->failed = true;
		return;
	}
	d->text = t;
	memcpy(t + d->n, s, n);
	d->n += n;
}

static void say_node(struct dump *d, const struct node *nd, uint32_t level)
{
	const struct record *r;
	char s[32];
	uint32_t i;

	for (i = 0; i < level; i++)
		say(d, "  ", 2);
	for (i = 0; i < nd->n_pages; i++)
		say(d, s, (size_t)snprintf(s, sizeof(s), "%c%" PRIx64, i ? ' ' : '[', nd->pages[i]));
	say(d, "]", 1);
	for (i = 0; i < nd->n_owners; i++) {
		r = nd->owners[i].rec;
		say(d, s, (size_t)snprintf(s, sizeof(s), " %u%s", r->server, r->confirmed ? "" : "*"));
	}
	say(d, "\n", 1);
}

static int last_page_first(const void *a, const void *b)
{
	page_key x = ((const struct todo *)a)->nd->pages[0];
	page_key y = ((const struct todo *)b)->nd->pages[0];

	return (x < y) - (x > y);
}

static void push_children(struct dump *d, const struct node *nd, uint32_t level)
{
	struct todo *t = grow(d->todo, d->n_todo + nd->n_children, &d->cap_todo, sizeof(*t));
	size_t from = d->n_todo;
	struct list *l;

	if (nd->n_children == 0)
		return;
	if (t == NULL) {
		d->failed = true;
		return;
	}
	d->todo = t;
	for (l = nd->children.next; l != &nd->children; l = l->next)
		t[d->n_todo++] = (struct todo){ list_entry(l, struct node, sibling), level };
	qsort(t + from, d->n_todo - from, sizeof(*t), last_page_first);
}

void index_dump(struct index *ix, const struct space_key *space,
		void (*put)(void *arg, const char *text, size_t n), void *arg)
{
	struct dump d = { 0 };
	const struct space *sp;
	struct todo t;

	pthread_rwlock_rdlock(&ix->lock);
	if ((sp = table_space(ix, space)) != NULL)
		push_children(&d, &sp->root, 0);
	while (d.n_todo > 0 && !d.failed) {
		t = d.todo[--d.n_todo];
		say_node(&d, t.nd, t.level);
		push_children(&d, t.nd, t.level + 1);
	}
	pthread_rwlock_unlock(&ix->lock);
	if (d.failed)
		put(arg, "no memory for the dump\n", 23);
	else if (d.n > 0)
		put(arg, d.text, d.n);
	mem_free(d.text);
	mem_free(d.todo);
}

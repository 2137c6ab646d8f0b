/* dump.c - print the tree of a space: one line a node, children by their first page.
 *
 * The text is built with all shards locked and passed on afterwards, because the receiver may be
 * slow. Nodes know their parents and not their children, so all nodes are sorted by parent first.
 * They wait on a stack of its own, because a chain may be as deep as a prompt is long. The memory
 * is not part of the budget. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

struct todo {
	const struct node *nd;
	uint32_t level;
};

struct dump {
	struct index *ix;
	struct node **all;
	size_t n_all, cap_all;
	char *text;
	size_t n, cap;
	struct todo *todo;
	size_t n_todo, cap_todo;
	bool failed;		/* no memory */
};

static void *grown(void *p, size_t need, size_t *cap, size_t size)
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

	if (d->failed || (t = grown(d->text, d->n + n, &d->cap, 1)) == NULL) {
		d->failed = true;
		return;
	}
	d->text = t;
	memcpy(t + d->n, s, n);
	d->n += n;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void say_owners(struct dump *d, const struct node *nd)
{
	uint32_t words[SERVERS_MAX], i, n = 0;
	char s[32];

	for (i = 0; i < nd->n_slots; i++)
		if ((words[n] = atomic_load(&node_words(nd)[i])) != 0)
			n++;
	qsort(words, n, sizeof(*words), by_number);
	for (i = 0; i < n; i++) {
		const struct record *r = node_record(d->ix, nd, word_server(words[i]));

		say(d, s, (size_t)snprintf(s, sizeof(s), " %u", r->server));
		if (r->extent < nd->n_pages)
			say(d, s, (size_t)snprintf(s, sizeof(s), ":%u", r->extent));
		if (r->held == 0)
			say(d, "*", 1);
		else if (r->held < r->extent)
			say(d, s, (size_t)snprintf(s, sizeof(s), "*%u", r->held));
	}
}

static void say_node(struct dump *d, const struct node *nd, uint32_t level)
{
	const page_key *p = node_pages(nd);
	char s[32];
	uint32_t i;

	for (i = 0; i < level; i++)
		say(d, "  ", 2);
	for (i = 0; i < nd->n_pages; i++)
		say(d, s, (size_t)snprintf(s, sizeof(s), "%c%" PRIx64, i ? ' ' : '[', p[i]));
	say(d, "]", 1);
	say_owners(d, nd);
	say(d, "\n", 1);
}

/* Sort by parent, and children with the last page first, because they go onto a stack. */
static int by_parent(const void *a, const void *b)
{
	const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;

	if (x->parent != y->parent)
		return (x->parent > y->parent) - (x->parent < y->parent);
	return (node_pages(x)[0] < node_pages(y)[0]) - (node_pages(x)[0] > node_pages(y)[0]);
}

static void find_nodes(struct dump *d)
{
	struct node *nd;
	uint32_t i, k;

	for (i = 0; i < d->ix->n_shards; i++) {
		for (k = 1; k <= d->ix->shards[i].n_ids && !d->failed; k++) {
			nd = node_at(d->ix, k << SHARD_BITS | i);
			if (nd == NULL || nd->kind == NODE_ROOT)
				continue;
			struct node **all = grown(d->all, d->n_all + 1, &d->cap_all, sizeof(*all));

			if (all == NULL) {
				d->failed = true;
				break;
			}
			d->all = all;
			all[d->n_all++] = nd;
		}
	}
	if (d->n_all > 0)
		qsort(d->all, d->n_all, sizeof(*d->all), by_parent);
}

static size_t first_child(const struct dump *d, node_id parent)
{
	size_t low = 0, high = d->n_all, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (d->all[mid]->parent < parent)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void push_children(struct dump *d, const struct node *nd, uint32_t level)
{
	size_t i = first_child(d, nd->id);
	struct todo *t;

	for (; i < d->n_all && d->all[i]->parent == nd->id; i++) {
		if ((t = grown(d->todo, d->n_todo + 1, &d->cap_todo, sizeof(*t))) == NULL) {
			d->failed = true;
			return;
		}
		d->todo = t;
		t[d->n_todo++] = (struct todo){ d->all[i], level };
	}
}

static void dump_space(struct dump *d, const struct space_key *space)
{
	const struct node *root = table_root(d->ix, space);
	struct todo t;

	find_nodes(d);
	if (root != NULL && !d->failed)
		push_children(d, root, 0);
	while (d->n_todo > 0 && !d->failed) {
		t = d->todo[--d->n_todo];
		say_node(d, t.nd, t.level);
		push_children(d, t.nd, t.level + 1);
	}
}

void index_dump(struct index *ix, const struct space_key *space,
		void (*put)(void *arg, const char *text, size_t n), void *arg)
{
	uint64_t all = ix->n_shards == 64 ? UINT64_MAX : (1ull << ix->n_shards) - 1;
	struct dump d = { .ix = ix };

	shards_lock(ix, all);
	dump_space(&d, space);
	shards_unlock(ix, all);
	if (d.failed)
		put(arg, "no memory for the dump\n", 23);
	else if (d.n > 0)
		put(arg, d.text, d.n);
	mem_free(d.text);
	mem_free(d.todo);
	mem_free(d.all);
}

/* run.c - chains of blocks as runs: up to 64 blocks in a row.
 *
 *   root --> [A B C D E]       Children may follow any block, so a run is never split. A child is
 *                 |   '-> [H I]    found by its parent, the block that it follows and its own first
 *                 '-> [F G]        key, in one table of heads; each place has at most one block
 *                                  with a given key after it.
 *
 * A block is added after the last one of its run if that one has no child and the run has few
 * holders, else it begins a new run: so the run of a prefix that many holders share ends where
 * their prompts differ. Blocks without a holder are kept while a child follows them, because they
 * are part of its chain. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

#define FEW	4u	/* holders of a run to which a block is added */

static void set_shape(struct run *r, uint32_t len)
{
	SET(&r->shape, (OWN(&r->shape) & ~0xffu) | len);
}

static uint32_t len_of(const struct run *r)
{
	return shape_len(OWN(&r->shape));
}

/* ---- heads ---- */

static void head_add(struct events *ev, line_ref ref, uint64_t key)
{
	struct run *r = run_at(ev, ref);
	_Atomic uint32_t *head =
	    &ev->heads[head_of(ev, OWN(&r->parent), shape_off(OWN(&r->shape)), key)];

	SET(&r->chained, OWN(head));
	SET(head, ref);
}

static void head_remove(struct events *ev, line_ref ref, uint64_t key)
{
	struct run *r = run_at(ev, ref);
	_Atomic uint32_t *at =
	    &ev->heads[head_of(ev, OWN(&r->parent), shape_off(OWN(&r->shape)), key)];

	while (OWN(at) != ref)
		at = &run_at(ev, OWN(at))->chained;
	SET(at, OWN(&r->chained));
	SET(&ev->unlinked, OWN(&ev->unlinked) + 1);
}

static line_ref child_find(const struct events *ev, struct place p, uint64_t key)
{
	line_ref ref = OWN(&run_at(ev, p.run)->next);
	const struct run *r;

	if (ref != 0) {
		r = run_at(ev, ref);
		if (shape_off(OWN(&r->shape)) == p.off && OWN(key_at(ev, r, 0)) == key)
			return ref;
	}
	for (ref = OWN(&ev->heads[head_of(ev, p.run, p.off, key)]); ref != 0; ref = OWN(&r->chained)) {
		r = run_at(ev, ref);
		if (OWN(&r->parent) == p.run && shape_off(OWN(&r->shape)) == p.off &&
		    OWN(key_at(ev, r, 0)) == key)
			break;
	}
	return ref;
}

/* ---- making ---- */

/* Returns a run that readers do not accept yet: it has no parent. */
static line_ref run_take(struct events *ev)
{
	line_ref ref = slab_take(ev, CLASS_RUN, TAKE_MORE);
	struct run *r;
	unsigned i;

	if (ref == 0)
		return 0;
	r = run_at(ev, ref);
	for (i = 0; i < SEGS; i++)
		SET(&r->keys[i], 0);
	SET(&r->parent, 0);
	SET(&r->member.desc, MEMBER_NONE);
	SET(&r->member.mask, 0);
	SET(&r->next, 0);
	SET(&r->child_at, 0);
	r->n_children = 0;
	return ref;
}

line_ref root_find(struct events *ev, uint64_t hash, bool make)
{
	line_ref ref;
	struct run *r;

	for (ref = OWN(&ev->heads[head_of(ev, 0, 0, hash)]); ref != 0; ref = OWN(&r->chained)) {
		r = run_at(ev, ref);
		if (run_is_root(r) && OWN(&r->member.mask) == hash)
			return ref;
	}
	if (!make || (ref = run_take(ev)) == 0)
		return 0;
	r = run_at(ev, ref);
	SET(&r->shape, 0);
	SET(&r->member.mask, hash);
	SET(&r->member.desc, MEMBER_ROOT);
	head_add(ev, ref, hash);
	return ref;
}

static bool append_key(struct events *ev, struct run *r, uint64_t key)
{
	uint32_t len = len_of(r);
	line_ref seg;

	if (len % SEG_KEYS == 0) {
		if ((seg = slab_take(ev, CLASS_128, TAKE_MORE)) == 0)
			return false;
		SET(&r->keys[len / SEG_KEYS], seg);
	}
	SET(key_at(ev, r, len), key);
	set_shape(r, len + 1);
	COUNT(ev, blocks, 1);
	return true;
}

static line_ref child_add(struct events *ev, struct place p, uint64_t key)
{
	struct run *up = run_at(ev, p.run), *r;
	line_ref ref = run_take(ev);

	if (ref == 0)
		return 0;
	r = run_at(ev, ref);
	SET(&r->shape, p.off << 8);
	if (!append_key(ev, r, key)) {
		slab_give(ev, ref, CLASS_RUN);
		return 0;
	}
	SET(&r->parent, p.run);
	SET(&up->child_at, OWN(&up->child_at) | bit_of(p.off));
	up->n_children++;
	head_add(ev, ref, key);
	if (p.off + 1 >= len_of(up))
		SET(&up->next, ref);
	COUNT(ev, runs, 1);
	return ref;
}

/* Tell if a new block that follows the last one of <r> goes into the same run. */
static bool can_append(const struct run *r, uint32_t off)
{
	uint64_t desc = OWN(&r->member.desc);
	uint32_t len = len_of(r);

	if (off + 1 != len || len == RUN_BLOCKS || (OWN(&r->child_at) & bit_of(off)) != 0)
		return false;
	return desc_kind(desc) != MEMBER_ARRAY || desc_array_n(desc) <= FEW;
}

bool run_step(struct events *ev, struct place *p, uint64_t key, bool make)
{
	struct run *r = run_at(ev, p->run);
	bool root = run_is_root(r);
	line_ref ref = 0;

	if (!root && p->off + 1 < len_of(r) && OWN(key_at(ev, r, p->off + 1)) == key) {
		p->off++;
		return true;
	}
	if (r->n_children > 0 && (OWN(&r->child_at) & bit_of(p->off)) != 0)
		ref = child_find(ev, *p, key);
	if (ref == 0 && !make)
		return false;
	if (ref == 0 && !root && can_append(r, p->off)) {
		if (!append_key(ev, r, key))
			return false;
		p->off++;
		return true;
	}
	if (ref == 0 && (ref = child_add(ev, *p, key)) == 0)
		return false;
	*p = (struct place){ ref, 0 };
	return true;
}

/* ---- going ---- */

static uint64_t pinned_bit(const struct events *ev, line_ref ref)
{
	return ev->pinned.run == ref ? bit_of(ev->pinned.off) : 0;
}

/* Cut a run to <len> blocks. The version goes up after readers can see the new length, and before
 * anything else can be in the place of the old blocks. */
static void cut(struct events *ev, struct run *r, uint32_t len)
{
	uint32_t old = len_of(r), i, keep = (len + SEG_KEYS - 1) / SEG_KEYS;

	set_shape(r, len);
	run_bump(r);
	for (i = keep; i * SEG_KEYS < old; i++) {
		slab_give(ev, OWN(&r->keys[i]), CLASS_128);
		SET(&r->keys[i], 0);
	}
	COUNT(ev, blocks, -(int)(old - len));
}

/* Free a run, or a root, without holders and children. Returns its parent. */
static line_ref run_free(struct events *ev, line_ref ref)
{
	struct run *r = run_at(ev, ref), *up;
	line_ref parent = OWN(&r->parent);
	bool root = run_is_root(r);

	head_remove(ev, ref, root ? OWN(&r->member.mask) : OWN(key_at(ev, r, 0)));
	if (!root) {
		up = run_at(ev, parent);
		if (OWN(&up->next) == ref)
			SET(&up->next, 0);
		if (--up->n_children == 0)
			SET(&up->child_at, 0);
		SET(&r->parent, 0);
		cut(ev, r, 0);
		COUNT(ev, runs, -1);
	}
	SET(&r->member.desc, MEMBER_NONE);
	run_bump(r);
	slab_give(ev, ref, CLASS_RUN);
	return parent;
}

void run_trim(struct events *ev, line_ref ref)
{
	uint64_t alive;
	struct run *r;
	uint32_t len;

	while (ref != 0) {
		r = run_at(ev, ref);
		alive = OWN(&r->child_at) | pinned_bit(ev, ref);
		if (!run_is_root(r)) {
			if (len_of(r) > 0 && (alive & bit_of(len_of(r) - 1)) == 0)
				alive |= members_mask(ev, r);
			len = alive != 0 ? RUN_BLOCKS - (uint32_t)__builtin_clzll(alive) : 0;
			if (len > 0 && len < len_of(r))
				cut(ev, r, len);
		}
		if (alive != 0)
			return;
		ref = run_free(ev, ref);
	}
}

void run_pin(struct events *ev, struct place p)
{
	line_ref before = ev->pinned.run;

	ev->pinned = p;
	if (before != 0 && before != p.run)
		run_trim(ev, before);
}

/* ---- for tests ---- */

static const char *run_check_one(const struct events *ev, line_ref ref, uint64_t *children)
{
	struct run *r = run_at(ev, ref);
	uint32_t len = len_of(r), i;
	struct place p = { OWN(&r->parent), shape_off(OWN(&r->shape)) };
	const struct run *up;
	uint64_t alive;

	*children += r->n_children;
	if ((r->n_children == 0) != (OWN(&r->child_at) == 0))
		return "a run marks children that it does not have";
	if (run_is_root(r))
		return r->n_children > 0 ? NULL : "a root that nothing follows";
	if (len == 0 || len > RUN_BLOCKS)
		return "a run without blocks, or with too many";
	for (i = 0; i < SEGS; i++)
		if ((OWN(&r->keys[i]) != 0) != (i * SEG_KEYS < len))
			return "a run has more or fewer keys than blocks";
	up = run_at(ev, p.run);
	if (p.run == 0 || (!run_is_root(up) && p.off >= len_of(up)) ||
	    (OWN(&up->child_at) >> p.off & 1) == 0)
		return "a run does not follow a block of its parent";
	if (child_find(ev, p, OWN(key_at(ev, r, 0))) != ref)
		return "a run is not found, or twice there";
	if (!run_is_root(up) && p.off + 1 < len_of(up) &&
	    OWN(key_at(ev, up, p.off + 1)) == OWN(key_at(ev, r, 0)))
		return "a block is in its parent's run, too";
	alive = members_mask(ev, r);
	if (len < 64 && alive >> len != 0)
		return "a block after the end of its run is held";
	if (((alive | OWN(&r->child_at)) >> (len - 1) & 1) == 0)
		return "the last block of a run is there for nothing";
	return members_check(ev, r);
}

const char *run_check(const struct events *ev)
{
	uint64_t children = 0, blocks = 0, runs = 0;
	uint32_t c, i, n_heads = 1u << (64 - ev->head_shift);
	const char *why;
	line_ref ref;

	if (ev->pinned.run != 0)
		return "a block is pinned between two events";
	for (i = 0; i < n_heads; i++) {
		for (ref = OWN(&ev->heads[i]); ref != 0; ref = OWN(&run_at(ev, ref)->chained)) {
			if ((why = run_check_one(ev, ref, &children)) != NULL)
				return why;
			runs += !run_is_root(run_at(ev, ref));
			blocks += len_of(run_at(ev, ref));
		}
	}
	for (c = 0, i = 0; c < ev->slab.cut_chunks; c++)
		if (ev->slab.chunks[c].class == CLASS_RUN)
			i += CHUNK_LINES - (uint32_t)__builtin_popcountll(ev->slab.chunks[c].free);
	if (children != runs || runs > i)
		return "runs are lost";
	if (runs != OWN(&ev->st.runs) || blocks != OWN(&ev->st.blocks))
		return "runs or blocks are counted wrong";
	return NULL;
}

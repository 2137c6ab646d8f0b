/* hashing.c - rules that send equal keys to one server and remember nothing.
 *
 *   prefix_hash      the first 256 tokens, on a ring of 150 places a server. If the load of that
 *                    server is above 1.25 x the mean: the least loaded of those below
 *                                                         Shepherd: policies/prefix_hash.rs
 *   consistent_hash  the session, else the whole body, on the same ring; load never matters
 *                                                         Shepherd: policies/consistent_hashing.rs
 *   chwbl            the beginning of the conversation and the adapter, on a ring of 256 places a
 *                    server; walks on to the first server whose load with this request is at most
 *                    1.25 x the mean, or to the first of all if there is none
 *                                                         KubeAI: loadbalancer/balance_chwbl.go
 *   rendezvous       the session, else the user in the body, else the whole body: the server with
 *                    the
 *                    highest hash of key and name         vLLM's router:
 *                    policies/rendezvous_hash.rs
 *
 * chwbl skips servers without the requested adapter if engines report theirs. Means are over the
 * candidates and count this request. Loads include penalties. Tokens count in whole pages; KubeAI's
 * 100 characters are policy_prompt.opening here. A prompt without a key goes by load, or anywhere
 * if its rule ignores loads: never all to one server.
 *
 * The memory of the first three is the places of servers on their ring. Only choose() and gone()
 * use it, under one lock: ring_in.h. */
#include "agent/policy/rules_in.h"
#include "agent/policy/ring_in.h"

#define PREFIX_TOKENS		256
#define RING_REPLICAS		150	/* Shepherd: worker/hash_ring.rs */
#define CHWBL_REPLICAS		256

/* ---- rings ---- */

static void *ring_of_150(const struct policy_opts *o)
{
	return ring_new(RING_REPLICAS, o->rule_max_bytes);
}

static void *ring_of_256(const struct policy_opts *o)
{
	return ring_new(CHWBL_REPLICAS, o->rule_max_bytes);
}

static void drop_ring(void *m)
{
	ring_free(m);
}

static void gone(void *m, server_id id)
{
	ring_gone(m, id);
}

static void go_to(struct rule_job *j, const struct nearest *n, enum why why)
{
	j->out->first = n->first;
	j->out->second = n->second;
	j->out->why = why;
}

/* Pick the first two servers that a walk from <key> meets. */
static void walk_ring(
    struct rule_job *j, struct ring *r, uint32_t replicas, uint64_t key, enum why why)
{
	struct nearest n = NEAREST_NONE;

	for (size_t i = 0; i < j->n; i++)
		nearest_take(&n, i, ring_ahead(r, replicas, &j->c[i], key));
	go_to(j, &n, why);
}

/* ---- bounded loads ---- */

/* Return the limit of a server's load, from the mean with this request. */
static double load_limit(const struct rule_job *j)
{
	uint64_t total = 0;

	for (size_t i = 0; i < j->n; i++)
		total += load_with_penalty(&j->c[i]);
	return total == 0 ? UINT32_MAX : j->o->load_factor * (double)(total + 1) / (double)j->n;
}

static void only_below(struct rule_job *j, double most)
{
	for (size_t i = 0; i < j->n; i++)
		j->c[i].in = j->c[i].in && load_with_penalty(&j->c[i]) <= most;
}

static uint64_t prefix_key(const struct policy_prompt *p)
{
	uint32_t n = p->page_tokens > 0 ? PREFIX_TOKENS / p->page_tokens : 1;
	uint64_t h = 0;

	if (n == 0)
		n = 1;
	if (n > p->n_pages)
		n = p->n_pages;
	for (uint32_t i = 0; i < n; i++)
		h = chain(h, p->pages[i]);
	return scatter(h);
}

static void prefix_hash(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	double most = load_limit(j);
	int on;

	if (j->p->n_pages == 0)
		return;
	walk_ring(j, m, RING_REPLICAS, prefix_key(j->p), WHY_STICKY);
	on = out->first;
	if (load_with_penalty(&j->c[on]) <= most)
		return;
	only_below(j, most);
	policy_best_two(j->c, j->n, before_by_load, &out->first, &out->second);
	if (out->first >= 0)
		out->why = WHY_IMBALANCE;
	else
		out->first = on;
}

/* If no engine reports the adapter, any server may take the request: it loads the adapter then. */
static void only_with_adapter(struct rule_job *j)
{
	bool known = false;
	size_t i;

	for (i = 0; i < j->n; i++)
		known = known || j->c[i].has_adapter;
	for (i = 0; known && i < j->n; i++)
		j->c[i].in = j->c[i].has_adapter;
}

static void chwbl(void *m, struct rule_job *j)
{
	struct nearest any = NEAREST_NONE, light = NEAREST_NONE;
	uint64_t key = scatter(chain(j->p->opening, j->p->adapter));
	double most = load_limit(j) - 1;

	if (j->p->opening == 0)
		return;
	if (j->p->adapter != 0)
		only_with_adapter(j);
	for (size_t i = 0; i < j->n; i++) {
		uint64_t far;

		if (!j->c[i].in)
			continue;
		far = ring_ahead(m, CHWBL_REPLICAS, &j->c[i], key);
		nearest_take(&any, i, far);
		if (load_with_penalty(&j->c[i]) <= most)
			nearest_take(&light, i, far);
	}
	if (light.first < 0 || light.first == any.first)
		go_to(j, &any, WHY_STICKY);
	else
		go_to(j, &light, WHY_IMBALANCE);
}

/* ---- whatever the load ---- */

static void consistent_hash(void *m, struct rule_job *j)
{
	uint64_t key = j->p->session ? j->p->session : j->p->body;

	walk_ring(j, m, RING_REPLICAS, scatter(key ? key : rng_next(j->rng)), key ? WHY_STICKY : WHY_COLD);
}

static void rendezvous(void *m, struct rule_job *j)
{
	const struct policy_prompt *p = j->p;
	uint64_t known = p->session ? p->session : p->user ? p->user : p->body;
	uint64_t key = known ? known : rng_next(j->rng);
	struct nearest n = NEAREST_NONE;

	for (size_t i = 0; i < j->n; i++)
		nearest_take(&n, i, rendezvous_far(key, &j->c[i]));
	go_to(j, &n, known ? WHY_STICKY : WHY_COLD);
}

#define ON_A_RING .memory_free = drop_ring, .gone = gone

const struct rule rule_prefix_hash = {
	.choose = prefix_hash, .memory_new = ring_of_150, ON_A_RING
};
const struct rule rule_consistent_hash = {
	.wants_body = true, .choose = consistent_hash, .memory_new = ring_of_150, ON_A_RING
};
const struct rule rule_chwbl = { .choose = chwbl, .memory_new = ring_of_256, ON_A_RING };
const struct rule rule_rendezvous = { .wants_body = true, .choose = rendezvous };

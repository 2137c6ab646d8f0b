/* model.c - the model that a body asks for, before a pool is chosen.
 *
 * HAProxy's own json_query finds a model that it can see. Clients send "messages" first, so that of a body larger than
 * the buffer it sees none, and the request goes to the default pool, whose engines do not know the model. Here the
 * name is, first found: the argument <model>, the body's own (of keys that come twice the last, as in the engines),
 * or that of the last whole body of this tenant with the same opening (heads.h). Nothing is guessed beyond that.
 *
 * A tenant's openings are its own here whatever <isolate_tenants> says, because the pool that says it is not known yet. */
#include "agent/route/job.h"

const char *model_from_text(enum model_from f)
{
	static const char *const texts[MODEL_FROM_COUNT] = {
		[MODEL_FROM_NONE] = "none", [MODEL_FROM_ARGUMENT] = "argument", [MODEL_FROM_BODY] = "body",
		[MODEL_FROM_HEAD] = "head", [MODEL_FROM_OVERLOAD] = "overload",
	};

	return texts[f];
}

/* It goes into maps and logs of HAProxy, some of them JSON. A name that was too long is known by its hash alone. */
static bool is_fit(struct span name)
{
	if (name.n == 0 || name.n > PROMPT_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] <= ' ' || name.p[i] > '~' || name.p[i] == '"' || name.p[i] == '\\')
			return false;
	return name.n < 5 || memcmp(name.p, "hash:", 5) != 0;
}

static bool take_name(const struct job *j, struct span asked, enum model_from from, struct route_model *m)
{
	struct span name = model_name_of(model_options_of(j->opts, asked), asked);

	if (!is_fit(asked) || !is_fit(name))
		return false;
	m->from = from;
	m->n = name.n;
	memcpy(m->name, name.p, name.n);
	m->name[name.n] = '\0';
	return true;
}

static uint64_t heads_scope(const struct route *r, const struct job *j)
{
	return hash_mix_span(&r->key, hash_mix_span(&r->key, 22, j->tenant), j->pool);
}

/* Remember a whole body by its opening. Return its scope, for the message <route>; 0: it is not remembered. */
static uint64_t learn_head(struct route *r, const struct job *j)
{
	const struct prompt *p = j->prompt;

	if (p->salt.seen || p->json == JSON_BAD)
		return 0;
	if (p->json == JSON_DONE)
		heads_add(r->heads, hash_mix_span(&r->key, 3, j->tenant), heads_scope(r, j), p);
	return heads_scope(r, j);
}

static void ask_memory(struct route *r, const struct job *j, struct route_model *m)
{
	const struct prompt *p = j->prompt;
	struct prompt_head *head;

	if (p->salt.seen || p->json != JSON_MORE || p->model.seen)
		return;
	head = heads_find(r->heads, hash_mix_span(&r->key, 3, j->tenant), heads_scope(r, j), p);
	if (head != NULL)
		take_name(j, head->model, MODEL_FROM_HEAD, m);
	heads_release(head);
}

static void count(struct route *r, const struct route_model *m)
{
	pthread_mutex_lock(&r->lock);
	r->stats.models[m->from]++;
	pthread_mutex_unlock(&r->lock);
}

/* A path that is not known may still have a body with a model: rerank, score, tokenize. */
static struct span path_of(struct span path)
{
	return prompt_api_of_path(path) == API_NONE ? (struct span){ 0 } : path;
}

/* Keep what was read for the message <route> of the same request. */
static void leave_scanner(struct route *r, struct job *j, const struct route_request *q, uint64_t scope)
{
	const struct scanned_key k = job_scanned_key(r, j, q);
	const struct scanned_note note = { .n = j->raw.n, .scope = scope };

	if (q->uid.n > 0 && q->body.n > 0)
		scanned_put(&r->scanned, &r->key, &k, &note, &r->opts.prompt, &j->scratch->body, j->now);
}

static void find_name(struct route *r, const struct job *j, struct route_model *m)
{
	const struct prompt *p = j->prompt;

	if (take_name(j, j->model, MODEL_FROM_ARGUMENT, m) || p->json == JSON_BAD)
		return;
	if (p->model.seen)
		take_name(j, span_of(p->model.s, p->model.n), MODEL_FROM_BODY, m);
	ask_memory(r, j, m);
}

void route_model(struct route *r, struct route_scratch *s, const struct route_request *q, msec now, struct route_model *m)
{
	struct route_request whole = *q;
	struct job j;

	*m = (struct route_model){ .from = MODEL_FROM_NONE };
	whole.seq = -1;
	whole.path = path_of(q->path);
	pthread_rwlock_rdlock(&r->opts_lock);
	job_start(r, s, &whole, now, &j);
	j.aside = true;
	job_take_body(r, &j, &whole);
	job_pay_work(&j, job_take_work(r, &j, ROUTE_WORK_FULL));
	find_name(r, &j, m);
	leave_scanner(r, &j, &whole, learn_head(r, &j));
	pthread_rwlock_unlock(&r->opts_lock);
	count(r, m);
}

void route_model_decline(struct route *r, struct route_model *m)
{
	*m = (struct route_model){ .from = MODEL_FROM_OVERLOAD };
	count(r, m);
}

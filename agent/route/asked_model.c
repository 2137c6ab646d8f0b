/* asked_model.c - the model that a body names, before a pool is chosen.
 *
 * HAProxy's own json_query finds a model that it can see. Clients send "messages" first, so HAProxy
 * sees no model in a body larger than its buffer. Then the request goes to the default pool, whose
 * engines do not know the model. Here the name is the first of: the argument <model> or the path,
 * the body's own (of keys that come twice the last, as in the engines), that of the last whole body
 * of this tenant with the same opening (heads.h). Nothing else is guessed.
 *
 * The openings of a tenant are not shared here, whatever <isolate_tenants> says, because the pool
 * with that option is not known yet. */
#include <assert.h>

#include "agent/route/job_in.h"

const char *model_from_text(enum model_from f)
{
	static const char *const texts[MODEL_FROM_COUNT] = {
		[MODEL_FROM_NONE] = "none", [MODEL_FROM_ARGUMENT] = "argument", [MODEL_FROM_BODY] = "body",
		[MODEL_FROM_HEAD] = "head", [MODEL_FROM_OVERLOAD] = "overload",
	};

	return texts[f];
}

bool model_is_fit(struct span name)
{
	if (name.n == 0 || name.n > PROMPT_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] <= ' ' || name.p[i] > '~' || name.p[i] == '"' || name.p[i] == '\\')
			return false;
	return name.n < 5 || memcmp(name.p, "hash:", 5) != 0;
}

static bool use_name(
    const struct request *rq, struct span asked, enum model_from from, struct route_model *m)
{
	struct span name = model_name_of(model_options_of(&rq->env->opts.models, asked), asked);

	if (!model_is_fit(asked) || !model_is_fit(name))
		return false;
	m->from = from;
	m->n = name.n;
	memcpy(m->name, name.p, name.n);
	m->name[name.n] = '\0';
	return true;
}

static uint64_t heads_scope(const struct route *r, const struct request *rq)
{
	return hash_mix_span(&r->key, hash_mix_span(&r->key, 22, rq->tenant), rq->pool);
}

/* Store the head of a whole body. Returns its scope for the message <route>; 0 if not stored. */
static uint64_t learn_head(struct route *r, const struct request *rq)
{
	const struct prompt *p = rq->prompt;

	if (p->salt.seen || p->json == JSON_BAD)
		return 0;
	if (p->json == JSON_DONE)
		heads_add(r->requests.heads, hash_mix_span(&r->key, 3, rq->tenant), heads_scope(r, rq), p);
	return heads_scope(r, rq);
}

static void use_head(struct route *r, const struct request *rq, struct route_model *m)
{
	const struct prompt *p = rq->prompt;
	struct prompt_head *head;

	if (p->salt.seen || p->json != JSON_MORE || p->model.seen)
		return;
	head = heads_find(r->requests.heads, hash_mix_span(&r->key, 3, rq->tenant), heads_scope(r, rq), p);
	if (head != NULL)
		use_name(rq, head->model, MODEL_FROM_HEAD, m);
	heads_release(head);
}

static void count_model(struct route *r, const struct route_model *m)
{
	pthread_mutex_lock(&r->lock);
	r->stats.models[m->from]++;
	pthread_mutex_unlock(&r->lock);
}

/* Return the path, or "" if it is unknown: such a body may have a model as well (rerank, score,
 * tokenize). */
static struct span path_of(struct span path)
{
	return prompt_api_of_path(path) == API_NONE ? (struct span){ 0 } : path;
}

/* Store the scanner for the message <route> of the same request. */
static void leave_scanner(struct request *rq, const struct request_message *m, uint64_t scope)
{
	const struct scanned_key k = request_scanned_key(rq, m);
	const struct scanned_note note = { .n = rq->raw.n, .scope = scope };
	struct request_env *env = rq->env;

	if (m->has_uid && m->body.n > 0)
		scanned_put(&env->scanned, env->key, &k, &note, &env->opts.prompt, &rq->scratch->body, rq->now);
}

static void find_name(struct route *r, const struct request *rq, struct route_model *m)
{
	const struct prompt *p = rq->prompt;

	if (use_name(rq, rq->model, MODEL_FROM_ARGUMENT, m) || p->json == JSON_BAD)
		return;
	if (p->model.seen)
		use_name(rq, span_of(p->model.s, p->model.n), MODEL_FROM_BODY, m);
	use_head(r, rq, m);
}

void route_model(struct route *r, struct route_scratch *s, const struct route_request *q, msec now,
    struct route_model *m)
{
	struct request_message msg;
	struct request *rq;
	struct job j;

	assert(!s->unfinished);
	*m = (struct route_model){ .from = MODEL_FROM_NONE };
	pthread_rwlock_rdlock(&r->opts_lock);
	job_start(r, s, q, now, &j, &msg);
	rq = &j.rq;
	msg.path = path_of(q->path);
	rq->seq = -1;
	rq->aside = rq->lasting = true;
	request_take_body(rq, &msg);
	request_pay_work(rq, request_take_work(rq, ROUTE_WORK_FULL));
	find_name(r, rq, m);
	leave_scanner(rq, &msg, learn_head(r, rq));
	pthread_rwlock_unlock(&r->opts_lock);
	count_model(r, m);
}

void route_model_decline(struct route *r, struct route_model *m)
{
	*m = (struct route_model){ .from = MODEL_FROM_OVERLOAD };
	count_model(r, m);
}

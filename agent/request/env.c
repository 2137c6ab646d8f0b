/* env.c - what requests have in common, and the memory of a thread: made, changed, freed. */
#include "agent/base/mem.h"
#include "agent/request/request_in.h"

#define SEGMENTS_THREADS	16	/* threads that use the segment cache at once; sizes its locks */

/* Make the segment cache with the first tokenizer. It stays, wiped, after the last one. */
static int make_segments(struct request_env *env, const struct request_opts *o, size_t max_bytes)
{
	const struct segcache_opts so = { .max_bytes = max_bytes, .threads = SEGMENTS_THREADS };

	if (env->segments != NULL || max_bytes < SEGCACHE_LEAST || !models_have_tokenizer(&o->models))
		return 0;
	env->segments = segcache_new(&so, env->key);
	return env->segments != NULL ? 0 : -1;
}

int request_env_init(
    struct request_env *env, const struct request_opts *o, const struct hash_key *key)
{
	*env = (struct request_env){ .key = key, .opts = *o };
	slices_init(&env->slices);
	scanned_init(&env->scanned);
	agree_init(&env->agree);
	if ((env->heads = heads_new(&o->heads, key)) == NULL)
		return -1;
	if (o->turns.max_bytes >= TURNS_LEAST && (env->turns = turns_new(&o->turns, key)) == NULL)
		return -1;
	return make_segments(env, o, o->segcache_max_bytes);
}

void request_env_fini(struct request_env *env)
{
	if (env->key == NULL)
		return;
	slices_fini(&env->slices);
	scanned_fini(&env->scanned);
	agree_fini(&env->agree);
	segcache_free(env->segments);
	heads_free(env->heads);
	turns_free(env->turns);
}

int request_env_take(struct request_env *env, const struct request_opts *o)
{
	if (make_segments(env, o, env->opts.segcache_max_bytes) < 0)
		return -1;
	env->opts.slices_max_bytes = o->slices_max_bytes;
	env->opts.models = o->models;
	return 0;
}

static bool has_model_of(const struct model_table *t, uint64_t fingerprint)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].tok != NULL && tok_fingerprint(t->list[i].tok) == fingerprint)
			return true;
	}
	return t->fallback->tok != NULL && tok_fingerprint(t->fallback->tok) == fingerprint;
}

static bool loses_tokenizer(const struct model_table *old, const struct model_table *next)
{
	for (size_t i = 0; i < old->n; i++) {
		if (old->list[i].tok != NULL && !has_model_of(next, tok_fingerprint(old->list[i].tok)))
			return true;
	}
	return old->fallback->tok != NULL && !has_model_of(next, tok_fingerprint(old->fallback->tok));
}

void request_env_drop_ids(struct request_env *env, const struct model_table *old)
{
	if (loses_tokenizer(old, &env->opts.models))
		segcache_clear(env->segments);
}

void request_env_age(struct request_env *env, msec slices_then, unsigned most, msec now)
{
	slices_age(&env->slices, slices_then, most);
	scanned_age(&env->scanned, now - SCANNED_MS);
}

/* ---- memory of one thread ------------------------------------------------------------------ */

int request_scratch_init(
    struct request_scratch *s, const struct prompt_opts *o, const struct hash_key *key)
{
	return (s->body = body_new(o, key)) != NULL ? 0 : -1;
}

bool request_scratch_ready(struct request_scratch *s)
{
	return s->tok != NULL || (s->tok = tok_scratch_new()) != NULL;
}

static void drop_ids(struct request_scratch *s)
{
	text_ids_free(s->text);
	conversation_free(s->conversation);
	s->text = NULL;
	s->conversation = NULL;
}

void request_scratch_wipe(struct request_scratch *s)
{
	body_reset(s->body, API_NONE);
	drop_ids(s);
	if (s->tok != NULL)
		tok_scratch_wipe(s->tok);
	mem_wipe(s->model, sizeof(s->model));
}

void request_scratch_fini(struct request_scratch *s)
{
	body_free(s->body);
	drop_ids(s);
	tok_scratch_free(s->tok);
	page_vec_free(&s->pages);
}

/* job_tokens.c - pages of token ids: the very ids the engine will see, in blocks as large as its own.
 *
 * job_ids() is the one place that knows how a body becomes ids:
 *
 *   a prompt of ids            as it stands in the body
 *   a prompt that is text      by the model's tokenizer, with the special tokens that its engine adds
 *   a conversation             by its model's template, which makes a text of it first (job_chat.c)
 *
 * What it cannot make stays text: the scanner has made pages of that anyway, and the space says which of both a page is.
 * The words are taken beside the scanner (words.h), and only where somebody wants them: from a body that comes whole when its
 * model is known, and from slices as they come, as they are gone when the model is known.
 *
 * Cost: a look at each byte of the body, and what it takes to encode words that were not seen before, which is bounded; so is
 * what a loop is held for. What is beyond the bound is counted in tokens by its length, and its pages are left out: the next request
 * with the same beginning finds that in the cache of segments, and goes on from there. */
#include "agent/base/mem.h"
#include "agent/route/job.h"

static bool encodes(const struct model_opts *m)
{
	return m->mode == MODEL_TOKENS && m->tok != NULL;
}

/* Ids are paged by the scanner already where blocks are as large as it takes them to be. */
static bool wants_words(const struct route_opts *o, const struct model_opts *m)
{
	return encodes(m) || model_block_of(o, m) != o->prompt.token_page;
}

bool job_wants_words(const struct route_opts *o, enum prompt_api api)
{
	if (!prompt_text_possible(api))
		return false;
	for (size_t i = 0; i < o->n_models; i++) {
		if (wants_words(o, &o->models[i]))
			return true;
	}
	return wants_words(o, &o->model_default);
}

/* NULL: they were not kept, or there is no memory. */
static struct words *words_of(struct job *j)
{
	struct route_scratch *s = j->scratch;

	if (j->sliced != NULL)
		return j->sliced->words;
	if (s->words == NULL && (s->words = words_new()) == NULL)
		return NULL;
	words_reset(s->words, j->prompt->api, j->opts->prompt.max_depth);
	words_feed(s->words, j->raw);
	return s->words;
}

uint64_t job_whose(const struct route *r, const struct job *j)
{
	const struct prompt_name *salt = &j->prompt->salt;
	uint64_t h = hash_mix_span(&r->key, 20, j->pool_opts->isolate_tenants ? j->tenant : (struct span){ 0 });

	return salt->seen ? hash_mix_span(&r->key, h, span_of(salt->s, salt->n)) : h;
}

/* Of text that is not all encoded: what is left is as dense as what is not. */
static uint64_t tokens_of(const struct words_ids *ids)
{
	if (ids->left == 0)
		return ids->n;
	if (ids->n == 0 || ids->bytes == 0)
		return ids->n + ids->left / TEXT_BYTES_PER_TOKEN;
	return ids->n + (uint64_t)((double)ids->left * (double)ids->n / (double)ids->bytes);
}

/* Ids of words, where a tokenizer is asked for. */
static enum words_result ids_of_text(struct route *r, struct job *j, struct words_ids *out)
{
	struct route_scratch *s = j->scratch;
	struct words_ask ask = {
		.tok = j->model_opts->tok, .cache = r->segments, .tenant = job_whose(r, j),
		.special = j->model_opts->special, .work = &j->work,
		.max_ids = (size_t)j->opts->prompt.max_pages * model_block_of(j->opts, j->model_opts),
	};
	enum words_result got = WORDS_FAILED;
	struct words *w;

	if (j->sliced == NULL && !job_pay_scan(j)) {
		j->news.bounded = true;
		return WORDS_NONE;
	}
	w = words_of(j);
	if (s->tok == NULL)
		s->tok = tok_scratch_new();
	ask.scratch = s->tok;
	if (w != NULL && s->tok != NULL) {
		got = words_ids(w, &ask, out);
		j->news = words_news(w);
	} else {
		j->news.failed = true;
	}
	return got;
}

static bool has_tok(struct job *j)
{
	struct route_scratch *s = j->scratch;

	return s->tok != NULL || (s->tok = tok_scratch_new()) != NULL;
}

/* What the engine makes of the body of <j>, as far as it was seen: ids that stay whatever follows. False: it stays text, or
 * pages that the scanner made. */
static bool job_ids(struct route *r, struct job *j, struct words_ids *out)
{
	const struct words_ask as_they_are = { .tok = NULL };
	const struct model_opts *m = j->model_opts;
	struct words *w;

	if (!prompt_text_possible(j->prompt->api))
		return encodes(m) && has_tok(j) && job_chat_ids(r, j, out);
	if (j->prompt->mode == PROMPT_TEXT)
		return encodes(m) && ids_of_text(r, j, out) == WORDS_MADE;
	if (model_block_of(j->opts, m) == j->opts->prompt.token_page && !j->prompt->truncates)
		return false;
	w = words_of(j);
	return w != NULL && words_ids(w, &as_they_are, out) == WORDS_MADE;
}

static int page_ids(const struct route *r, const struct job *j, const struct words_ids *ids, uint32_t page, struct page_vec *out)
{
	size_t from = 0;

	out->n = 0;
	for (size_t i = 0; i < ids->n_runs; i++) {
		if (prompt_pages_of_ids(&r->key, ids->p + from, ids->runs[i].end - from, page, from > 0, j->opts->prompt.max_pages,
					out) < 0)
			return -1;
		from = ids->runs[i].end;
	}
	return 0;
}

uint64_t job_agree_key(const struct route *r, const struct model_opts *m)
{
	uint64_t h = hash_mix_span(&r->key, 21, span_str(m->name));

	h = hash_mix(&r->key, h, tok_fingerprint(m->tok));
	return hash_mix(&r->key, h, m->chat != NULL ? chat_fingerprint(m->chat) : 0) | 1;
}

/* All that came before the first answer: the next turns of a conversation have it as well. */
static uint32_t talk_of(const struct route *r, const struct prompt *p)
{
	uint32_t n = p->n_first > 0 ? p->n_first : p->messages.n;

	return (uint32_t)hash64(&r->key, p->messages.p, n * sizeof(*p->messages.p));
}

static void refer(const struct route *r, struct job *j)
{
	j->agree = (struct agree_ref){
		.model = job_agree_key(r, j->model_opts), .who = hash_mix_span(&r->key, 23, j->tenant),
		.talk = talk_of(r, j->prompt), .kind = agree_kind(j->prompt),
	};
}

static bool disagrees(struct route *r, const struct job *j)
{
	bool off;

	if (j->agree.model == 0 || !agree_any_off(&r->agree))
		return false;
	pthread_mutex_lock(&r->lock);
	off = agree_off(&r->agree, &j->agree, j->now);
	pthread_mutex_unlock(&r->lock);
	return off;
}

/* Pages of ids that the scanner made hold for a prompt that the engine takes as it is. */
static bool no_token_pages(struct job *j)
{
	j->scratch->pages.n = 0;
	j->mode = PROMPT_TOKENS;
	j->page = model_block_of(j->opts, j->model_opts);
	j->tokens = j->prompt->n_units;
	return true;
}

/* Of a text that cannot be encoded in parts nothing may be there before its end, nor of a piece that is too long: text finds such
 * prompts again, and ids do not. */
bool job_token_pages(struct route *r, struct job *j)
{
	struct page_vec *pages = &j->scratch->pages;
	uint32_t page = model_block_of(j->opts, j->model_opts);
	struct words_ids ids;

	if (encodes(j->model_opts))
		refer(r, j);
	if (disagrees(r, j))
		return false;
	if (work_spent(&j->work))
		return false;
	if (!job_ids(r, j, &ids))
		return j->prompt->truncates && j->prompt->mode == PROMPT_TOKENS && no_token_pages(j);
	if (page_ids(r, j, &ids, page, pages) < 0 || (pages->n == 0 && ids.left > 0))
		return false;
	j->mode = PROMPT_TOKENS;
	j->page = page;
	j->tokens = tokens_of(&ids);
	if (ids.n_runs <= 1 && ids.left == 0) {
		j->ids = ids.p;
		j->n_ids = ids.n;
	}
	return true;
}

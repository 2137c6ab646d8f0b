/* token_pages.c - pages of token ids: the ids the engine will compute, in blocks of its size.
 *
 * make_ids() is the one place that decides how a body becomes ids:
 *
 *   a prompt of ids          as it is in the body
 *   a prompt that is text    by the model's tokenizer, with the special tokens that its engine adds
 *   a conversation           by its model's template, which makes a text of it first (chat_pages.c)
 *
 * What cannot become ids stays text: the scanner has made pages of it anyway, and the space says of
 * which kind a page is. The text itself is kept beside the scanner (text_ids_in.h) only if a model
 * may need it: of a body that comes whole when its model is known; of slices as they come, because
 * they are gone when the model is known.
 *
 * Cost: a look at each byte of the body, and the encoding of words that were not seen before, which
 * is bounded. Text beyond the bound counts as tokens by its length and has no pages. The next
 * request with the same beginning finds that beginning in the segment cache and gets further. */
#include "agent/request/request_in.h"

/* Tell if pages must be made of the text. The scanner has made pages of ids already, if the
 * model's block is of the size it was given. */
static bool wants_text(const struct prompt_opts *o, const struct model_opts *m)
{
	return model_encodes(m) || model_block_of(o, m) != o->token_page;
}

bool request_wants_text(const struct request_env *env, enum prompt_api api)
{
	const struct model_table *t = &env->opts.models;

	if (!prompt_text_possible(api))
		return false;
	for (size_t i = 0; i < t->n; i++) {
		if (wants_text(&env->opts.prompt, &t->list[i]))
			return true;
	}
	return wants_text(&env->opts.prompt, t->fallback);
}

/* Return the text of the body. Returns NULL if it was not kept or there is no memory. */
static struct text_ids *text_of(struct request *rq)
{
	struct request_scratch *s = rq->scratch;

	if (rq->sliced != NULL)
		return rq->sliced->text;
	if (s->text == NULL && (s->text = text_ids_new()) == NULL)
		return NULL;
	text_ids_reset(s->text, rq->prompt->api, rq->env->opts.prompt.max_depth);
	text_ids_feed(s->text, rq->raw);
	return s->text;
}

uint64_t request_whose(const struct request *rq)
{
	const struct hash_key *key = rq->env->key;
	const struct prompt_name *salt = &rq->prompt->salt;
	uint64_t h = hash_mix_span(key, 20, request_tenant(rq));

	return salt->seen ? hash_mix_span(key, h, span_of(salt->s, salt->n)) : h;
}

/* Return the tokens of a text that is not all encoded: the rest is taken for as dense. */
static uint64_t tokens_of(const struct prompt_ids *ids)
{
	uint64_t n = ids->before + ids->n;

	if (ids->left == 0)
		return n;
	if (ids->n == 0 || ids->bytes == 0)
		return n + ids->left / TEXT_BYTES_PER_TOKEN;
	return n + (uint64_t)((double)ids->left * (double)ids->n / (double)ids->bytes);
}

/* Encode a prompt that is text. */
static enum ids_result ids_of_text(struct request *rq, struct prompt_ids *out)
{
	struct request_scratch *s = rq->scratch;
	const struct prompt_opts *o = &rq->env->opts.prompt;
	struct ids_ask ask = {
		.tok = rq->model_opts->tok, .cache = rq->env->segments, .tenant = request_whose(rq),
		.special = rq->model_opts->special, .work = &rq->work,
		.max_ids = (size_t)o->max_pages * model_block_of(o, rq->model_opts),
	};
	enum ids_result got = IDS_FAILED;
	struct text_ids *w;

	if (rq->sliced == NULL && !request_pay_scan(rq, 0, UINT64_MAX)) {
		rq->news.bounded = true;
		return IDS_NONE;
	}
	w = text_of(rq);
	if (w == NULL || !request_scratch_ready(s)) {
		rq->news.failed = true;
		return IDS_FAILED;
	}
	ask.scratch = s->tok;
	got = text_ids_make(w, &ask, out);
	rq->news = text_ids_news(w);
	return got;
}

/* Make ids of the part of the body that was seen: ids that stay the same whatever follows. Returns
 * false if it stays text, or has pages that the scanner made. */
static bool make_ids(struct request *rq, struct prompt_ids *out)
{
	const struct ids_ask as_they_are = { .tok = NULL };
	const struct prompt_opts *o = &rq->env->opts.prompt;
	const struct model_opts *m = rq->model_opts;
	struct text_ids *w;

	if (!prompt_text_possible(rq->prompt->api))
		return model_encodes(m) && request_scratch_ready(rq->scratch) && request_chat_ids(rq, out);
	if (rq->prompt->mode == PROMPT_TEXT)
		return model_encodes(m) && ids_of_text(rq, out) == IDS_MADE;
	if (model_block_of(o, m) == o->token_page && !rq->prompt->truncates)
		return false;
	w = text_of(rq);
	return w != NULL && text_ids_make(w, &as_they_are, out) == IDS_MADE;
}

static int page_ids(
    const struct request *rq, const struct prompt_ids *ids, uint32_t page, struct page_vec *out)
{
	const struct request_env *env = rq->env;
	size_t from = 0;

	out->n = ids->known;
	for (size_t i = 0; i < ids->n_runs; i++) {
		if (prompt_pages_of_ids(env->key, ids->p + from, ids->runs[i].end - from, page, from > 0,
					env->opts.prompt.max_pages, out) < 0)
			return -1;
		from = ids->runs[i].end;
	}
	return 0;
}

uint64_t request_agree_key(const struct hash_key *key, const struct model_opts *m)
{
	uint64_t h = hash_mix_span(key, 21, span_str(m->name));

	h = hash_mix(key, h, tok_fingerprint(m->tok));
	return hash_mix(key, h, m->chat != NULL ? chat_fingerprint(m->chat) : 0) | 1;
}

/* Return a hash of all that comes before the first answer: further turns of a conversation have it
 * as well. */
static uint32_t conversation_of(const struct request *rq)
{
	const struct prompt *p = rq->prompt;
	uint32_t n = p->n_first > 0 ? p->n_first : p->messages.n;

	return (uint32_t)hash64(rq->env->key, p->messages.p, n * sizeof(*p->messages.p));
}

static void refer(struct request *rq)
{
	const struct hash_key *key = rq->env->key;

	rq->agree = (struct agree_ref){
		.model = request_agree_key(key, rq->model_opts), .who = hash_mix_span(key, 23, rq->tenant),
		.conversation = conversation_of(rq), .kind = agree_kind(rq->prompt),
	};
}

/* Handle "truncate_prompt_tokens" that leaves no ids to know: the pages of the scanner would be
 * those of the whole prompt. */
static bool no_token_pages(struct request *rq)
{
	rq->scratch->pages.n = 0;
	rq->mode = PROMPT_TOKENS;
	rq->page = model_block_of(&rq->env->opts.prompt, rq->model_opts);
	rq->tokens = rq->prompt->n_units;
	return true;
}

/* A text that cannot be encoded in parts, or one long piece, may have no ids before its end: then
 * pages of text find such prompts again, and ids do not. */
bool request_token_pages(struct request *rq)
{
	struct page_vec *pages = &rq->scratch->pages;
	uint32_t page = model_block_of(&rq->env->opts.prompt, rq->model_opts);
	struct prompt_ids ids;

	if (model_encodes(rq->model_opts))
		refer(rq);
	if (rq->agree.model != 0 && agree_off(&rq->env->agree, &rq->agree, rq->now))
		return false;
	if (work_spent(&rq->work))
		return false;
	if (!make_ids(rq, &ids))
		return rq->prompt->truncates && rq->prompt->mode == PROMPT_TOKENS && no_token_pages(rq);
	if (page_ids(rq, &ids, page, pages) < 0 || (pages->n == 0 && ids.left > 0))
		return false;
	rq->mode = PROMPT_TOKENS;
	rq->page = page;
	rq->tokens = tokens_of(&ids);
	request_chat_leave(rq, &ids);
	if (ids.n_runs <= 1 && ids.left == 0) {
		rq->ids = ids.p;
		rq->ids_from = ids.before;
		rq->n_ids = ids.before + ids.n;
	}
	return true;
}

/* Prompts of completions, embeddings and generate: a text, ids, or a list of either.
 *
 * Each prompt of a list starts on a page of its own. The first page of every prompt after the first
 * carries a mark, because its text does not continue the text before it. Empty prompts are skipped.
 * A text ends with a padded page; ids that do not fill a page are dropped.
 *
 * Ids are integers 0 .. 2^32-1. If a list holds anything else, or mixes text and ids, the body
 * has no prompt (prompt.found is false), because every engine rejects it. The pages before that
 * element stay, so that the pages of a truncated body are still a prefix of those of the whole
 * body. */
#include <endian.h>

#include "agent/prompt/body_in.h"

enum { BATCH = 0x42415443 };

/* Start a new value of the messages segment: drop the pages that another key left there. A null of
 * another key than the current holder changes nothing. */
void prompt_void(struct body *b, bool null)
{
	struct request *r = &b->r;

	if (null && r->prompt_rule != r->rule)
		return;
	body_trail_void(b, &b->prompt.messages);
	page_drop(&b->env, &b->prompt.messages, 0);
	r->prompt_rule = r->rule;
	r->found = r->bad_prompt = false;
	r->leading = true;
	r->n_leading = r->n_history = r->n_answer = r->n_first = r->shape = 0;
	r->message_units = 0;
	r->batch.kind = KIND_NONE;
	r->batch.n_items = r->batch.fill = 0;
	b->prompt.mode = PROMPT_TEXT;
	b->prompt.prompt_seen = b->prompt.developer = false;
}

static void text_open(struct body *b, enum after after)
{
	struct batch *x = &b->r.batch;
	struct pager *pg = &b->r.msg.run[RUN_CONTENT];

	x->open = true;
	pager_start(pg, &b->prompt.messages, x->n_items > 0 ? BATCH : 0);
	body_value_text(b, pg, after);
}

void batch_text_end(struct body *b)
{
	struct batch *x = &b->r.batch;
	struct pager *pg = &b->r.msg.run[RUN_CONTENT];

	x->open = false;
	pager_pad(&b->env, pg);
	b->r.message_units += pg->n_units;
	if (pg->n_units > 0) {
		x->n_items++;
		b->r.found = true;
	}
}

static void no_prompt(struct body *b, enum json_event ev)
{
	b->r.bad_prompt = true;
	body_value_skip(b, ev);
}

void prompt_start(struct body *b, enum json_event ev, struct span text)
{
	prompt_void(b, ev == JSON_NULL);
	if (ev == JSON_STRING) {
		b->r.batch.kind = KIND_TEXT;
		text_open(b, AFTER_PROMPT);
	} else if (ev == JSON_ARRAY) {
		body_enter(b, IN_BATCH, ev);
	} else if (ev != JSON_NULL) {
		no_prompt(b, ev);
	}
}

/* Return the id that <text> spells, or -1 if it is not one. */
static int64_t id_of(struct span text)
{
	int64_t v = 0;
	size_t i;

	if (text.n > 10)
		return -1;
	for (i = 0; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return -1;
		v = v * 10 + (text.p[i] - '0');
	}
	return v <= UINT32_MAX ? v : -1;
}

static void ids_open(struct body *b)
{
	b->r.batch.fill = 0;
	b->r.batch.mark = b->r.batch.n_items > 0 ? BATCH : 0;
	b->r.batch.any = false;
	b->r.batch.used = true;
}

void batch_ids_end(struct body *b)
{
	b->r.batch.n_items += b->r.batch.any;
	b->r.batch.fill = 0;
}

static void ids_page(struct body *b)
{
	struct batch *x = &b->r.batch;
	page_key k = hash64(b->key, x->ids, sizeof(x->ids[0]) * x->fill);

	if (x->mark != 0)
		k = hash_mix(b->key, k, x->mark);
	x->mark = 0;
	x->fill = 0;
	page_push(&b->env, &b->prompt.messages, k);
}

void batch_id(struct body *b, enum json_event ev, struct span text)
{
	struct batch *x = &b->r.batch;
	int64_t v = ev != JSON_NUMBER ? -1 : b->r.json.integer >= 0 ? b->r.json.integer : id_of(text);

	if (v < 0 || b->r.bad_prompt) {
		no_prompt(b, ev);
		return;
	}
	x->ids[x->fill++] = htole32((uint32_t)v);
	x->any = true;
	b->r.found = true;
	b->r.message_units++;
	if (x->fill == b->opts.token_page)
		ids_page(b);
}

/* Read one element of a list. The first element sets the kind of the list. */
void batch_element(struct body *b, enum json_event ev, struct span text)
{
	struct batch *x = &b->r.batch;
	enum kind kind = ev == JSON_STRING ? KIND_TEXT : ev == JSON_NUMBER ? KIND_IDS :
			 ev == JSON_ARRAY ? KIND_LISTS : KIND_NONE;

	if (kind == KIND_NONE || (x->kind != KIND_NONE && x->kind != kind) || b->r.bad_prompt) {
		no_prompt(b, ev);
		return;
	}
	if (kind != KIND_TEXT)
		b->prompt.mode = PROMPT_TOKENS;
	if (kind == KIND_LISTS || (kind == KIND_IDS && x->kind == KIND_NONE))
		ids_open(b);
	x->kind = kind;
	if (kind == KIND_TEXT)
		text_open(b, AFTER_ITEM);
	else if (kind == KIND_IDS)
		batch_id(b, ev, text);
	else
		body_enter(b, IN_IDS, ev);
}

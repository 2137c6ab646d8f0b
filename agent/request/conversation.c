/* conversation.c - the text of a conversation, and its ids.
 *
 * A whole text is encoded at once through the segment cache: of a conversation that continues, only
 * the new part costs anything. If the work runs out, the ids end there. Of a truncated text only
 * the ids that nothing later can change count. Harmony's runs are encoded one by one, as its
 * engines do: a long one in chunks of the cache, a token as itself. */
#include "agent/base/mem.h"
#include "agent/request/conversation_in.h"
#include "agent/tok/stream.h"

#define VALUES_MOST	((size_t)64 << 20)	/* bytes of values while a body is rendered */
#define PORTION		((size_t)64 << 10)
#define KEPT_MOST	((size_t)512 << 10)	/* bytes of a text whose ids may still change */
/* cost of finding a token by name, and one that was found before, in steps of base/work.h */
#define TOKEN_STEPS	60u
#define TOKEN_AGAIN	3u
#define TOKENS_KEPT	6u			/* harmony has no more in a conversation */

struct conversation {
	struct chat_scratch *chat;
	struct stream *stream;
	struct ids ids, all;
	struct text_item run;
	struct turn_ids turn;
};

struct conversation *conversation_new(const struct hash_key *key)
{
	struct conversation *t = mem_alloc(sizeof(*t));

	if (t != NULL && (t->chat = chat_scratch_new(VALUES_MOST, key)) != NULL)
		return t;
	mem_free(t);
	return NULL;
}

void conversation_free(struct conversation *t)
{
	if (t == NULL)
		return;
	stream_free(t->stream);
	chat_scratch_free(t->chat);
	ids_free(&t->ids);
	ids_free(&t->all);
	turn_ids_fini(&t->turn);
	mem_free(t);
}

struct turn_ids *conversation_turn(struct conversation *t)
{
	return &t->turn;
}

static struct cached cached_for(const struct conversation_ask *a)
{
	return (struct cached){
		.tok = a->by.tok, .scratch = a->by.scratch, .cache = a->by.cache,
		.tenant = a->by.tenant,
	};
}

/* Encode the beginning of a longer text in portions, and set <*used> to the bytes that have ids. */
static int encode_beginning(struct conversation *t, const struct conversation_ask *a,
    struct span text, unsigned flags, struct cached_place *place, size_t *used)
{
	struct cached by = cached_for(a);
	enum stream_result r = STREAM_DONE;
	size_t at = place->from, sure = 0;

	stream_free(t->stream);
	t->stream = stream_new(&(struct stream_opts){ .max_bytes = KEPT_MOST, .flags = flags });
	if (t->stream == NULL)
		return -1;
	r = at > 0 ? stream_begin_on(t->stream, &by, span_of(text.p, at), &t->ids) :
		     stream_begin(t->stream, &by, &t->ids);
	if (place->at > 0 && tok_cached_goes_on(&by))
		stream_note(t->stream, tok_cached_settled(&by, text, place));
	while (r == STREAM_DONE && at < text.n) {
		size_t more = text.n - at < PORTION ? text.n - at : PORTION;

		if (more > KEPT_MOST - stream_left(t->stream))
			break;
		if ((r = stream_feed(t->stream, span_of(text.p + at, more))) != STREAM_DONE)
			break;
		at += more;
		r = stream_work(t->stream, &a->by.work->left);
	}
	if ((r < 0 && r != STREAM_SPENT) ||
	    (r == STREAM_DONE && stream_peek(t->stream, &t->ids, &sure, &a->by.work->left) < 0))
		return -1;
	*used = at - stream_left(t->stream) + sure;
	stream_noted(t->stream, &place->cut, &place->cut_n, &place->n_ids);
	return r != STREAM_DONE || at < text.n ? TOK_SPENT : 0;
}

/* Lend the budget to the encoder, which charges its scratch. */
static void lend_work(const struct conversation_ask *a)
{
	*tok_scratch_work(a->by.scratch) = *a->by.work;
}

static void return_work(const struct conversation_ask *a)
{
	struct work_left *w = tok_scratch_work(a->by.scratch);

	*a->by.work = *w;
	work_unbound(w);
}

static int encode_text(struct conversation *t, const struct conversation_ask *a, struct span text,
    unsigned flags, bool part, struct cached_place *place, size_t *used)
{
	struct cached by = cached_for(a);
	int rc;

	if (part)
		return encode_beginning(t, a, text, flags, place, used);
	lend_work(a);
	rc = tok_cached_on(&by, text, flags, place, &t->ids, used);
	return_work(a);
	return rc;
}

/* Encode text in which no special token is recognized. */
static int encode_plain(struct conversation *t, const struct conversation_ask *a, struct span text)
{
	struct cached by = cached_for(a);
	int rc;

	lend_work(a);
	rc = cached_plain(&by, text, &t->ids);
	return_work(a);
	return rc;
}

/* Tokens that were found, by name. */
struct tokens {
	struct { struct span name; token_id id; } at[TOKENS_KEPT];
	unsigned n;
};

static token_id find_token(struct tokens *of, const struct conversation_ask *a, struct span name)
{
	token_id id;

	for (unsigned i = 0; i < of->n; i++) {
		if (span_eq(of->at[i].name, name)) {
			work_spend(a->by.work, TOKEN_AGAIN);
			return of->at[i].id;
		}
	}
	id = tok_id(a->by.tok, name);
	work_spend(a->by.work, TOKEN_STEPS);
	if (of->n < TOKENS_KEPT) {
		of->at[of->n].name = name;
		of->at[of->n++].id = id;
	}
	return id;
}

static int encode_token(struct conversation *t, token_id id)
{
	if (id == BPE_NO_ID || ids_reserve(&t->ids, 1) < 0)
		return -1;
	t->ids.p[t->ids.n++] = id;
	return 0;
}

/* Encode run by run, until the work is used up. If a run ends at place->at, its ids are counted. */
static int encode_runs(struct conversation *t, const struct conversation_ask *a,
    const struct chat_text *text, struct cached_place *place, size_t *used)
{
	struct tokens tokens = { .n = 0 };
	int rc;

	for (size_t i = 0; i < text->n_runs; i++) {
		const struct chat_run *run = &text->runs[i];
		struct span s = span_of(text->p + run->at, run->n);

		if (work_spent(a->by.work))
			return TOK_SPENT;
		rc = run->kind == RUN_TOKEN ? encode_token(t, find_token(&tokens, a, s))
					    : encode_plain(t, a, s);
		if (rc != 0)
			return rc;
		*used = run->at + run->n;
		if (*used == place->at) {
			place->cut = place->at;
			place->n_ids = t->ids.n;
		}
	}
	return 0;
}

/* Apply "truncate_prompt_tokens". Returns false if it is unknown which ids are left: not all were
 * made, or the tokenizer truncates, which keeps its special tokens. */
static bool truncate_ids(
    struct conversation *t, const struct chat_text *text, bool whole, bool special)
{
	if (text->keep == SIZE_MAX || (t->ids.n <= text->keep && whole))
		return true;
	if (text->side != SIDE_RIGHT && (!whole || (special && text->side == SIDE_USUAL)))
		return false;
	if (t->ids.n <= text->keep)
		return true;
	if (text->side != SIDE_RIGHT)
		memmove(t->ids.p, t->ids.p + (t->ids.n - text->keep), text->keep * sizeof(*t->ids.p));
	t->ids.n = text->keep;
	return true;
}

/* ---- turns ---- */

static int take_rest(struct conversation *t, const struct turn_ids *of)
{
	if (ids_reserve(&t->ids, of->rest.n) < 0)
		return -1;
	if (of->rest.n > 0)
		memcpy(t->ids.p, of->rest.p, of->rest.n * sizeof(*t->ids.p));
	t->ids.n = of->rest.n;
	return 0;
}

/* Render the conversation; on from an earlier turn if that is possible. */
static enum chat_result render(struct conversation *t, const struct conversation_ask *a,
    struct chat_turn *turn, struct chat_text *text, bool *special)
{
	const struct turn_ids *of = a->turn;
	struct chat_body body = a->body;
	enum chat_result r;

	*turn = (struct chat_turn){ .key = a->key, .only = a->only };
	body.turn = of != NULL ? turn : NULL;
	if (of != NULL && of->found) {
		turn->memo = of->memo;
		turn->at = of->state.at;
		turn->lead = span_of(of->lead, of->n_lead);
	}
	for (;;) {
		r = chat_render(a->chat, t->chat, &body, text);
		*special = a->by.special == SPECIAL_ADD || (a->by.special == SPECIAL_AUTO && text->special);
		if (r != CHAT_DONE || !turn->resumed || *special == of->special)
			return r;
		turn->memo.n = 0;
	}
}

/* Note what this turn leaves. */
static void leave_turn(struct turn_ids *to, const struct chat_turn *turn,
    const struct chat_text *text, const struct cached_place *place, bool plain, bool special)
{
	to->found &= turn->resumed;
	to->good = false;
	if (!turn->good || text->keep != SIZE_MAX)
		return;
	if (plain)
		turn_ids_leave_runs(to, place->cut > 0);
	else
		turn_ids_leave(to, span_of(text->p, text->n), turn->text_at, place->cut, place->cut_n);
	to->at = turn->left_at;
	to->left = turn->left;
	to->left_special = special;
	to->n_ids = (uint64_t)(to->found ? to->n_pages : 0) * to->page + place->n_ids;
}

enum chat_result conversation_ids(
    struct conversation *t, const struct conversation_ask *a, struct conversation_ids *out)
{
	struct cached_place place = { .from = 0 };
	struct chat_turn turn;
	struct chat_text text;
	bool plain, special;
	size_t used = 0;
	enum chat_result r = render(t, a, &turn, &text, &special);
	int rc;

	if (r != CHAT_DONE)
		return r;
	t->ids.n = t->all.n = 0;
	if (turn.resumed && take_rest(t, a->turn) < 0)
		return CHAT_NO_MEMORY;
	place.from = turn.resumed ? a->turn->n_shown : 0;
	place.at = turn.good ? turn.text_at : 0;
	plain = text.n_runs > 0 && text.runs[0].kind != RUN_TEXT;
	rc = plain ? encode_runs(t, a, &text, &place, &used) :
		     encode_text(t, a, span_of(text.p, text.n), special ? TOK_SPECIAL : 0, text.part, &place,
			 &used);
	if (rc < 0)
		return CHAT_NO_MEMORY;
	t->run = (struct text_item){ .whole = !text.part && used == text.n };
	if (!truncate_ids(t, &text, t->run.whole, special))
		return CHAT_UNKNOWN;
	if (a->turn != NULL)
		leave_turn(a->turn, &turn, &text, &place, plain, special);
	t->run.whole |= t->ids.n == text.keep;
	t->run.end = t->ids.n;
	*out = (struct conversation_ids){
		.ids = {
			.p = t->ids.p, .runs = &t->run, .n = t->ids.n, .n_runs = 1,
			.bytes = used, .left = t->run.whole ? 0 : text.n - used,
		},
		.part = !t->run.whole, .tools_unseen = text.tools_unseen,
		.system_unseen = text.system_unseen, .developer_unseen = text.developer_unseen,
		.bounded = rc == TOK_SPENT, .resumed = turn.resumed,
	};
	return CHAT_DONE;
}

const token_id *conversation_all(struct conversation *t, const struct conversation_ask *a, size_t n)
{
	struct conversation_ids out;
	struct ids had = t->ids;

	if (t->all.n == 0) {
		t->ids = t->all;
		if (conversation_ids(t, a, &out) != CHAT_DONE)
			t->ids.n = 0;
		t->all = t->ids;
		t->ids = had;
	}
	return t->all.n == n ? t->all.p : NULL;
}

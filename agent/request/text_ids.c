/* text_ids.c - the text of a prompt, and its ids so far.
 *
 *   prompts    [ first prompt ][ second ][ third ...    of the body
 *   encoded    =========================>               <item>: prompt in the stream, <fed> bytes
 *   ids        | BOS  ids .. EOS | BOS ids ..           of <item>, before those that may change
 *
 * Each prompt is a text of its own to the stream. The stream holds back ids of a prompt whose end
 * was not seen (stream_peek). Those that nothing later can change are returned as well, but come
 * after <solid> and are made again next time.
 *
 * The tokenizer is referenced while its ids are here, because a reload may come between two slices.
 */
#include "agent/base/mem.h"
#include "agent/base/vec.h"
#include "agent/request/text_ids_in.h"
#include "agent/tok/stream.h"

#define IDS_KEPT	((size_t)1 << 18)	/* ids whose room stays allocated between two requests */
#define KEPT_MOST	((size_t)256 << 10)	/* bytes of a text whose ids may still change */
#define PORTION		((size_t)64 << 10)	/* bytes fed to a stream at a time */
#define PROMPT_STEPS	20u			/* cost of one more prompt, in steps of base/work.h */

struct text_ids {
	struct prompt_text *text;
	/* the ids were made with */
	struct tok *tok;
	uint64_t tenant;
	bool special;
	uint32_t lives;
	/* progress */
	struct stream *stream;
	struct ids ids;
	size_t solid;			/* ids that cannot change */
	VEC(struct text_item) runs;
	size_t item, fed;
	bool begun, failed;
	bool stopped;			/* inside prompt <item>: there will be no further ids */
	size_t kept_back;		/* bytes of prompt <item> without ids */
	/* ids that "truncate_prompt_tokens" leaves, and where each prompt ends in them */
	struct ids left;
	VEC(struct text_item) left_runs;
	/* counters */
	struct ids_news news;
	bool made, bounded, told_failed;
	uint64_t most;			/* most ids at any time */
};

struct text_ids *text_ids_new(void)
{
	struct text_ids *w = mem_alloc(sizeof(*w));

	if (w != NULL && (w->text = prompt_text_new()) != NULL)
		return w;
	mem_free(w);
	return NULL;
}

/* Wipe and drop all ids. */
static void drop_ids(struct text_ids *w)
{
	if (w->ids.n > 0)
		mem_wipe(w->ids.p, w->ids.n * sizeof(*w->ids.p));
	if (w->left.n > 0)
		mem_wipe(w->left.p, w->left.n * sizeof(*w->left.p));
	w->left.n = 0;
	stream_free(w->stream);
	tok_unref(w->tok);
	w->stream = NULL;
	w->tok = NULL;
	w->ids.n = w->solid = w->runs.n = w->item = w->fed = w->kept_back = 0;
	w->begun = w->failed = w->stopped = false;
}

static void free_ids(struct text_ids *w)
{
	ids_free(&w->ids);
	w->ids = (struct ids){ 0 };
	ids_free(&w->left);
	w->left = (struct ids){ 0 };
	vec_free(&w->runs);
	vec_free(&w->left_runs);
}

void text_ids_free(struct text_ids *w)
{
	if (w == NULL)
		return;
	drop_ids(w);
	free_ids(w);
	prompt_text_free(w->text);
	mem_free(w);
}

size_t text_ids_bytes(const struct text_ids *w)
{
	if (w == NULL)
		return 0;
	return sizeof(*w) + prompt_text_bytes(w->text) + (w->ids.cap + w->left.cap) * sizeof(*w->ids.p) +
	       (w->runs.cap + w->left_runs.cap) * sizeof(*w->runs.p) +
	       (w->stream != NULL ? stream_bytes(w->stream) : 0);
}

void text_ids_reset(struct text_ids *w, enum prompt_api api, uint16_t max_depth)
{
	drop_ids(w);
	if (w->ids.cap > IDS_KEPT || w->left.cap > IDS_KEPT)
		free_ids(w);
	w->news = (struct ids_news){ 0 };
	w->made = w->bounded = w->told_failed = false;
	w->most = 0;
	prompt_text_reset(w->text, api, max_depth);
}

void text_ids_feed(struct text_ids *w, struct span body)
{
	prompt_text_feed(w->text, body.p, body.n);
}

/* ---- ids of text --------------------------------------------------------------------------- */

static bool wants_special(const struct text_ids *w, const struct ids_ask *a)
{
	return a->special == SPECIAL_AUTO ? w->text->special != 0 : a->special == SPECIAL_ADD;
}

static void begin_ids(struct text_ids *w, const struct ids_ask *a)
{
	bool special = wants_special(w, a);

	if (w->tok == a->tok && w->tenant == a->tenant && w->special == special &&
	    w->lives == w->text->lives)
		return;
	drop_ids(w);
	w->tok = tok_ref(a->tok);
	w->tenant = a->tenant;
	w->special = special;
	w->lives = w->text->lives;
}

static bool run_set(struct text_ids *w, size_t i, bool whole)
{
	if (i == w->runs.n && vec_reserve(&w->runs, 1) < 0)
		return false;
	w->runs.p[i] = (struct text_item){ w->ids.n, whole };
	w->runs.n = i + 1;
	return true;
}

static size_t item_at(const struct prompt_text *t, size_t i)
{
	return i > 0 ? t->items.p[i - 1].end : 0;
}

static struct cached cached_by(const struct ids_ask *a)
{
	return (struct cached){
		.tok = a->tok, .scratch = a->scratch, .cache = a->cache, .tenant = a->tenant
	};
}

/* Encode a whole prompt at once, without a copy. If the work runs out, the ids end there; the next
 * request with this text continues from what the segment cache has by then. */
static enum stream_result encode_whole(struct text_ids *w, const struct ids_ask *a)
{
	struct work_left *work = tok_scratch_work(a->scratch);
	size_t at = item_at(w->text, w->item);
	struct span s = span_of(w->text->words.p + at, w->text->items.p[w->item].end - at);
	struct cached by = cached_by(a);
	int rc;

	*work = *a->work;
	rc = tok_cached_some(&by, s, w->special ? TOK_SPECIAL : 0, &w->ids, &w->fed);
	*a->work = *work;
	work_unbound(work);
	if (rc < 0)
		return STREAM_NO_MEMORY;
	w->stopped = rc == TOK_SPENT;
	return w->stopped ? STREAM_MORE : STREAM_DONE;
}

static enum stream_result stream_on(struct text_ids *w, const struct ids_ask *a)
{
	struct cached by = cached_by(a);
	enum stream_result r = STREAM_DONE;

	if (w->stream == NULL && (w->stream = stream_new(&(struct stream_opts){
			.max_bytes = KEPT_MOST, .flags = w->special ? TOK_SPECIAL : 0 })) == NULL)
		return STREAM_NO_MEMORY;
	if (w->begun)
		stream_scratch(w->stream, a->scratch);
	else
		r = stream_begin(w->stream, &by, &w->ids);
	w->begun = w->begun || r == STREAM_DONE;
	return r;
}

/* Feed at most <room> bytes of the prompt that the stream is in. */
static enum stream_result feed_stream(struct text_ids *w, size_t room)
{
	const struct text_item *it = &w->text->items.p[w->item];
	size_t at = item_at(w->text, w->item) + w->fed, n = it->end - at;
	enum stream_result r;

	if (n > room)
		n = room;
	if (n > PORTION)
		n = PORTION;
	if (n > 0 && (r = stream_feed(w->stream, span_of(w->text->words.p + at, n))) != STREAM_DONE)
		return r;
	w->fed += n;
	if (it->whole && at + n == it->end)
		stream_end(w->stream);
	return STREAM_DONE;
}

/* Encode in portions. Returns STREAM_MORE if it stops at a piece that is too long to wait for its
 * end. */
static enum stream_result encode_more(struct text_ids *w, const struct ids_ask *a)
{
	size_t all = w->text->items.p[w->item].end - item_at(w->text, w->item), left;
	enum stream_result r = stream_on(w, a);

	while (r == STREAM_DONE) {
		left = stream_left(w->stream);
		if (w->fed < all && (left >= KEPT_MOST || w->ids.n >= a->max_ids))
			return STREAM_MORE;
		if ((r = feed_stream(w, KEPT_MOST - left)) == STREAM_DONE)
			r = stream_work(w->stream, &a->work->left);
		w->kept_back = stream_left(w->stream);
		if (w->fed == all)
			break;
	}
	w->stopped = r == STREAM_SPENT;
	return w->stopped ? STREAM_MORE : r;
}

/* Encode prompt after prompt. Returns STREAM_DONE at the end of the text; STREAM_MORE if the work
 * or the number of ids is used up. */
static enum stream_result encode_prompts(struct text_ids *w, const struct ids_ask *a)
{
	const struct prompt_text *t = w->text;
	enum stream_result r = STREAM_DONE;

	for (; w->item < t->items.n; w->item++) {
		bool whole = t->items.p[w->item].whole;

		if (w->stopped || w->ids.n >= a->max_ids || work_spent(a->work))
			return STREAM_MORE;
		r = whole && !w->begun ? encode_whole(w, a) : encode_more(w, a);
		w->solid = w->ids.n;
		if (r >= 0 && !run_set(w, w->item, r == STREAM_DONE && whole))
			return STREAM_NO_MEMORY;
		if (r != STREAM_DONE || !whole)
			return r;
		work_spend(a->work, PROMPT_STEPS);
		w->begun = false;
		w->fed = 0;
	}
	return r;
}

/* Append ids of held back text that cannot change, after those that stay. */
static enum stream_result peek_ids(struct text_ids *w, struct work_left *work)
{
	size_t used = 0;

	if (!w->begun || stream_peek(w->stream, &w->ids, &used, &work->left) < 0)
		return w->begun ? STREAM_NO_MEMORY : STREAM_DONE;
	w->kept_back -= used;
	w->runs.p[w->runs.n - 1].end = w->ids.n;
	return STREAM_DONE;
}

static void add_news(struct text_ids *w, bool bounded)
{
	w->news.made |= !w->made;
	w->news.bounded |= bounded && !w->bounded;
	w->made = true;
	w->bounded |= bounded;
	if (w->ids.n > w->most) {
		w->news.ids += w->ids.n - w->most;
		w->most = w->ids.n;
	}
}

static enum ids_result fail_ids(struct text_ids *w)
{
	w->news.failed |= !w->told_failed;
	w->failed = w->told_failed = true;
	return IDS_FAILED;
}

static enum ids_result ids_of_text(
    struct text_ids *w, const struct ids_ask *a, struct prompt_ids *out)
{
	const struct prompt_text *t = w->text;
	enum stream_result r;
	uint64_t done;

	begin_ids(w, a);
	if (w->failed)
		return IDS_FAILED;
	w->ids.n = w->solid;
	r = encode_prompts(w, a);
	if (r == STREAM_DONE)
		r = peek_ids(w, a->work) < 0 ? STREAM_NO_MEMORY : r;
	if (r < 0)
		return fail_ids(w);
	add_news(w, r == STREAM_MORE);
	done = item_at(t, w->item) + w->fed - (w->begun ? w->kept_back : 0);
	*out = (struct prompt_ids){
		.p = w->ids.p,
		.n = w->ids.n,
		.runs = w->runs.p,
		.n_runs = w->runs.n,
		.bytes = done,
		.left = t->words.n - done,
	};
	return IDS_MADE;
}

/* ---- truncation ---------------------------------------------------------------------------- */

static bool left_room(struct text_ids *w, const struct prompt_ids *ids)
{
	w->left.n = 0;
	return ids_reserve(&w->left, ids->n) == 0 && vec_reserve(&w->left_runs, ids->n_runs) == 0;
}

/* Append the ids that are left of a prompt of <n> ids. Returns false if they are unknown: their
 * number is, or not all ids were made, or the tokenizer itself truncates, which keeps special
 * tokens. */
static bool append_left(
    struct text_ids *w, const token_id *ids, size_t n, bool whole, struct text_item *run)
{
	const struct prompt_text *t = w->text;
	bool right = t->side == 'r' || (t->side == '\0' && t->api == API_EMBEDDINGS);
	size_t keep = (size_t)t->keep, take = n < keep ? n : keep;

	if (keep == 0 || (!right && !whole) ||
	    (n > keep && t->side == '\0' && t->kind == TEXT_WORDS && w->special))
		return false;
	if (take > 0)
		memcpy(w->left.p + w->left.n, ids + (right ? 0 : n - take), take * sizeof(*ids));
	w->left.n += take;
	*run = (struct text_item){ w->left.n, whole || take == keep };
	return true;
}

/* If the ids are unknown there are none. Then a prompt of text stays text. */
static enum ids_result truncate_ids(struct text_ids *w, struct prompt_ids *out)
{
	size_t from = 0;

	if (!left_room(w, out))
		return fail_ids(w);
	for (size_t i = 0; i < out->n_runs; i++) {
		const struct text_item *run = &out->runs[i];

		if (!append_left(w, out->p + from, run->end - from, run->whole, &w->left_runs.p[i])) {
			*out = (struct prompt_ids){ .p = w->left.p, .runs = w->left_runs.p };
			return w->text->kind == TEXT_WORDS ? IDS_NONE : IDS_MADE;
		}
		from = run->end;
	}
	out->p = w->left.p;
	out->runs = w->left_runs.p;
	out->n = w->left.n;
	return IDS_MADE;
}

/* ---- text or ids --------------------------------------------------------------------------- */

static enum ids_result all_ids(struct text_ids *w, const struct ids_ask *a, struct prompt_ids *out)
{
	const struct prompt_text *t = w->text;

	if (t->lost)
		return fail_ids(w);
	if (t->bad || t->kind == TEXT_NONE)
		return IDS_NONE;
	if (t->kind == TEXT_WORDS)
		return a->tok != NULL ? ids_of_text(w, a, out) : IDS_NONE;
	*out = (struct prompt_ids){
		.p = t->ids.p, .runs = t->items.p, .n = t->ids.n, .n_runs = t->items.n,
	};
	return IDS_MADE;
}

enum ids_result text_ids_make(struct text_ids *w, const struct ids_ask *a, struct prompt_ids *out)
{
	enum ids_result r = all_ids(w, a, out);

	return r == IDS_MADE && w->text->keep >= 0 ? truncate_ids(w, out) : r;
}

struct ids_news text_ids_news(struct text_ids *w)
{
	struct ids_news n = w->news;

	w->news = (struct ids_news){ 0 };
	return n;
}

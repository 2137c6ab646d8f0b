/* words.c - the words of a request, and the ids of them so far.
 *
 *   prompts    [ first prompt ][ second ][ third ...              of the body
 *   encoded    =========================>                         <item>: the prompt the stream is in; <fed>: bytes it has
 *   ids        | BOS  ids .. EOS | BOS ids ..                     of <item>, in front of those that may still change
 *
 * Each prompt is a text of its own to the stream. What it keeps back of a prompt whose end was not seen (stream_peek) is told as
 * well, as far as nothing that follows can change it, but stands behind <solid> and is made anew next time.
 *
 * The tokenizer is counted while ids of it are here: a reload may come between two slices. */
#include "agent/base/mem.h"
#include "agent/request/text_ids_in.h"
#include "agent/tok/stream.h"

#define IDS_KEPT	((size_t)1 << 18)	/* room that stays between two requests */
#define KEPT_MOST	((size_t)256 << 10)	/* of a text whose ids are not sure yet */
#define PORTION		((size_t)64 << 10)	/* that a stream is given at a time */
#define PROMPT_STEPS	20u			/* of one more prompt, in steps of work.h */

struct text_ids {
	struct prompt_text *text;
	/* what the ids were made by and of */
	struct tok *tok;
	uint64_t tenant;
	bool special;
	uint32_t lives;
	/* how far they are */
	struct stream *stream;
	struct ids ids;
	size_t solid;			/* of them, those that stay */
	struct { struct text_item *p; size_t n, cap; } runs;
	size_t item, fed;
	bool begun, failed;
	bool stopped;			/* inside prompt <item>, which cannot go on: these are all ids there will be */
	size_t kept_back;		/* bytes of prompt <item> that its ids are not of */
	struct ids left;		/* what "truncate_prompt_tokens" leaves of the ids, and where each prompt of it ends */
	struct { struct text_item *p; size_t cap; } left_runs;
	/* for counters */
	struct ids_news news;
	bool made, bounded, told_failed;
	uint64_t most;			/* ids there ever were */
};

struct text_ids *text_ids_new(void)
{
	struct text_ids *w = mem_alloc(sizeof(*w));

	if (w != NULL && (w->text = prompt_text_new()) != NULL)
		return w;
	mem_free(w);
	return NULL;
}

/* No ids: what there was of them is wiped. */
static void forget(struct text_ids *w)
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
	mem_free(w->runs.p);
	memset(&w->runs, 0, sizeof(w->runs));
	mem_free(w->left_runs.p);
	memset(&w->left_runs, 0, sizeof(w->left_runs));
}

void text_ids_free(struct text_ids *w)
{
	if (w == NULL)
		return;
	forget(w);
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
	forget(w);
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

/* ---- ids of words ---------------------------------------------------------------------------- */

static bool wants_special(const struct text_ids *w, const struct ids_ask *a)
{
	return a->special == SPECIAL_AUTO ? w->text->special != 0 : a->special == SPECIAL_ADD;
}

static void begin(struct text_ids *w, const struct ids_ask *a)
{
	bool special = wants_special(w, a);

	if (w->tok == a->tok && w->tenant == a->tenant && w->special == special && w->lives == w->text->lives)
		return;
	forget(w);
	w->tok = tok_ref(a->tok);
	w->tenant = a->tenant;
	w->special = special;
	w->lives = w->text->lives;
}

static bool run_set(struct text_ids *w, size_t i, bool whole)
{
	if (i >= w->runs.cap) {
		size_t cap = w->runs.cap > 0 ? 2 * w->runs.cap : 16;
		struct text_item *p = mem_resize(w->runs.p, cap, sizeof(*p));

		if (p == NULL)
			return false;
		w->runs.p = p;
		w->runs.cap = cap;
	}
	w->runs.p[i] = (struct text_item){ w->ids.n, whole };
	w->runs.n = i + 1;
	return true;
}

static size_t item_at(const struct prompt_text *t, size_t i)
{
	return i > 0 ? t->items.p[i - 1].end : 0;
}

static struct cached by_whom(const struct ids_ask *a)
{
	return (struct cached){ .tok = a->tok, .scratch = a->scratch, .cache = a->cache, .tenant = a->tenant };
}

/* All at once, where it is all there: no copy is made then. Where the work runs out it stays: the next request with this text goes on
 * from what the cache of segments has by then. */
static enum stream_result encode_whole(struct text_ids *w, const struct ids_ask *a)
{
	struct work_left *work = tok_scratch_work(a->scratch);
	size_t at = item_at(w->text, w->item);
	struct span s = span_of(w->text->words.p + at, w->text->items.p[w->item].end - at);
	struct cached by = by_whom(a);
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
	struct cached by = by_whom(a);
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

/* What <room> there is for of the prompt that the stream is in. */
static enum stream_result feed(struct text_ids *w, size_t room)
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

/* Portion by portion. A piece that is too long to wait for its end is where it stops: MORE. */
static enum stream_result encode_more(struct text_ids *w, const struct ids_ask *a)
{
	size_t all = w->text->items.p[w->item].end - item_at(w->text, w->item), left;
	enum stream_result r = stream_on(w, a);

	while (r == STREAM_DONE) {
		left = stream_left(w->stream);
		if (w->fed < all && (left >= KEPT_MOST || w->ids.n >= a->max_ids))
			return STREAM_MORE;
		if ((r = feed(w, KEPT_MOST - left)) == STREAM_DONE)
			r = stream_work(w->stream, &a->work->left);
		w->kept_back = stream_left(w->stream);
		if (w->fed == all)
			break;
	}
	w->stopped = r == STREAM_SPENT;
	return w->stopped ? STREAM_MORE : r;
}

/* Prompt after prompt. STREAM_MORE: out of work, or of ids that anybody asks for; DONE: of words. */
static enum stream_result encode(struct text_ids *w, const struct ids_ask *a)
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

/* Ids that are sure of what is kept back of the last prompt, behind those that stay. */
static enum stream_result peek(struct text_ids *w, struct work_left *work)
{
	size_t used = 0;

	if (!w->begun || stream_peek(w->stream, &w->ids, &used, &work->left) < 0)
		return w->begun ? STREAM_NO_MEMORY : STREAM_DONE;
	w->kept_back -= used;
	w->runs.p[w->runs.n - 1].end = w->ids.n;
	return STREAM_DONE;
}

static void tell(struct text_ids *w, bool bounded)
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

static enum ids_result fail(struct text_ids *w)
{
	w->news.failed |= !w->told_failed;
	w->failed = w->told_failed = true;
	return IDS_FAILED;
}

static enum ids_result ids_of_words(struct text_ids *w, const struct ids_ask *a, struct prompt_ids *out)
{
	const struct prompt_text *t = w->text;
	enum stream_result r;
	uint64_t done;

	begin(w, a);
	if (w->failed)
		return IDS_FAILED;
	w->ids.n = w->solid;
	r = encode(w, a);
	if (r == STREAM_DONE)
		r = peek(w, a->work) < 0 ? STREAM_NO_MEMORY : r;
	if (r < 0)
		return fail(w);
	tell(w, r == STREAM_MORE);
	done = item_at(t, w->item) + w->fed - (w->begun ? w->kept_back : 0);
	*out = (struct prompt_ids){
		.p = w->ids.p, .n = w->ids.n, .runs = w->runs.p, .n_runs = w->runs.n, .bytes = done, .left = t->words.n - done,
	};
	return IDS_MADE;
}

/* ---- truncation ------------------------------------------------------------------------------ */

static bool left_room(struct text_ids *w, const struct prompt_ids *ids)
{
	struct text_item *p;

	w->left.n = 0;
	if (ids_reserve(&w->left, ids->n) < 0)
		return false;
	if (ids->n_runs <= w->left_runs.cap)
		return true;
	if ((p = mem_resize(w->left_runs.p, ids->n_runs, sizeof(*p))) == NULL)
		return false;
	w->left_runs.p = p;
	w->left_runs.cap = ids->n_runs;
	return true;
}

/* Of a prompt of <n> ids. False: which ones are left is not known: how many, or not all are there, or the tokenizer itself truncates, which
 * keeps its special tokens. */
static bool take_left(struct text_ids *w, const token_id *ids, size_t n, bool whole, struct text_item *run)
{
	const struct prompt_text *t = w->text;
	bool right = t->side == 'r' || (t->side == '\0' && t->api == API_EMBEDDINGS);
	size_t keep = (size_t)t->keep, take = n < keep ? n : keep;

	if (keep == 0 || (!right && !whole) || (n > keep && t->side == '\0' && t->kind == TEXT_WORDS && w->special))
		return false;
	if (take > 0)
		memcpy(w->left.p + w->left.n, ids + (right ? 0 : n - take), take * sizeof(*ids));
	w->left.n += take;
	*run = (struct text_item){ w->left.n, whole || take == keep };
	return true;
}

/* Of ids that are not known there are none; of words neither, so that they stay text. */
static enum ids_result truncate_ids(struct text_ids *w, struct prompt_ids *out)
{
	size_t from = 0;

	if (!left_room(w, out))
		return fail(w);
	for (size_t i = 0; i < out->n_runs; i++) {
		const struct text_item *run = &out->runs[i];

		if (!take_left(w, out->p + from, run->end - from, run->whole, &w->left_runs.p[i])) {
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

/* ---- both ------------------------------------------------------------------------------------ */

static enum ids_result all_ids(struct text_ids *w, const struct ids_ask *a, struct prompt_ids *out)
{
	const struct prompt_text *t = w->text;

	if (t->lost)
		return fail(w);
	if (t->bad || t->kind == TEXT_NONE)
		return IDS_NONE;
	if (t->kind == TEXT_WORDS)
		return a->tok != NULL ? ids_of_words(w, a, out) : IDS_NONE;
	*out = (struct prompt_ids){ .p = t->ids.p, .runs = t->items.p, .n = t->ids.n, .n_runs = t->items.n };
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

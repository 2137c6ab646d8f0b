/* text.c - collect the text or ids of a prompt from events of the JSON scanner.
 *
 * A prompt is at most two lists deep in the body's object, so the depth tells the place of an
 * event:
 *
 *   depth 1   a member of the body: its key says whether it holds the prompt      {"prompt":
 *   "text"}
 *   depth 2   an element of that list: a text, an id, or a list of ids            {"prompt":
 *   ["text"]}, {"prompt": [1]}
 *   depth 3   an id of such a list                                                {"prompt": [[1]]}
 *
 * This scanner is apart from that of body.c, because every request pays for that one. This one
 * runs only if the model has a tokenizer, over text that the other has just brought into the
 * cache. It knows four keys and copies the decoded text once; borrowing would not help because
 * of escapes.
 *
 * It counts the same prompts as batch.c; tests/unit/prompt/test_text.c compares the two on
 * bodies of all kinds. */
#include <endian.h>

#include "agent/base/mem.h"
#include "agent/prompt/rules_in.h"
#include "agent/prompt/text.h"

#define ROOM_KEPT	((size_t)4 << 20)	/* between two requests */

enum { BATCH = 0x42415443 };	/* as in batch.c */

bool prompt_text_possible(enum prompt_api api)
{
	return api == API_COMPLETIONS || api == API_EMBEDDINGS || api == API_GENERATE;
}

/* ---- items ----------------------------------------------------------------------------------- */

static void wipe(struct prompt_text *t)
{
	buf_wipe(&t->words, ROOM_KEPT);
	buf_start(&t->words, 0);
	if (t->ids.n > 0)
		mem_wipe(t->ids.p, t->ids.n * sizeof(*t->ids.p));
	t->ids.n = t->items.n = 0;
}

static void item_open(struct prompt_text *t)
{
	size_t end = t->kind == TEXT_WORDS ? t->words.n : t->ids.n;

	if (t->items.n == TEXT_ITEMS_MAX)
		t->lost = true;
	if (!t->lost && vec_push(&t->items, (struct text_item){ end, false }) < 0)
		t->lost = true;
}

static void item_close(struct prompt_text *t)
{
	if (!t->lost)
		t->items.p[t->items.n - 1].whole = true;
}

static void add_words(struct prompt_text *t, struct span s)
{
	if (t->lost)
		return;
	buf_span(&t->words, s);
	t->lost = t->words.failed;
	t->items.p[t->items.n - 1].end = t->words.n;
}

static void add_id(struct prompt_text *t, token_id id)
{
	if (t->lost)
		return;
	if (vec_push(&t->ids, id) < 0) {
		t->lost = true;
		return;
	}
	t->items.p[t->items.n - 1].end = t->ids.n;
}

static bool is_start(enum json_event ev)
{
	return ev == JSON_OBJECT || ev == JSON_ARRAY || ev == JSON_STRING ||
	       (ev >= JSON_NUMBER && ev <= JSON_NULL);
}

/* Return the id that <s> spells, or -1 if it is not one. */
static int64_t id_of(struct span s)
{
	int64_t v = 0;

	if (s.n > 10)
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		v = v * 10 + (s.p[i] - '0');
	}
	return v <= UINT32_MAX ? v : -1;
}

/* Return the id of an event, or -1 if it is not one. */
static int64_t number_of(const struct json *j, enum json_event ev, struct span text)
{
	return ev != JSON_NUMBER ? -1 : j->integer >= 0 ? j->integer : id_of(text);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_special(const struct prompt_text *t, struct span key)
{
	return t->api != API_GENERATE && span_eq(key, SPAN("add_special_tokens"));
}

static const struct rule special_rule = { "add_special_tokens", 18, ACT_NONE, 0 },
			 side_rule = { "truncation_side", 15, ACT_NONE, 0 };

static void on_key(struct prompt_text *t, struct span key)
{
	if (is_special(t, key))
		t->rule = &special_rule;
	else
		t->rule = span_eq(key, SPAN("truncation_side")) ? &side_rule : rule_find(t->api, PLACE_TOP, key);
}

/* Read the value of an option. */
static void take_option(struct prompt_text *t, const struct json *j, enum json_event ev,
			struct span text)
{
	const struct rule *r = t->rule;

	if (r == &special_rule && is_start(ev))
		t->special = ev == JSON_TRUE ? 1 : ev == JSON_FALSE ? 0 : -1;
	else if (r == &side_rule && is_start(ev))
		t->side = '\0';
	else if (r == &side_rule && ev == JSON_STRING_PART && text.n > 0 && t->side == '\0')
		t->side = text.p[0];
	else if (r->act == ACT_TRUNCATE && is_start(ev))
		t->keep = ev == JSON_NULL ? -1 : number_of(j, ev, text) > 0 ? number_of(j, ev, text) : 0;
}

/* Start a value of a key that holds the prompt: drop the items of another key. A null of another
 * key than the current holder changes nothing. */
static void make_void(struct prompt_text *t, bool null)
{
	if (null && t->held != t->rule)
		return;
	t->held = t->rule;
	t->kind = TEXT_NONE;
	t->bad = t->lost = false;
	wipe(t);
	t->lives++;
}

static void member_start(struct prompt_text *t, enum json_event ev)
{
	const struct rule *r = t->rule;

	if (r->act != ACT_PROMPT && r->act != ACT_MESSAGES)
		return;
	make_void(t, ev == JSON_NULL);
	if (r->act != ACT_PROMPT || ev == JSON_NULL)
		return;
	t->taking = ev == JSON_STRING || ev == JSON_ARRAY;
	t->bad = !t->taking;
	if (ev == JSON_STRING) {
		t->kind = TEXT_WORDS;
		item_open(t);
	}
}

static void member_end(struct prompt_text *t)
{
	if (t->kind == TEXT_IDS && !t->bad)
		item_close(t);
	t->taking = false;
}

static void number(struct prompt_text *t, const struct json *j, enum json_event ev,
		   struct span text)
{
	int64_t v = number_of(j, ev, text);

	if (v < 0)
		t->bad = true;
	else
		add_id(t, (token_id)v);
}

/* Start an element of the list of prompts. The first element sets the kind of the list. */
static void element_start(struct prompt_text *t, const struct json *j, enum json_event ev,
			  struct span text)
{
	enum text_kind was = t->kind, kind = TEXT_NONE;

	if (ev == JSON_STRING)
		kind = TEXT_WORDS;
	else if (ev == JSON_NUMBER)
		kind = TEXT_IDS;
	else if (ev == JSON_ARRAY)
		kind = TEXT_LISTS;
	t->bad = kind == TEXT_NONE || (was != TEXT_NONE && was != kind);
	if (t->bad)
		return;
	t->kind = kind;
	if (kind != TEXT_IDS || was == TEXT_NONE)
		item_open(t);
	if (kind == TEXT_IDS)
		number(t, j, ev, text);
}

static bool is_end(enum json_event ev)
{
	return ev == JSON_OBJECT_END || ev == JSON_ARRAY_END || ev == JSON_STRING_END;
}

static void inside(struct prompt_text *t, const struct json *j, enum json_event ev,
		   struct span text)
{
	if (ev == JSON_STRING_PART)
		add_words(t, text);
	else if (ev == JSON_STRING_END || (ev == JSON_ARRAY_END && j->depth == 2))
		item_close(t);
	else if (j->depth == 2 && is_start(ev))
		element_start(t, j, ev, text);
	else if (j->depth == 3 && is_start(ev))
		number(t, j, ev, text);
}

static void on_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct prompt_text *t = arg;

	if (t->taking && !t->bad)
		inside(t, j, ev, text);
	if (j->depth != 1)
		return;
	if (ev == JSON_KEY) {
		on_key(t, text);
		return;
	}
	if (t->taking && is_end(ev)) {
		member_end(t);
		return;
	}
	if (t->taking || t->rule == NULL)
		return;
	take_option(t, j, ev, text);
	if (is_start(ev))
		member_start(t, ev);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct prompt_text *prompt_text_new(void)
{
	struct prompt_text *t = mem_alloc(sizeof(*t));

	if (t != NULL)
		prompt_text_reset(t, API_NONE, 1);
	return t;
}

void prompt_text_free(struct prompt_text *t)
{
	if (t == NULL)
		return;
	buf_free(&t->words);
	ids_free(&t->ids);
	vec_free(&t->items);
	mem_free_wiped(t, sizeof(*t));
}

size_t prompt_text_bytes(const struct prompt_text *t)
{
	if (t == NULL)
		return 0;
	return sizeof(*t) + t->words.cap + t->ids.cap * sizeof(*t->ids.p) +
	       t->items.cap * sizeof(*t->items.p);
}

/* Free the memory of an unusually large body. */
static void shrink(struct prompt_text *t)
{
	if (prompt_text_bytes(t) <= ROOM_KEPT)
		return;
	buf_free(&t->words);
	ids_free(&t->ids);
	vec_free(&t->items);
}

void prompt_text_reset(struct prompt_text *t, enum prompt_api api, uint16_t max_depth)
{
	wipe(t);
	shrink(t);
	t->kind = TEXT_NONE;
	t->bad = t->lost = t->taking = false;
	t->special = -1;
	t->keep = -1;
	t->side = '\0';
	t->lives++;
	t->rule = t->held = NULL;
	t->api = api;
	json_init(&t->json, max_depth, on_event, t);
}

void prompt_text_feed(struct prompt_text *t, const char *p, size_t n)
{
	json_feed(&t->json, p, n);
}

/* ---- pages -------------------------------------------------------------------------------- */

/* Hash one page of ids in place, or a copy on big-endian machines. */
static page_key page_of(const struct hash_key *key, const token_id *ids, uint32_t page)
{
#if __BYTE_ORDER == __LITTLE_ENDIAN
	return hash64(key, ids, page * sizeof(*ids));
#else
	uint32_t le[PROMPT_TOKEN_PAGE_MAX];

	for (uint32_t i = 0; i < page; i++)
		le[i] = htole32(ids[i]);
	return hash64(key, le, page * sizeof(*le));
#endif
}

int prompt_pages_of_ids(const struct hash_key *key, const token_id *ids, size_t n, uint32_t page,
			bool later, uint32_t max, struct page_vec *out)
{
	page_key k;

	for (; n >= page && out->n < max; n -= page, ids += page) {
		k = page_of(key, ids, page);
		if (later)
			k = hash_mix(key, k, BATCH);
		later = false;
		if (page_vec_push(out, k) != 0)
			return -1;
	}
	return 0;
}

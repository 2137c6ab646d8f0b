/* tokenizer_json_wordpiece.c - read a model of type WordPiece (BERT, bge, e5). tokenizers requires
 * all four members. */
#include "agent/tok/file/draft.h"

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p

static int read_most(struct draft *d, const struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	const struct json_node *v = json_need(doc, model, "max_input_chars_per_word", NODE_NUMBER, e);

	if (v == NULL || json_u32(doc, v, &d->words.max_chars, e) < 0)
		return -1;
	if (d->words.max_chars > LEXICON_CHARS_MAX)
		return json_refuse(doc, v, e, "only numbers up to %u are understood here", LEXICON_CHARS_MAX);
	return 0;
}

int tok_json_wordpiece(struct draft *d, struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	struct span unk;
	uint32_t at;

	if (json_only(doc, model,
		"type unk_token continuing_subword_prefix max_input_chars_per_word vocab", e) < 0 ||
	    json_need_text(doc, model, "unk_token", &unk, e) < 0 ||
	    json_need_text(doc, model, "continuing_subword_prefix", &d->words.prefix, e) < 0 ||
	    read_most(d, doc, model, e) < 0 || tok_json_vocab(d, doc, model, e) < 0)
		return -1;
	if ((at = vocab_find(&d->vocab, unk)) == VOCAB_NONE)
		return json_refuse(doc, json_get(model, "unk_token"), e, "\"%.*s\" is not in the vocabulary",
		    CUT(unk));
	if (d->byte_level)
		return json_refuse(doc, json_get(model, "type"), e,
		    "WordPiece is understood only without ByteLevel");
	d->words.unk = d->vocab.entries.p[at].id;
	d->lexicon = true;
	return 0;
}

/* file_kind.c - recognize files that are given instead of a supported tokenizer: name what they
 * are, and the file to use. Each sentence is for an operator who looks at a model's directory. */
#include "agent/tok/file/draft.h"

#include <stdio.h>

/* The remedy for models without such a file. */
#define SAVE	"save the tokenizer as tokenizer.json with transformers " \
		"(AutoTokenizer.from_pretrained(DIR).save_pretrained(OUT)) and name that file"
#define TEXT	"leave the model in mode: text"

static int say(const struct tok_source *src, const char *what, struct err *e)
{
	if (e == NULL)
		return -1;
	snprintf(e->file, sizeof(e->file), "%s", src->name ? src->name : "");
	return err_set(e, "%s", what);
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

/* Read a protobuf number at *p and advance. Returns -1 if there is none. */
static int64_t varint(const uint8_t **p, const uint8_t *end)
{
	uint64_t v = 0;

	for (unsigned shift = 0; *p < end && shift < 35; shift += 7) {
		uint8_t b = *(*p)++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return (int64_t)v;
	}
	return -1;
}

/* Read the next field at *p and advance; *holds: its number, or the length of its bytes, which end
 * at *p. Returns its tag (field number times 8 and wire type), or -1 at the end or if it is no
 * protobuf. */
static int64_t field(const uint8_t **p, const uint8_t *end, int64_t *holds)
{
	int64_t tag = varint(p, end);

	switch (tag < 0 ? -1 : tag & 7) {
	case 0:
		return (*holds = varint(p, end)) < 0 ? -1 : tag;
	case 1: case 5:
		*holds = (tag & 7) == 1 ? 8 : 4;
		break;
	case 2:
		*holds = varint(p, end);
		break;
	default:
		return -1;
	}
	if (*holds < 0 || *holds > end - *p)
		return -1;
	*p += *holds;
	return tag;
}

enum {
	PIECE = 1 << 3 | 2,
	TRAINER = 2 << 3 | 2,
	MODEL_TYPE = 3 << 3,
	TYPE_UNIGRAM = 1,
	TYPE_BPE = 2
};

static int64_t model_type(const uint8_t *p, const uint8_t *end)
{
	int64_t tag, holds, type = TYPE_UNIGRAM;	/* the default */

	while ((tag = field(&p, end, &holds)) >= 0) {
		if (tag == MODEL_TYPE)
			type = holds;
	}
	return type;
}

/* A SentencePiece model is pieces, then training options. Returns its type, or 0 if it is none. */
static int64_t sentencepiece(struct span file)
{
	const uint8_t *p = (const uint8_t *)file.p, *end = p + file.n;
	int64_t tag, holds;
	bool pieces = false;

	while ((tag = field(&p, end, &holds)) == PIECE)
		pieces = true;
	return tag == TRAINER && pieces ? model_type(p - holds, p) : 0;
}

/* ---- by first bytes -------------------------------------------------------------------------- */

static bool begins(struct span file, const char *with, size_t n)
{
	return file.n >= n && memcmp(file.p, with, n) == 0;
}

static const struct { const char *bytes; size_t n; const char *what;
} firsts[] = {
	{ "\x1f\x8b", 2,
	    "this file is compressed: unpack it with gzip -dk and name the file that makes" },
	{ "PK\3\4", 4,
	    "this is a zip archive, as PyTorch keeps weights in, and no tokenizer: "
	    "name the model's tokenizer.json" },
	{ "GGUF", 4,
	    "this is a model in GGUF and no tokenizer: "
	    "name the tokenizer.json of the model that it was made from, or " TEXT },
	{ "version https://git-lfs", 23,
	    "this is a pointer of Git LFS and not the file itself: fetch it with git lfs pull" },
	{ "\"bpe_simple_vocab", 17,
	    "this is the vocabulary of CLIP's tokenizer, which is not understood: " TEXT },
	{ "#version:", 9, "this is merges.txt, which is half of a tokenizer: " SAVE },
	{ "1 '\\x00' 1", 10,
	    "this is the vocabulary of RWKV's tokenizer, which is not understood: " TEXT },
	{ "[PAD]\n", 6,
	    "this is vocab.txt, the vocabulary of a WordPiece tokenizer (BERT), "
	    "which is half of a tokenizer: " SAVE },
	{ "[PAD]\r\n", 7,
	    "this is vocab.txt, the vocabulary of a WordPiece tokenizer (BERT), "
	    "which is half of a tokenizer: " SAVE },
};

int tok_kind_check(const struct tok_source *src, struct err *e)
{
	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		if (begins(src->file, firsts[i].bytes, firsts[i].n))
			return say(src, firsts[i].what, e);
	}
	switch (sentencepiece(src->file)) {
	case 0:
		return 0;
	case TYPE_UNIGRAM:
		return say(src,
		    "this is a SentencePiece model of kind Unigram, which is not understood as it is: " SAVE
		    ", or " TEXT,
		    e);
	case TYPE_BPE:
		return say(src,
		    "this is a SentencePiece model, which is not understood as it is: " SAVE
		    ", or " TEXT,
		    e);
	default:
		return say(src,
		    "this is a SentencePiece model of whole words or characters, which is not understood: " TEXT,
		    e);
	}
}

/* ---- by members ------------------------------------------------------------------------------ */

static bool has(const struct json_node *v, const char *key, enum json_kind kind)
{
	const struct json_node *m = json_get(v, key);

	return m != NULL && m->kind == kind;
}

/* Tell if it is {"!": 0, "\"": 1, ...}: of a few members, all are numbers. */
static bool is_vocab(const struct json_node *root)
{
	size_t n = 0;

	for (const struct json_node *v = root->child; v != NULL && n < 16; v = v->next, n++) {
		if (v->kind != NODE_NUMBER)
			return false;
	}
	return n == 16;
}

static int refuse_model(const struct json_doc *doc, const struct json_node *model, struct err *e)
{
	const struct json_node *type = json_get(model, "type"),
			       *suffix = json_get(model, "end_of_word_suffix");

	if (type != NULL && json_is(type, "WordLevel"))
		return json_refuse(doc, type, e,
		    "a tokenizer of kind WordLevel is not understood, "
		    "only BPE, WordPiece and Unigram are: " TEXT);
	if (suffix != NULL && suffix->kind == NODE_STRING && suffix->s.n > 0)
		return json_refuse(doc, suffix, e,
		    "a tokenizer whose words end in a mark (CLIP) is not understood: " TEXT);
	return 0;
}

int tok_kind_json(const struct json_doc *doc, struct err *e)
{
	const struct json_node *root = json_doc_root(doc), *model = json_get(root, "model");

	if (root->kind != NODE_OBJECT)
		return 0;
	if (model != NULL && model->kind == NODE_OBJECT)
		return refuse_model(doc, model, e);
	if (has(root, "model_type", NODE_STRING) || has(root, "architectures", NODE_ARRAY))
		return json_refuse(doc, NULL, e,
		    "this is a model's config.json and no tokenizer: name its tokenizer.json");
	if (has(root, "tokenizer_class", NODE_STRING) || has(root, "added_tokens_decoder", NODE_OBJECT))
		return json_refuse(doc, NULL, e,
		    "this is tokenizer_config.json, which is read beside a tokenizer: name the tokenizer.json "
		    "or rank file");
	if (is_vocab(root))
		return json_refuse(doc, NULL, e, "this is vocab.json, which is half of a tokenizer: " SAVE);
	return 0;
}

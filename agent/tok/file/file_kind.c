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
	    "this is the vocabulary of CLIP's tokenizer, which is half of a tokenizer: " SAVE },
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
	switch (tok_spm_type(src->file)) {
	case 0: case TOK_SPM_BPE: case TOK_SPM_UNIGRAM:
		return 0;
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
	const struct json_node *type = json_get(model, "type");

	if (type != NULL && json_is(type, "WordLevel"))
		return json_refuse(doc, type, e,
		    "a tokenizer of kind WordLevel is not understood, "
		    "only BPE, WordPiece and Unigram are: " TEXT);
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

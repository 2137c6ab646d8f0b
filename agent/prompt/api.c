/* Map a request path to its API by the end of the path, and the defaults of struct prompt_opts.
 *
 * The end is one path component or two, or the verb after the last ':' of the path. */
#include "agent/prompt/prompt.h"

static const struct {
	enum prompt_api api;
	struct span end;	/* last component or two of the path; longer ones first */
	const char *name;
} apis[] = {
	{ API_CHAT, { "chat/completions", 16 }, "chat" },
	{ API_COMPLETIONS, { "completions", 11 }, "completions" },
	{ API_RESPONSES, { "responses", 9 }, "responses" },
	{ API_MESSAGES, { "messages", 8 }, "messages" },
	{ API_EMBEDDINGS, { "embeddings", 10 }, "embeddings" },
	{ API_GENERATE, { "generate", 8 }, "generate" },
	{ API_CONTENTS, { ":generateContent", 16 }, "contents" },
	{ API_CONTENTS, { ":streamGenerateContent", 22 }, "contents" },
};

#define N_APIS	(sizeof(apis) / sizeof(apis[0]))

static bool ends_with(struct span path, struct span end)
{
	size_t before = path.n - end.n;

	if (path.n < end.n || memcmp(path.p + before, end.p, end.n) != 0)
		return false;
	return before == 0 || path.p[before - 1] == '/' || end.p[0] == ':';
}

/* Cut a query, a fragment and slashes off the end. */
static struct span path_only(struct span path)
{
	const char *query = path.n > 0 ? memchr(path.p, '?', path.n) : NULL;
	size_t n = query != NULL ? (size_t)(query - path.p) : path.n;
	const char *anchor = n > 0 ? memchr(path.p, '#', n) : NULL;

	n = anchor != NULL ? (size_t)(anchor - path.p) : n;
	while (n > 0 && path.p[n - 1] == '/')
		n--;
	path.n = n;
	return path;
}

enum prompt_api prompt_api_of_path(struct span path)
{
	size_t i;

	path = path_only(path);
	for (i = 0; i < N_APIS; i++)
		if (ends_with(path, apis[i].end))
			return apis[i].api;
	return API_NONE;
}

struct span prompt_model_of_path(struct span path)
{
	size_t end, start;

	if (prompt_api_of_path(path) != API_CONTENTS)
		return SPAN("");
	path = path_only(path);
	for (end = path.n; path.p[end - 1] != ':';)
		end--;
	for (start = --end; start > 0 && path.p[start - 1] != '/';)
		start--;
	return span_of(path.p + start, end - start);
}

/* Cut the last component and its '/' off the end of <path>. Returns the component. */
static struct span take_last(struct span *path)
{
	size_t n = path->n;
	struct span last;

	while (n > 0 && path->p[n - 1] != '/')
		n--;
	last = span_of(path->p + n, path->n - n);
	path->n = n > 0 ? n - 1 : 0;
	return last;
}

struct span prompt_response_of_path(struct span path)
{
	struct span id;

	path = path_only(path);
	if (path.n == 0)
		return SPAN("");
	id = take_last(&path);
	if (span_eq(id, SPAN("cancel")) || span_eq(id, SPAN("input_items")))
		id = take_last(&path);
	return ends_with(path, SPAN("responses")) ? id : SPAN("");
}

const char *prompt_api_name(enum prompt_api api)
{
	size_t i;

	for (i = 0; i < N_APIS; i++)
		if (apis[i].api == api)
			return apis[i].name;
	return "none";
}

const char *prompt_shape_word(unsigned bit)
{
	static const char *const words[PROMPT_SHAPES] = {
		"system",
		"developer",
		"assistant",
		"results",
		"other-role",
		"calls",
		"thoughts",
		"media",
		"tools",
		"assistant-last",
		"options",
		"ids",
	};

	return bit < PROMPT_SHAPES ? words[bit] : "";
}

void prompt_defaults(struct prompt_opts *o)
{
	o->text_page = 64;
	o->token_page = 16;
	o->max_pages = 65536;
	o->max_depth = 128;
}

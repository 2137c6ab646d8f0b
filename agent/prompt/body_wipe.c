/* body_wipe.c - wipe what a request has left in the scanner.
 *
 * The scanner has room for 6 KB of text and names, of which most requests use little; to write all
 * of it would also take other data out of the first cache. So each place for text is wiped as far
 * as any text came: a page of struct pager and of a snapshot never has more than page_env's bytes,
 * a digest keeps the most it held, bytes after a name are zero. A new place for text in struct
 * request must be added here; test_wipe.c compares all bytes with those of a new scanner. */
#include "agent/base/mem.h"
#include "agent/prompt/body_in.h"

static void pager_wipe(struct pager *pg, uint32_t page)
{
	mem_wipe(pg, offsetof(struct pager, buf) + page);
}

static void part_wipe(struct part *p, uint32_t page)
{
	mem_wipe(p, offsetof(struct part, before.buf) + page);
}

static void message_wipe(struct message *m, uint32_t page)
{
	mem_wipe(m, offsetof(struct message, run));
	for (unsigned i = 0; i < RUNS; i++)
		pager_wipe(&m->run[i], page);
	for (unsigned i = 0; i < PART_LEVELS; i++)
		part_wipe(&m->part[i], page);
}

static void request_wipe(struct request *r, const struct prompt_opts *o)
{
	size_t ids = r->batch.used ? o->token_page * sizeof(r->batch.ids[0]) : 0;

	mem_wipe(r, offsetof(struct request, name));
	name_clear(&r->name);
	mem_wipe(&r->digest, offsetof(struct digest, buf) + r->digest.used);
	mem_wipe(&r->batch, offsetof(struct batch, ids) + ids);
	message_wipe(&r->msg, o->text_page);
	pager_wipe(&r->tools, o->text_page);
}

/* Set all to zero but the vectors, which are emptied. */
static void prompt_wipe(struct prompt *p)
{
	struct page_vec system = p->system, tools = p->tools, messages = p->messages;

	name_clear(&p->model);
	name_clear(&p->lora);
	name_clear(&p->salt);
	name_clear(&p->user);
	memset(p, 0, offsetof(struct prompt, model));
	memset(p->named, 0, sizeof(*p) - offsetof(struct prompt, named));
	system.n = tools.n = messages.n = 0;
	p->system = system;
	p->tools = tools;
	p->messages = messages;
}

void body_wipe(struct body *b)
{
	request_wipe(&b->r, &b->opts);
	prompt_wipe(&b->prompt);
}

/* config_text.c - the printer of the configuration, without its comments. */
#include "agent/loop/config_text_in.h"

struct sifter {
	struct buf *to;
	struct buf line;
};

static void end_line(struct sifter *f)
{
	size_t i = 0;

	while (i < f->line.n && f->line.p[i] == ' ')
		i++;
	if (i < f->line.n && f->line.p[i] != '#') {
		buf_add(f->to, f->line.p, f->line.n);
		buf_str(f->to, "\n");
	}
	buf_wipe(&f->line, SIZE_MAX);
}

static void sift(void *arg, const char *text, size_t n)
{
	struct sifter *f = arg;
	const char *end;

	while (n > 0 && (end = memchr(text, '\n', n)) != NULL) {
		buf_add(&f->line, text, (size_t)(end - text));
		end_line(f);
		n -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	buf_add(&f->line, text, n);
}

void config_text_init(struct config_text *c)
{
	pthread_mutex_init(&c->lock, NULL);
}

void config_text_free(struct config_text *c)
{
	buf_free(&c->text);
	pthread_mutex_destroy(&c->lock);
}

void config_text_set(struct config_text *c, const struct loop_reload *reload,
    const struct route_opts *ro, const struct loop_opts *o)
{
	struct buf next = { .max = CONFIG_TEXT_MAX }, old;
	struct sifter f = { .to = &next };

	if (reload == NULL || reload->print == NULL || o->runtime_path[0] == '\0')
		return;
	reload->print(reload->arg, ro, o, sift, &f);
	if (next.failed || f.line.failed)
		buf_free(&next);
	buf_free(&f.line);
	pthread_mutex_lock(&c->lock);
	old = c->text;
	c->text = next;
	pthread_mutex_unlock(&c->lock);
	buf_free(&old);
}

bool config_text_copy(struct config_text *c, struct buf *to)
{
	bool is;

	pthread_mutex_lock(&c->lock);
	is = c->text.n > 0;
	if (is)
		buf_add(to, c->text.p, c->text.n);
	pthread_mutex_unlock(&c->lock);
	return is;
}

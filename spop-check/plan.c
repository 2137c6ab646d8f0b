/* plan.c - one round of a case: its bytes, written when they are needed. */
#include <string.h>

#include "spop-check/bodies_in.h"

void check_plan_init(
    struct check_plan *p, const struct check_case *c, const struct check_message *m, unsigned round)
{
	struct spop_wr hello = p->hello, body = p->body;

	hello.n = body.n = 0;
	hello.full = body.full = false;
	*p = (struct check_plan){
		.c = c, .message = m, .round = round, .agreed = check_offered(&c->hello),
		.hello = hello, .body = body,
	};
}

void check_plan_hello(struct check_plan *p)
{
	if (!(p->c->hello.odd & CHECK_NO_HELLO))
		check_put_hello(&p->hello, &p->c->hello);
}

void check_plan_body(struct check_plan *p)
{
	if (p->c->body != NULL)
		p->c->body(p);
	p->more = p->c->how == CHECK_BYE_LAST;
}

void check_plan_bye(struct check_plan *p)
{
	p->more = false;
	p->body.n = 0;
	check_put_disconnect(&p->body, SPOP_STATUS_TIMEOUT, spop_status_text(SPOP_STATUS_TIMEOUT));
}

void check_plan_probe(struct check_plan *p)
{
	size_t start;

	p->ids[p->n_ids++] = (struct check_id){ CHECK_PROBE_STREAM, 1, CHECK_MUST };
	p->body.n = 0;
	start = check_frame_begin(&p->body, CHECK_T_NOTIFY, CHECK_F_FIN, CHECK_PROBE_STREAM, 1);
	check_put_message(&p->body, p->message, p->agreed - 32);
	check_frame_end(&p->body, start);
}

bool check_name_is(const char *name, const char *pattern)
{
	size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return strncmp(name, pattern, n - 1) == 0;
	return strcmp(name, pattern) == 0 || (strncmp(name, pattern, n) == 0 && name[n] == '/');
}

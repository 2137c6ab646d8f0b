/* write.c - write the text of a list of messages: run the template, on from a state if it has one,
 * or harmony; charge its work. */
#include <stdio.h>

#include "agent/chat/chat_in.h"
#include "agent/chat/gpt_oss.h"

/* Limit of one rendering, besides the work of the request: 5000 messages of a usual template fit.
 */
#define STEPS_MOST	500000u
/* Prices in steps of work.h: two steps of a template; bytes of text per step; a run of harmony. */
#define STEPS_TWO	3
#define STEP_TEXT	100
#define STEPS_RUN	6
#define STEP_HARMONY	10u		/* bytes that harmony writes per step; it counts nothing else */

static int harmony_piece(void *arg, enum harmony_piece what, struct span text)
{
	struct rendering *r = arg;
	struct chat_run run = {
		.at = (uint32_t)r->into->n,
		.n = (uint32_t)text.n,
		.kind = what == PIECE_TOKEN ? RUN_TOKEN : RUN_PLAIN,
	};

	buf_span(r->into, text);
	return r->into->failed || r->into->n > UINT32_MAX ? -1 : vec_push(&r->s->runs, run);
}

static enum chat_result of_jinja(struct rendering *r, enum jinja_result result,
		const struct jinja_error *e)
{
	static const enum chat_result of[] = {
		[JINJA_OK] = CHAT_DONE,
		[JINJA_RAISED] = CHAT_REFUSED,
		[JINJA_UNKNOWN] = CHAT_UNKNOWN,
		[JINJA_LIMIT] = CHAT_LIMIT,
		[JINJA_NO_MEMORY] = CHAT_NO_MEMORY,
		[JINJA_STOPPED] = CHAT_NO_MEMORY,
		[JINJA_MISSED] = CHAT_UNKNOWN,
	};

	if (result != JINJA_OK)
		snprintf(r->out->why, sizeof(r->out->why), "line %u of the template: %.120s", e->line, e->text);
	return of[result];
}

static enum chat_result by_template(struct rendering *r)
{
	const struct chat *c = r->c;
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct jval vars;
	struct jinja_limits limits = jinja_limits_defaults();
	struct jinja_error e = { .line = 0 };
	bool tools = chat_uses_tools(r);
	enum jinja_result result;
	uint64_t took = 0;

	if (r->resume != NULL)
		r->messages.flags |= JV_WATCHED;
	vars = chat_variables(&k, r);
	limits.steps = r->work->left / STEPS_TWO < STEPS_MOST / 2 ? 2 * (r->work->left / STEPS_TWO)
								  : STEPS_MOST;
	limits.took = &took;
	if (k.state != MAKE_GOOD)
		return chat_of_make(r, &k);
	if (r->resume != NULL) {
		r->resume->list = r->messages.v;
		r->resume->n = r->messages.n;
		r->resume->sure = r->b->cut ? r->sure : chat_lasting(r);
		r->resume->text = r->into;
		r->resume->read = r->known != NULL ? chat_turn_read : NULL;
		r->resume->arg = r;
		r->resume->tools = !r->b->cut && r->b->api == CHAT_COMPLETIONS ? r->tools : jval_none();
		r->resume->most_steps = STEPS_MOST;
		result = jinja_render_on(tools ? c->tool_use : c->plain, r->s->mem, vars.d, &r->b->now,
		    &limits, r->resume, &e);
	} else {
		result = jinja_render(tools ? c->tool_use : c->plain, r->s->mem, vars.d, &r->b->now,
		    &limits, jinja_buf_sink, r->into, &e);
	}
	work_spend(r->work, took * STEPS_TWO / 2);
	return of_jinja(r, result, &e);
}

static struct gpt_oss_turn *start_turn(struct rendering *r, struct gpt_oss_turn *turn)
{
	struct jinja_resume *as = r->resume;

	*turn = (struct gpt_oss_turn){
		.key = as->key, .from = as->from, .work = r->work, .left = &as->state,
	};
	as->good = as->light = false;
	buf_span(r->into, as->lead);
	return turn;
}

/* Note where the messages end: the start of an answer is two runs. */
static void end_turn(struct rendering *r)
{
	struct jinja_resume *as = r->resume;

	as->good = r->completion && r->s->runs.n > 2 && !as->state.failed;
	if (!as->good)
		return;
	as->messages = r->messages.n;
	as->text_at = r->s->runs.p[r->s->runs.n - 2].at;
}

static enum chat_result by_harmony(struct rendering *r)
{
	static const enum chat_result of[] = {
		[HARMONY_DONE] = CHAT_DONE,
		[HARMONY_REFUSED] = CHAT_REFUSED,
		[HARMONY_UNKNOWN] = CHAT_UNKNOWN,
		[HARMONY_NO_MEMORY] = CHAT_NO_MEMORY,
		[HARMONY_ENDED] = CHAT_NO_MEMORY,
		[HARMONY_LIMIT] = CHAT_LIMIT,
		[HARMONY_MISSED] = CHAT_UNKNOWN,
	};
	char date[32];
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct jval body = make_dict(&k);
	struct gpt_oss_opts o = {
		.items = r->b->api == CHAT_RESPONSES,
		.completion = r->completion,
		.max_run = r->into->max,
	};
	struct gpt_oss_turn turn;
	enum harmony_result result;

	snprintf(date, sizeof(date), "%04d-%02d-%02d", r->b->now.year, r->b->now.month, r->b->now.day);
	o.date = span_str(date);
	make_put(&k, body, "messages", r->messages);
	make_put(&k, body, "tools", get(r->body, "tools"));
	make_put(&k, body, "reasoning_effort", get(r->body, "reasoning_effort"));
	make_put(&k, body, "instructions", get(r->body, "instructions"));
	if (k.state != MAKE_GOOD)
		return chat_of_make(r, &k);
	r->s->runs.n = 0;
	if (r->resume != NULL)
		o.turn = start_turn(r, &turn);
	result = gpt_oss_render(r->s->mem, body, &o, harmony_piece, r);
	if (result == HARMONY_DONE && r->resume != NULL)
		end_turn(r);
	if (r->into->full || (result == HARMONY_NO_MEMORY && jinja_mem_full(r->s->mem)))
		result = HARMONY_LIMIT;
	if (result == HARMONY_LIMIT)	/* the text reached the work's limit */
		work_spend(r->work, r->work->left);
	/* the engine writes arguments of messages that are no text itself */
	if (result == HARMONY_UNKNOWN || (result == HARMONY_REFUSED && r->b->api == CHAT_MESSAGES))
		return chat_why(r, CHAT_UNKNOWN, "there is something in it that is not text");
	return result == HARMONY_DONE ? CHAT_DONE
				      : chat_why(r, of[result],
					    result == HARMONY_REFUSED ? "harmony has no form for it"
								      : "it takes too much memory");
}

enum chat_result chat_write(struct rendering *r, struct buf *into)
{
	size_t had = jinja_mem_used(r->s->mem), most = jinja_limits_defaults().output;
	enum chat_result result;

	if (work_spent(r->work))
		return chat_why(r, CHAT_LIMIT, "it takes too much work");
	if (r->c->format == CHAT_HARMONY && r->work->left < most / STEP_HARMONY)
		most = (size_t)r->work->left * STEP_HARMONY;
	buf_start(into, most);
	r->into = into;
	result = r->c->format == CHAT_HARMONY ? by_harmony(r) : by_template(r);
	if (r->c->format == CHAT_HARMONY)
		work_spend(r->work,
		    r->s->runs.n * STEPS_RUN + into->n / STEP_HARMONY +
			(jinja_mem_used(r->s->mem) - had) / STEP_MADE);
	work_spend(r->work, into->n / STEP_TEXT);
	if (result == CHAT_DONE && into->failed)
		return chat_why(r, CHAT_NO_MEMORY, "there is no memory for its text");
	return result;
}

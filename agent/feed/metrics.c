/* metrics.c - parse the text format byte by byte and keep known series only.
 *
 * Of a line the parser keeps the metric's name, the current label and the number, so lines may
 * have any length. A line of an unknown metric is skipped with memchr(); that is nearly all of
 * an engine's 60 to 500 KB. What a name means is in metrics_series.c. */
#include "agent/feed/metrics_in.h"

const char *metrics_strerror(int error)
{
	static const char *const texts[METRICS_E_COUNT] = {
		"no error",
		"the answer is too long",
		"the answer has no metric of a known engine",
	};

	if (error < 0)
		error = -error;
	return error < METRICS_E_COUNT ? texts[error] : "unknown error";
}

void metrics_init(struct metrics *m)
{
	memset(m, 0, sizeof(*m));
	m->newest = -1;
	m->max_lora = -1;
}

/* ---- labels ------------------------------------------------------------------------------- */

static void number_add(struct metrics *m, char c)
{
	if (m->n_number < METRICS_NUMBER_MAX)
		m->number[m->n_number] = c;
	if (m->n_number <= METRICS_NUMBER_MAX)
		m->n_number++;
}

static void list_add(struct metrics_list *l, char c)
{
	if (l->n < METRICS_LIST_MAX)
		l->text[l->n] = c;
	if (l->n <= METRICS_LIST_MAX)
		l->n++;
}

static void value_add(struct metrics *m, char c)
{
	if (m->which < N_NUMBER_LABELS)
		number_add(m, c);
	else if (m->which == LABEL_RUNNING)
		list_add(&m->running, c);
	else if (m->which == LABEL_WAITING)
		list_add(&m->waiting, c);
}

/* End the value of a label that holds a number. Other text, such as "None", counts as absent. */
static void value_end(struct metrics *m)
{
	int64_t v = 0;

	if (m->which >= N_NUMBER_LABELS)
		return;
	for (uint32_t i = 0; i < m->n_number; i++) {
		if (m->n_number > 15 || m->number[i] < '0' || m->number[i] > '9') {
			v = -1;
			break;
		}
		v = v * 10 + (m->number[i] - '0');
	}
	m->of_label[m->which] = m->n_number > 0 ? v : -1;
	m->n_number = 0;
}

/* ---- bytes -------------------------------------------------------------------------------- */

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= ':') || (c >= 'A' && c <= 'Z');
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void bad(struct metrics *m, char c)
{
	m->bad_lines++;
	m->at = c == '\n' ? METRICS_LINE : METRICS_SKIP;
}

static void in_line(struct metrics *m, char c)
{
	if (is_blank(c) || c == '\n' || c == '\r')
		return;
	m->at = METRICS_SKIP;
	if (!is_name(c))
		return;		/* a comment, or not a metric */
	m->at = METRICS_NAME;
	m->name[0] = c;
	m->n_name = 1;
}

static void in_name(struct metrics *m, char c)
{
	if (is_name(c)) {
		if (m->n_name == METRICS_NAME_MAX)
			m->at = METRICS_SKIP;
		else
			m->name[m->n_name++] = c;
		return;
	}
	m->row = metrics_row_of(span_of(m->name, m->n_name));
	if (m->row < 0) {
		m->at = c == '\n' ? METRICS_LINE : METRICS_SKIP;
		return;
	}
	metrics_series_start(m);
	if (c == '{')
		m->at = METRICS_LABELS;
	else if (is_blank(c))
		m->at = METRICS_GAP;
	else
		bad(m, c);
}

static void in_labels(struct metrics *m, char c)
{
	if (is_blank(c) || c == ',')
		return;
	if (c == '}') {
		m->at = METRICS_GAP;
	} else if (is_name(c)) {
		m->at = METRICS_LABEL;
		m->label[0] = c;
		m->n_label = 1;
	} else {
		bad(m, c);
	}
}

static void in_label(struct metrics *m, char c)
{
	if (is_name(c)) {
		if (m->n_label < METRICS_LABEL_MAX)
			m->label[m->n_label] = c;
		if (m->n_label <= METRICS_LABEL_MAX)
			m->n_label++;
	} else if (c == '=') {
		m->which = m->n_label > METRICS_LABEL_MAX ? LABEL_OTHER :
		    metrics_label_of(span_of(m->label, m->n_label));
		m->at = METRICS_OPEN;
	} else if (is_blank(c)) {
		m->at = METRICS_IS;
	} else {
		bad(m, c);
	}
}

static void in_is(struct metrics *m, char c)
{
	if (c == '=')
		in_label(m, c);
	else if (!is_blank(c))
		bad(m, c);
}

static void in_open(struct metrics *m, char c)
{
	if (c == '"')
		m->at = METRICS_VALUE;
	else if (!is_blank(c))
		bad(m, c);
}

static void in_value(struct metrics *m, char c)
{
	if (c == '\n') {
		bad(m, c);
	} else if (c == '\\') {
		m->at = METRICS_ESCAPE;
	} else if (c == '"') {
		value_end(m);
		m->at = METRICS_CLOSED;
	} else {
		value_add(m, c);
	}
}

static void in_escape(struct metrics *m, char c)
{
	if (c == '\n') {
		bad(m, c);
		return;
	}
	value_add(m, c == 'n' ? '\n' : c);
	m->at = METRICS_VALUE;
}

static void in_closed(struct metrics *m, char c)
{
	if (c == ',' || c == '}')
		m->at = c == ',' ? METRICS_LABELS : METRICS_GAP;
	else if (!is_blank(c))
		bad(m, c);
}

static void in_number(struct metrics *m, char c)
{
	if (m->at == METRICS_GAP && is_blank(c))
		return;
	if (c == '\n' || c == '\r' || is_blank(c)) {
		metrics_series_end(m);
		m->at = c == '\n' ? METRICS_LINE : METRICS_TAIL;
		return;
	}
	m->at = METRICS_NUMBER;
	number_add(m, c);
}

static void byte(struct metrics *m, char c)
{
	switch (m->at) {
	case METRICS_LINE: in_line(m, c); break;
	case METRICS_NAME: in_name(m, c); break;
	case METRICS_LABELS: in_labels(m, c); break;
	case METRICS_LABEL: in_label(m, c); break;
	case METRICS_IS: in_is(m, c); break;
	case METRICS_OPEN: in_open(m, c); break;
	case METRICS_VALUE: in_value(m, c); break;
	case METRICS_ESCAPE: in_escape(m, c); break;
	case METRICS_CLOSED: in_closed(m, c); break;
	case METRICS_GAP:
	case METRICS_NUMBER: in_number(m, c); break;
	case METRICS_TAIL:	/* a time stamp, ignored */
	case METRICS_SKIP: m->at = c == '\n' ? METRICS_LINE : m->at; break;
	}
}

/* Consume the rest of a name at once, because names take half of the time. A name longer than
 * all known ones stops here too; in_name() handles the next byte. */
static const char *take_name(struct metrics *m, const char *p, const char *end)
{
	const char *from = p, *most = p + (METRICS_NAME_MAX - m->n_name);

	if (most > end)
		most = end;
	while (p < most && is_name(*p))
		p++;
	memcpy(m->name + m->n_name, from, (size_t)(p - from));
	m->n_name += (uint32_t)(p - from);
	return p;
}

int metrics_feed(struct metrics *m, const void *p, size_t n)
{
	const char *text = p, *end = text + n;

	if (m->error < 0)
		return m->error;
	if (n > METRICS_ANSWER_MAX - m->answer_bytes)
		return m->error = -METRICS_E_ANSWER;
	m->answer_bytes += (uint32_t)n;
	while (text < end) {
		if (m->at == METRICS_SKIP && (text = memchr(text, '\n', (size_t)(end - text))) == NULL)
			break;
		if (m->at == METRICS_NAME && (text = take_name(m, text, end)) == end)
			break;
		byte(m, *text++);
	}
	return 0;
}

int metrics_end(struct metrics *m, struct engine_report *r)
{
	if (m->error == 0 && m->at != METRICS_LINE)
		byte(m, '\n');
	return metrics_report(m, r);
}

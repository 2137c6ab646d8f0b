/* strftime_now(): datetime.now().strftime(format) for the time given by the caller. Names are
 * English, because engines run without a locale. There is no time zone, so %Z and %z print
 * nothing. "%-d" (no leading zero) is an extension of glibc. */
#include <stdio.h>

#include "agent/jinja/run_in.h"

static const char *const days[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
				    "Thursday", "Friday", "Saturday" };
static const char *const months[] = { "January",   "February", "March",    "April",
				      "May",       "June",     "July",     "August",
				      "September", "October",  "November", "December" };

static int day_of_year(const struct jinja_time *t)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
	bool leap = (t->year % 4 == 0 && t->year % 100 != 0) || t->year % 400 == 0;

	return before[t->month - 1] + t->day + (leap && t->month > 2);
}

/* Return the day of the week, 0 for Sunday, from the days since 1 January of the year 1, a
 * Monday. */
static int day_of_week(const struct jinja_time *t)
{
	int y = t->year - 1;

	return (y * 365 + y / 4 - y / 100 + y / 400 + day_of_year(t)) % 7;
}

static bool add_number(struct run *r, struct text *t, int v, int width, char flag)
{
	char out[16];
	int n = snprintf(out, sizeof(out),
			 flag == '-' ? "%d" :
			 flag == '_' ? "%*d" :
				       "%0*d",
			 flag == '-' ? v : width, v);

	return jx_text_add(r, t, out, (size_t)n);
}

static bool add_name(struct run *r, struct text *t, const char *name, bool whole)
{
	return jx_text_add(r, t, name, whole ? strlen(name) : 3);
}

static bool add_all(struct run *r, struct text *t, const struct jinja_time *now,
		    const char *directives);

static bool add_directive(struct run *r, struct text *t, const struct jinja_time *now, char d,
			  char flag)
{
	int wday = day_of_week(now), yday = day_of_year(now);

	switch (d) {
	case '%':
		return jx_text_char(r, t, '%');
	case 'n':
		return jx_text_char(r, t, '\n');
	case 't':
		return jx_text_char(r, t, '\t');
	case 'a': case 'A':
		return add_name(r, t, days[wday], d == 'A');
	case 'b': case 'h': case 'B':
		return add_name(r, t, months[now->month - 1], d == 'B');
	case 'd':
		return add_number(r, t, now->day, 2, flag);
	case 'e':
		return add_number(r, t, now->day, 2, flag ? flag : '_');
	case 'm':
		return add_number(r, t, now->month, 2, flag);
	case 'y':
		return add_number(r, t, now->year % 100, 2, flag);
	case 'Y':
		return add_number(r, t, now->year, 1, '-');
	case 'C':
		return add_number(r, t, now->year / 100, 2, flag);
	case 'H':
		return add_number(r, t, now->hour, 2, flag);
	case 'k':
		return add_number(r, t, now->hour, 2, flag ? flag : '_');
	case 'I':
		return add_number(r, t, (now->hour + 11) % 12 + 1, 2, flag);
	case 'l':
		return add_number(r, t, (now->hour + 11) % 12 + 1, 2, flag ? flag : '_');
	case 'M':
		return add_number(r, t, now->minute, 2, flag);
	case 'S':
		return add_number(r, t, now->second, 2, flag);
	case 'f':
		return add_number(r, t, now->usec, 6, 0);
	case 'j':
		return add_number(r, t, yday, 3, flag);
	case 'w':
		return add_number(r, t, wday, 1, flag);
	case 'u':
		return add_number(r, t, wday == 0 ? 7 : wday, 1, flag);
	case 'U':
		return add_number(r, t, (yday + 6 - wday) / 7, 2, flag);
	case 'W':
		return add_number(r, t, (yday + 6 - (wday + 6) % 7) / 7, 2, flag);
	case 'p':
		return jx_text_add(r, t, now->hour < 12 ? "AM" : "PM", 2);
	case 'Z': case 'z':
		return true;
	case 'D': case 'x':
		return add_all(r, t, now, "m/d/y");
	case 'F':
		return add_all(r, t, now, "Y-m-d");
	case 'T': case 'X':
		return add_all(r, t, now, "H:M:S");
	case 'R':
		return add_all(r, t, now, "H:M");
	case 'r':
		return add_all(r, t, now, "I:M:S p");
	case 'c':
		return add_all(r, t, now, "a b e H:M:S Y");
	}
	return jx_unknown(r, "strftime's %%%c", d);
}

static bool add_all(struct run *r, struct text *t, const struct jinja_time *now, const char *d)
{
	for (; *d != '\0'; d++)
		if (!(strchr("/-: ", *d) != NULL ? jx_text_char(r, t, *d) : add_directive(r, t, now, *d, 0)))
			return false;
	return true;
}

bool jx_strftime_now(struct run *r, struct jval fmt, struct jval *out)
{
	const char *p, *end;
	struct text t = { 0 };
	char flag;

	if (r->now == NULL)
		return jx_unknown(r, "strftime_now(): there is no time");
	if (fmt.kind != JV_STR)
		return jx_raise(r, "TypeError: strftime() argument 1 must be str, not %s", jval_type(fmt.kind));
	for (p = fmt.s, end = p + fmt.n; p < end; p++) {
		if (*p != '%' || p + 1 == end) {
			if (!jx_text_char(r, &t, *p))
				return false;
			continue;
		}
		flag = p + 2 < end && (p[1] == '-' || p[1] == '_') ? *++p : '\0';
		if (!add_directive(r, &t, r->now, *++p, flag))
			return false;
	}
	*out = jx_text_value(&t);
	return jx_step_bytes(r, t.n);
}

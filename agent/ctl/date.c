/* date.c - a time on the command line. */
#include <stdio.h>

#include "agent/ctl/ctl.h"

static int parse_date(const char *s, struct jinja_time *t)
{
	int n = 0;

	*t = (struct jinja_time){ 0 };
	if (sscanf(s, "%4d-%2d-%2d%n", &t->year, &t->month, &t->day, &n) != 3)
		return -1;
	s += n;
	n = 0;
	if (*s != '\0' &&
	    (sscanf(s, "T%2d:%2d:%2d%n", &t->hour, &t->minute, &t->second, &n) != 3 ||
		s[n] != '\0'))
		return -1;
	return t->year < 1 || t->month < 1 || t->month > 12 || t->day < 1 || t->day > 31 ||
		t->hour < 0 || t->hour > 23 || t->minute < 0 || t->minute > 59 || t->second < 0 ||
		t->second > 60
	    ? -1
	    : 0;
}

int ctl_read_date(const char *s, struct jinja_time *t)
{
	if (parse_date(s, t) == 0)
		return 0;
	fprintf(stderr, "kvroutectl: \"%s\" is not a time like 2026-08-01 or 2026-08-01T12:00:00\n", s);
	return -1;
}

/* ctl.h - the verbs of kvroutectl. Each gets its own argc and argv and returns the exit status. */
#ifndef KVROUTE_CTL_CTL_H
#define KVROUTE_CTL_CTL_H

#include "agent/jinja/jinja.h"

#define CTL_USAGE	64	/* sysexits.h: wrong usage of the command */
#define CTL_FAILED	1

int ctl_doctor(int argc, char **argv);
int ctl_events(int argc, char **argv);
int ctl_models(int argc, char **argv);
int ctl_pages(int argc, char **argv);
int ctl_render(int argc, char **argv);
int ctl_sim(int argc, char **argv);
int ctl_socket(const char *socket, int argc, char **argv);	/* a command, without options */
int ctl_tokenize(int argc, char **argv);
int ctl_top(int argc, char **argv);
int ctl_trial(int argc, char **argv);
int ctl_why(int argc, char **argv);

/* Parse "2026-08-01" or "2026-08-01T12:00:00". Returns 0, or -1 after printing an error. */
int ctl_read_date(const char *s, struct jinja_time *t);

#endif

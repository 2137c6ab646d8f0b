/* value_in.h - shared by value.c (from text) and value_text.c (to text). */
#ifndef KVROUTE_CONF_VALUE_IN_H
#define KVROUTE_CONF_VALUE_IN_H

#include "agent/conf/value.h"

struct conf_unit {
	const char *name;
	uint64_t factor;
};

/* Largest first; the last has no name. */
extern const struct conf_unit conf_size_units[], conf_time_units[];

/* The words of models.text_order, by enum text_part; NULL ends them. */
extern const char *const conf_part_words[];

#endif

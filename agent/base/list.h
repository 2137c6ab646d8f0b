/* list.h - a doubly linked ring of embedded links. The head is a link too, so no operation has a
 * special case. */
#ifndef KVROUTE_BASE_LIST_H
#define KVROUTE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

#define list_entry(l, type, member)	((type *)((char *)(l) - offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Append <l> to the list of <head>. <l> must be in no list. */
static inline void list_append(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Remove <l> from its list. Removing it again changes nothing. */
static inline void list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#endif

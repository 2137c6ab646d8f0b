/* normal_forms_in.h - private to normal.c, normal_forms.c, normal_bert.c and normal_map.c: steps,
 * and the output of one. */
#ifndef KVROUTE_TOK_NORMAL_FORMS_IN_H
#define KVROUTE_TOK_NORMAL_FORMS_IN_H

#include "agent/tok/normal.h"

/* Output of a step: nothing until the first change, then all of the text. */
struct rewrite {
	const uint8_t *in;
	size_t n, taken;	/* bytes of <in> copied or replaced so far */
	struct buf *out;
	bool changed, bad;	/* bad: no memory, or the work is used up */
};

/* Replace in[from .. to) by <n> bytes; <from> is not before the last <to>. Text in between is
 * copied. */
void rewrite_put(struct rewrite *w, size_t from, size_t to, const void *p, size_t n);
/* Set <out>: <in> if nothing changed, p == NULL if there is no memory. */
void rewrite_end(struct rewrite *w, struct span *out);

/* Apply one form: UC_NFC, ... */
void form_run(unsigned form, struct normal_buf *b, struct rewrite *w);

/* Of BertNormalizer: drop control characters and write " " for white space; put spaces around
 * ideographs; drop nonspacing marks. */
void bert_clean(struct rewrite *w);
void bert_ideographs(struct rewrite *w);
void bert_marks_out(struct rewrite *w);

/* Replace by a table, charged to <work> (NULL: nothing is): as tokenizers, as SentencePiece (<m>
 * NULL: characters stay; <kept>, unless NULL: tokens that stay; <prefix>: NORMAL_PREFIX may apply);
 * and Nmt. */
struct added;
struct charsmap;
void map_clusters(const struct charsmap *m, struct work_left *work, struct rewrite *w);
void map_sentence(const struct charsmap *m, const struct added *kept, unsigned flags, bool prefix,
    struct work_left *work, struct rewrite *w);
void map_nmt(struct rewrite *w);

#endif

/* show_text.c - the characters that a configuration may contain, and texts as messages show
 * them. */
#include "agent/base/utf8.h"
#include "agent/conf/value.h"

size_t conf_utf8(struct span s, uint32_t *cp)
{
	return s.n > 0 ? utf8_get_strict(s.p, s.n, cp) : 0;
}

/* Returns true if YAML can carry <cp> unchanged in a quoted text, and a terminal can show it. */
bool conf_can_be_seen(uint32_t cp)
{
	return cp >= 0x20 && (cp < 0x7f || cp > 0x9f) && cp != 0x2028 && cp != 0x2029 &&
	       cp != 0xfeff && cp != 0xfffe && cp != 0xffff;
}

const char *conf_show(struct span text, char out[CONF_SHOW_MAX])
{
	size_t n = 1, used;
	uint32_t cp;

	out[0] = '"';
	for (; text.n > 0; text = span_of(text.p + used, text.n - used)) {
		used = conf_utf8(text, &cp);
		if (n + used > CONF_SHOW_MAX - 6) {
			memcpy(out + n, "...", 3);
			n += 3;
			break;
		}
		if (used == 0 || !conf_can_be_seen(cp)) {
			used = used ? used : 1;
			out[n++] = '?';
			continue;
		}
		memcpy(out + n, text.p, used);
		n += used;
	}
	memcpy(out + n, "\"", 2);
	return out;
}

/* show_text.c - characters: which of them may stand in a configuration, and how a text is shown. */
#include "agent/conf/value.h"

size_t conf_utf8(struct span s, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint8_t c = s.n > 0 ? (uint8_t)s.p[0] : 0xff;
	size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	if (n == 0 || n > s.n)
		return 0;
	*cp = n == 1 ? c : c & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if (((uint8_t)s.p[i] & 0xc0) != 0x80)
			return 0;
		*cp = *cp << 6 | ((uint8_t)s.p[i] & 0x3f);
	}
	return *cp >= least[n] && *cp <= 0x10ffff && (*cp < 0xd800 || *cp > 0xdfff) ? n : 0;
}

/* What YAML can carry in a quoted text as it is, and a terminal can show without harm. */
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

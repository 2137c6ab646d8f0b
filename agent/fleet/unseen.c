/* unseen.c - a small table of tenants. */
#include <string.h>

#include "agent/fleet/unseen.h"

const struct unseen_tenant *unseen_of(const struct unseen *u, uint32_t tenant)
{
	static const struct unseen_tenant nothing;

	for (unsigned i = 0; i < UNSEEN_TENANTS && tenant != 0; i++)
		if (u->of[i].tenant == tenant)
			return &u->of[i];
	return &nothing;
}

struct unseen_tenant *unseen_lesson(struct unseen *u, uint32_t tenant)
{
	struct unseen_tenant *oldest = &u->of[0];

	for (unsigned i = 0; i < UNSEEN_TENANTS; i++) {
		struct unseen_tenant *t = &u->of[i];

		if (t->tenant == tenant) {
			oldest = t;
			break;
		}
		if (t->turn < oldest->turn)
			oldest = t;
	}
	if (oldest->tenant != tenant) {
		memset(oldest, 0, sizeof(*oldest));
		oldest->tenant = tenant;
	}
	oldest->turn = ++u->turn;
	return oldest;
}

void unseen_sized(struct unseen *u)
{
	for (unsigned i = 0; i < UNSEEN_TENANTS; i++)
		memset(&u->of[i].keep, 0, sizeof(u->of[i].keep));
}

struct unseen_sum unseen_sum(const struct unseen *u, msec now)
{
	struct unseen_sum sum = { -1, -1 };
	double shares = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < UNSEEN_TENANTS; i++) {
		msec kept = keep_time(&u->of[i].keep, now);
		double share = announced_share(&u->of[i].announced, now);

		if (kept >= 0 && (sum.kept_s < 0 || (double)kept / 1000 < sum.kept_s))
			sum.kept_s = (double)kept / 1000;
		shares += share;
		n += share > 0;
	}
	if (n > 0)
		sum.came_share = shares / n;
	return sum;
}

/* share_batch.c - what an agent of another version would write to the store, for tests.
 *
 *   share_batch KEY_FILE WHAT NUMBER      WHAT:
 *
 *      newer     batch NUMBER of the next version of share.h
 *      kind      batch NUMBER with an entry of a kind that does not exist, among signs of life
 *      short     the same with an entry that lacks its fields
 *      longer    the same with an entry that has a field more
 *      chunk     the first chunk of snapshot NUMBER, with its hash, in an unknown format
 *      sessions  the same for the sessions of a snapshot
 *
 * All batches are of one agent. The bytes go to standard output. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/share/share.h"

#define AGENT		0x01de6a6e7ull
#define FORMAT		99u
#define SESSIONS_HEAD	56u
#define OF_SESSIONS	0x80000000u

static struct hash_key key;
static struct share_writer w;
static uint8_t room[4096];

static void fail(const char *what)
{
	fprintf(stderr, "share_batch: %s\n", what);
	exit(1);
}

static void put(size_t n)
{
	if (fwrite(room, 1, n, stdout) != n || fflush(stdout) != 0)
		fail("cannot write");
}

static void add_alive(void)
{
	struct share_entry e = { .kind = SHARE_ALIVE, .u.alive.warm = true };

	if (share_write(&w, &e) != 0)
		fail("an entry that cannot be written");
}

static void add_raw(uint32_t kind, const void *bytes, uint32_t n)
{
	uint32_t head = htole32(kind | n << 8);

	memcpy(room + w.n, &head, 4);
	memcpy(room + w.n + 4, bytes, n);
	w.n += 4 + n;
}

static void write_batch(const char *what, uint64_t number)
{
	uint64_t sum;
	size_t n;

	share_write_start(&w, &key, room, sizeof(room));
	add_alive();
	if (strcmp(what, "kind") == 0)
		add_raw(200, "which this agent skips", 22);
	else if (strcmp(what, "short") == 0)
		add_raw(SHARE_TAKEN_BACK, "1", 1);
	else if (strcmp(what, "longer") == 0)
		add_raw(SHARE_ALIVE, "\1\0another field", 16);
	add_alive();
	n = share_write_end(&key, room, w.n, &(struct share_batch){ AGENT, 0, number, 1 });
	if (strcmp(what, "newer") == 0) {
		room[3]++;
		sum = htole64(hash64(&key, room, n - 8));
		memcpy(room + n - 8, &sum, 8);
	}
	put(n);
}

static void write_chunk(const char *magic, uint32_t i, uint64_t gen)
{
	const uint32_t format = htole32(FORMAT), rest = htole32(256 - SESSIONS_HEAD);
	uint64_t hash;

	memcpy(room, magic, 8);
	memcpy(room + 8, &format, 4);
	memcpy(room + 12, &rest, 4);
	hash = htole64(hash_mix_span(&key, hash_mix(&key, gen, i), span_of((char *)room, 256)));
	memcpy(room + 256, &hash, 8);
	put(256 + 8);
}

int main(int argc, char **argv)
{
	uint64_t number = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	FILE *f = argc == 4 ? fopen(argv[1], "rb") : NULL;

	if (f == NULL || fread(key.secret, sizeof(key.secret), 1, f) != 1)
		fail("usage: share_batch KEY_FILE WHAT NUMBER");
	fclose(f);
	if (strcmp(argv[2], "chunk") == 0)
		write_chunk("kvrsnap\n", 0, number);
	else if (strcmp(argv[2], "sessions") == 0)
		write_chunk("kvrsess\n", OF_SESSIONS, number);
	else
		write_batch(argv[2], number);
	return 0;
}

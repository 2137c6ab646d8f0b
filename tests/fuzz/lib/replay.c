/* replay.c - run a fuzz target once over every file named, and every file of a folder named.
 *
 * 	corpus/x: 120 inputs, 48211 bytes
 *
 * Needs no libFuzzer, so any compiler will do. A failure prints the name of the file and ends the
 * program, as with libFuzzer. */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/lib/fuzz.h"

#define FILE_MOST	(4u << 20)

static const char *current = "(none)";
static size_t n_files, n_bytes;

/* Only libFuzzer mutates. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
	return size;
}

/* Print the name of the input, and end the program by the same signal. */
static void on_abort(int signal_number)
{
	static const char text[] = "replay: the input was ";

	if (write(2, text, sizeof(text) - 1) < 0 || write(2, current, strlen(current)) < 0 ||
	    write(2, "\n", 1) < 0)
		_exit(3);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

void __asan_on_error(void);
void __asan_on_error(void)
{
	fprintf(stderr, "replay: the input was %s\n", current);
}

static void run_file(const char *path)
{
	FILE *f = fopen(path, "r");
	uint8_t *room = malloc(FILE_MOST), *data;
	size_t n;

	if (f == NULL || room == NULL) {
		perror(path);
		exit(2);
	}
	n = fread(room, 1, FILE_MOST, f);
	fclose(f);
	data = (uint8_t *)exact(room, n);
	free(room);
	current = path;
	LLVMFuzzerTestOneInput(data, n);
	free(data);
	n_files++;
	n_bytes += n;
}

static void run_path(const char *path)
{
	struct dirent **names;
	struct stat st;
	char name[4096];
	int i, n;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
		run_file(path);
		return;
	}
	if ((n = scandir(path, &names, NULL, alphasort)) < 0) {
		perror(path);
		exit(2);
	}
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			run_file(name);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv)
{
	int i;

	signal(SIGABRT, on_abort);
	for (i = 1; i < argc; i++) {
		size_t files = n_files, bytes = n_bytes;

		run_path(argv[i]);
		printf("%s: %zu inputs, %zu bytes\n", argv[i], n_files - files, n_bytes - bytes);
	}
	return 0;
}

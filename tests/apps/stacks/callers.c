// A server whose functions keep no frame pointer, and that says by which functions it came to where it waits or runs:
// before it does, it writes its own stack to FILE.truth.
//
// usage: callers PORT      answers GET /WHAT/MS; FILE is this program; built with -rdynamic
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TURNS 1000
#include "serve.h"

static const char *truth_file;
static __thread const char *path;
static __thread long wait_ms;

// Writes the stack of the caller, innermost first: names of this program's functions, and "" for the others.
KEPT void write_truth(void)
{
	void *frames[128];
	int n = backtrace(frames, 128);
	FILE *out = fopen(truth_file, "a");
	Dl_info info;
	void *own = dladdr(write_truth, &info) ? info.dli_fbase : NULL;

	fprintf(out, "[\"%s\", [", path);
	for (int i = 1; i < n; i++) {
		const char *name = "";

		if (dladdr((char *)frames[i] - 1, &info) && info.dli_sname && info.dli_fbase == own)
			name = info.dli_sname;
		fprintf(out, "%s\"%s\"", i > 1 ? ", " : "", name);
	}
	fprintf(out, "]]\n");
	fclose(out);
	done++;
}

KEPT long sleep_work(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	write_truth();
	nanosleep(&time, NULL);
	return ++done;
}

// Without the library that finds callers: the tables of this program may be damaged.
KEPT long idle_work(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
	return ++done;
}

KEPT long deep(long levels, long ms)
{
	return (levels ? deep(levels - 1, ms) : sleep_work(ms)) + ++done;
}

KEPT int called(const void *a, const void *b)
{
	if (a != b)
		done += sleep_work(wait_ms);
	return 0;
}

// The C library is between this function and the next.
KEPT long library(long ms)
{
	int numbers[] = { 1, 2 };

	wait_ms = ms;
	qsort(numbers, 2, sizeof(int), called);
	return numbers[0] + ++done;
}

KEPT void handler(int number)
{
	done += sleep_work(wait_ms) + number;
}

// The kernel is between this function and the next.
KEPT long in_signal(long ms)
{
	wait_ms = ms;
	raise(SIGUSR1);
	return ++done;
}

// The compiler has to align the stack for this function.
KEPT long aligned(long ms)
{
	volatile char wide[64] __attribute__((aligned(64))) = { 0 };

	wide[1] = 1;
	return sleep_work(ms) + wide[1] + ++done;
}

// The size of this frame is not known to the compiler.
KEPT long sized(long ms)
{
	volatile char *some = __builtin_alloca(ms);

	some[0] = 1;
	return aligned(ms) + some[0] + ++done;
}

KEPT long price(const char *what, long ms)
{
	long n = 0;

	if (!strcmp(what, "sleep"))
		n = sleep_work(ms);
	else if (!strcmp(what, "idle") || !strcmp(what, "last"))
		n = idle_work(ms);
	else if (!strcmp(what, "deep"))
		n = deep(40, ms);
	else if (!strcmp(what, "endless"))
		n = deep(10000, ms);
	else if (!strcmp(what, "library"))
		n = library(ms);
	else if (!strcmp(what, "signal"))
		n = in_signal(ms);
	else if (!strcmp(what, "aligned"))
		n = sized(ms);
	else if (!strcmp(what, "spin"))
		n = spin_work(ms);
	return n + ++done;
}

KEPT long checkout(const char *what, long ms)
{
	return price(what, ms) + ++done;
}

KEPT void *handle(void *arg)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	int connection = (int)(long)arg;
	char text[1024], asked[64], what[16];
	volatile char secret[64];
	ssize_t length;
	long ms;

	// What a stack holds must not be found elsewhere: this text is in no file.
	for (int i = 0; i < 32; i++)
		secret[i] = "wfdufu"[i % 6] - 1 + i / 6 % 2;
	while ((length = read(connection, text, sizeof(text) - 1)) > 0) {
		text[length] = 0;
		if (sscanf(text, "GET %63s", asked) == 1 && sscanf(asked, "/%15[a-z]/%ld", what, &ms) == 2) {
			path = asked;
			done += checkout(what, ms) + secret[0];
		}
		if (write(connection, answer, sizeof(answer) - 1) < 0)
			break;
		// Ends before anybody has looked at what it was.
		if (!strncmp(asked, "/last/", 6))
			_exit(0);
	}
	close(connection);
	return NULL;
}

int main(int argc, char **argv)
{
	char file[4096];

	snprintf(file, sizeof(file), "%s.truth", argv[0]);
	truth_file = file;
	signal(SIGUSR1, handler);
	return serve(argc > 1 ? atoi(argv[1]) : 0, handle);
}

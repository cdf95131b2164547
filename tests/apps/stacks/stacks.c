// A server whose requests wait in functions with known names.
//
// usage: stacks PORT
//
// A path is /WHAT/MS. `sleep` sleeps for MS, `pipe` waits for a byte that another thread sends after MS, `lock` for a
// mutex that another thread holds for MS, `spin` runs for MS. Each goes handle() → checkout() → price() → NAME_work().
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TURNS 100000
#include "serve.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static volatile long held;

static void nap(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static void *hold(void *ms)
{
	pthread_mutex_lock(&lock);
	held = 1;
	nap((long)ms);
	held = 0;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *send_later(void *ms)
{
	nap((long)ms);
	return (void *)write(ends[1], "x", 1);
}

static pthread_t in_thread(void *(*what)(void *), long ms)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, what, (void *)ms))
		exit(1);
	return thread;
}

KEPT long sleep_work(long ms)
{
	nap(ms);
	return ++done;
}

KEPT long pipe_work(long ms)
{
	pthread_t thread = in_thread(send_later, ms);
	char byte;

	done += read(ends[0], &byte, 1);
	pthread_join(thread, NULL);
	return ++done;
}

KEPT long lock_work(long ms)
{
	pthread_t thread = in_thread(hold, ms);

	while (!held)
		nap(1);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	return ++done;
}

KEPT long price(const char *what, long ms)
{
	long n = 0;

	if (!strcmp(what, "sleep"))
		n = sleep_work(ms);
	else if (!strcmp(what, "pipe"))
		n = pipe_work(ms);
	else if (!strcmp(what, "lock"))
		n = lock_work(ms);
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
	char text[1024], what[16];
	ssize_t length;
	long ms;

	while ((length = read(connection, text, sizeof(text) - 1)) > 0) {
		text[length] = 0;
		if (sscanf(text, "GET /%15[a-z]/%ld", what, &ms) == 2)
			done += checkout(what, ms);
		if (write(connection, answer, sizeof(answer) - 1) < 0)
			break;
	}
	close(connection);
	return NULL;
}

int main(int argc, char **argv)
{
	return pipe(ends) || serve(argc > 1 ? atoi(argv[1]) : 0, handle);
}

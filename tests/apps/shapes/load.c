/*
 * Users of a shape: one blocking thread and one keep-alive connection each.
 *
 * usage: load HOST:PORT USERS REQUESTS [SECONDS]      prints the requests done, the failed ones and the seconds
 *
 * With SECONDS no request begins after them; those under way are waited for.
 */
#define _GNU_SOURCE
#include "http.h"

#include <pthread.h>
#include <stdatomic.h>

static struct sockaddr_in target;
static long requests;
static unsigned long long until = -1ULL;
static atomic_long started, finished, broken;

static void *user(void *arg)
{
	long turn;
	int fd = -1;

	(void)arg;
	while ((turn = atomic_fetch_add(&started, 1)) < requests && now_ns() < until) {
		if (call(&fd, &target, turn, "load", NULL) == 200)
			atomic_fetch_add(&finished, 1);
		else
			atomic_fetch_add(&broken, 1);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long long begin;
	long users = argc == 4 || argc == 5 ? atol(argv[2]) : 0;
	pthread_t *threads;

	if (users < 1) {
		fprintf(stderr, "usage: load HOST:PORT USERS REQUESTS [SECONDS]\n");
		return 2;
	}
	target = parse_address(argv[1]);
	requests = atol(argv[3]);
	truth_open("load");
	threads = calloc(users, sizeof(*threads));
	begin = now_ns();
	if (argc == 5)
		until = begin + (unsigned long long)(atof(argv[4]) * 1e9);
	for (long i = 0; i < users; i++)
		if (pthread_create(&threads[i], NULL, user, NULL))
			return 1;
	for (long i = 0; i < users; i++)
		pthread_join(threads[i], NULL);
	printf("{\"requests\":%ld,\"broken\":%ld,\"seconds\":%.3f}\n", finished, broken, (now_ns() - begin) / 1e9);
	return broken ? 1 : 0;
}

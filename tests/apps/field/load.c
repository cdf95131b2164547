/*
 * Users of a real application: one blocking thread and one keep-alive connection each.
 *
 * usage: load HOST:PORT USERS REQUESTS ROUTE[,ROUTE...]
 *
 * A request is `GET /ROUTE/ID`; ID is twelve hex digits drawn for this request, and the route is drawn, too. One JSON
 * line on stdout: requests, broken (failed ones), seconds. ROUTE/ID of each answered request is a line of load.jsonl
 * in GROUND_TRUTH_DIR.
 */
#define _GNU_SOURCE
#include "../shapes/http.h"

#include <pthread.h>
#include <stdatomic.h>

#define MAX_ROUTES 16

static struct sockaddr_in target;
static const char *routes[MAX_ROUTES];
static int route_count;
static long requests;
static unsigned long long salt;
static atomic_long started, finished, broken;

/* Ids that look random and never repeat: a permutation of the turn's number. */
static unsigned long long id_of(long turn)
{
	unsigned long long x = (unsigned long long)turn * 0x9e3779b97f4a7c15ULL + salt;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return (x ^ (x >> 31)) & 0xffffffffffffULL;
}

static int get(int *fd, const char *path)
{
	static __thread char text[1 << 16];
	size_t have = 0;
	int size = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: field\r\nAccept: */*\r\n\r\n", path), status;

	if (*fd < 0 && (*fd = connect_to(&target)) < 0)
		return -1;
	if (send_all(*fd, text, size))
		return -1;
	for (;;) {
		ssize_t n = recv(*fd, text + have, sizeof(text) - 1 - have, 0);
		char *end;

		if (n <= 0)
			return -1;
		have += n;
		text[have] = 0;
		end = strstr(text, "\r\n\r\n");
		if (!end)
			continue;
		if (strcasestr(text, "\ntransfer-encoding: chunked") ? !memcmp(text + have - 5, "0\r\n\r\n", 5)
								     : (size_t)is_whole(text, have))
			break;
	}
	status = atoi(text + strlen("HTTP/1.1 "));
	if (strcasestr(text, "\r\nconnection: close")) {
		close(*fd);
		*fd = -1;
	}
	return status;
}

static void *user(void *arg)
{
	char path[96];
	long turn;
	int fd = -1, status;

	(void)arg;
	while ((turn = atomic_fetch_add(&started, 1)) < requests) {
		unsigned long long start = now_ns(), id = id_of(turn);

		snprintf(path, sizeof(path), "/%s/%012llx", routes[id % route_count], id);
		status = get(&fd, path);
		atomic_fetch_add(status == 200 ? &finished : &broken, 1);
		truth_write("{\"path\":\"%s\",\"status\":%d,\"start\":%llu,\"end\":%llu}", path, status, start,
			    now_ns());
		if (status < 0 && fd >= 0) {
			close(fd);
			fd = -1;
		}
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long long begin;
	pthread_t *threads;
	char *list;
	long users = argc == 5 ? atol(argv[2]) : 0;

	if (users < 1) {
		fprintf(stderr, "usage: load HOST:PORT USERS REQUESTS ROUTE[,ROUTE...]\n");
		return 2;
	}
	target = parse_address(argv[1]);
	requests = atol(argv[3]);
	list = strdup(argv[4]);
	for (char *route = strtok(list, ","); route && route_count < MAX_ROUTES; route = strtok(NULL, ","))
		routes[route_count++] = route;
	truth_open("load");
	salt = now_ns();
	threads = calloc(users, sizeof(*threads));
	begin = now_ns();
	for (long i = 0; i < users; i++)
		if (pthread_create(&threads[i], NULL, user, NULL))
			return 1;
	for (long i = 0; i < users; i++)
		pthread_join(threads[i], NULL);
	printf("{\"requests\":%ld,\"broken\":%ld,\"seconds\":%.3f}\n", finished, broken, (now_ns() - begin) / 1e9);
	return 0;
}

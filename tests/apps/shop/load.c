/*
 * The shop's customers: one blocking thread and one keep-alive connection per user.
 *
 * usage: load --to HOST:PORT [--users K] [--requests N] [--rate R] [--seed S]
 *   N requests in all (0: until SIGTERM), R requests per second in all (0: as fast as answers come).
 *
 * What a user does depends only on the seed, the user and the number of the request. Prints one JSON object at the end.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static struct sockaddr_in target;
static long users = 10, requests = 1000, seed = 1;
static double rate;
static atomic_long started, finished, broken, statuses[6];
static atomic_bool stop;
static unsigned long long *latencies, begin_ns;
static long latency_room;

static unsigned long mix(unsigned long x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdUL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53UL;
	return x ^ (x >> 33);
}

/* The shop's traffic: mostly browsing, some buying, some mistakes (3 % not found, 4 % without a price). */
static void choose(long user, long turn, const char **method, char path[64])
{
	unsigned long dice = mix(seed * 1000003UL + user * 7919UL + turn);
	int percent = dice % 100, item = 1 + dice / 100 % 12;

	*method = "GET";
	if (percent < 30)
		snprintf(path, 64, "/product/%d", item);
	else if (percent < 34)
		snprintf(path, 64, "/product/13");
	else if (percent < 37)
		snprintf(path, 64, "/product/%d", 900 + item);
	else if (percent < 57)
		snprintf(path, 64, "/home");
	else if (percent < 75) {
		*method = "POST";
		snprintf(path, 64, "/cart/u%ld/%d", user, item);
	} else if (percent < 83)
		snprintf(path, 64, "/cart/u%ld", user);
	else if (percent < 91) {
		*method = "POST";
		snprintf(path, 64, "/checkout/u%ld", user);
	} else if (percent < 96)
		snprintf(path, 64, "/legacy/product/%d", item);
	else
		snprintf(path, 64, "/static/logo.svg");
}

static const char *header(const char *head, const char *name)
{
	const char *at = strcasestr(head, name);

	return at ? at + strlen(name) + strspn(at + strlen(name), ": ") : NULL;
}

/* Reads one response; its status, or -1. The request id is that which nginx gave. */
static int receive(int fd, char id[64])
{
	char buffer[16384];
	size_t have = 0;
	char *body = NULL;
	const char *value;
	long length;

	id[0] = 0;
	while (!body) {
		ssize_t n = have < sizeof(buffer) - 1 ? recv(fd, buffer + have, sizeof(buffer) - 1 - have, 0) : 0;

		if (n <= 0)
			return -1;
		have += n;
		buffer[have] = 0;
		body = strstr(buffer, "\r\n\r\n");
	}
	*body = 0;
	body += 4;
	value = header(buffer, "\nX-Request-ID");
	if (value)
		sscanf(value, "%63[0-9a-zA-Z-]", id);
	value = header(buffer, "\nContent-Length");
	length = value ? atol(value) : 0;
	length -= have - (body - buffer);
	while (length > 0) {
		ssize_t n = recv(fd, buffer, length < (long)sizeof(buffer) ? (size_t)length : sizeof(buffer), 0);

		if (n <= 0)
			return -1;
		length -= n;
	}
	return atoi(buffer + strlen("HTTP/1.1 "));
}

static int connect_to_shop(void)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&target, sizeof(target))) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Waits for the turn of request `ticket` when a rate is set. */
static void pace(long ticket)
{
	while (rate > 0 && !stop) {
		unsigned long long due = begin_ns + ticket * 1e9 / rate, now = now_ns();

		if (now >= due)
			return;
		usleep(due - now > 50000000 ? 50000 : (due - now) / 1000 + 1);
	}
}

static void *user_main(void *arg)
{
	long user = (long)arg, turn = 0, ticket;
	int fd = -1;

	while (!stop && ((ticket = atomic_fetch_add(&started, 1)) < requests || !requests)) {
		char path[64], text[256], local[32], peer[32], id[64];
		const char *method;
		unsigned long long start, end;
		int size, status = -1;

		pace(ticket);
		if (fd < 0)
			fd = connect_to_shop();
		choose(user, turn++, &method, path);
		size = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: shop\r\nUser-Agent: load\r\n%s\r\n",
				method, path, *method == 'P' ? "Content-Length: 0\r\n" : "");
		end_of(fd, getsockname, local);
		end_of(fd, getpeername, peer);
		start = now_ns();
		if (fd >= 0 && send(fd, text, size, MSG_NOSIGNAL) == size)
			status = receive(fd, id);
		end = now_ns();
		if (status < 0) {
			atomic_fetch_add(&broken, 1);
			if (fd >= 0)
				close(fd);
			fd = -1;
			usleep(1000);
			continue;
		}
		truth_write("{\"service\":\"load\",\"kind\":\"client\",\"id\":\"load-%ld\",\"in\":null,"
			    "\"local\":\"%s\",\"peer\":\"%s\",\"start\":%llu,"
			    "\"end\":%llu,\"protocol\":\"http\",\"operation\":\"%s\",\"target\":\"%s\","
			    "\"status\":%d,\"request_id\":\"%s\"}",
			    ticket + 1, local, peer, start, end, method, path, status, id);
		atomic_fetch_add(&statuses[status / 100 < 6 ? status / 100 : 0], 1);
		latencies[atomic_fetch_add(&finished, 1) % latency_room] = end - start;
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void end_early(int signal)
{
	(void)signal;
	stop = 1;
}

static int by_value(const void *a, const void *b)
{
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = end_early,
				    .sa_flags = SA_RESTART }; /* calls under way are finished */
	double seconds;
	long i, n;
	pthread_t *threads;

	for (i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--to"))
			target = parse_address(argv[i + 1]);
		else if (!strcmp(argv[i], "--users"))
			users = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--requests"))
			requests = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--rate"))
			rate = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--seed"))
			seed = atol(argv[i + 1]);
		else
			break;
	}
	if (i != argc || !target.sin_port || users < 1) {
		fprintf(stderr, "usage: load --to HOST:PORT [--users K] [--requests N] [--rate R] [--seed S]\n");
		return 2;
	}
	truth_open("load");
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	latency_room = requests && requests < 1000000 ? requests : 1000000; /* of more, the last million */
	latencies = calloc(latency_room, sizeof(*latencies));
	threads = calloc(users, sizeof(*threads));
	begin_ns = now_ns();
	for (i = 0; i < users; i++) {
		pthread_attr_t attr;

		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 256 * 1024);
		if (pthread_create(&threads[i], &attr, user_main, (void *)(i + 1))) {
			perror("load: pthread_create");
			return 1;
		}
	}
	for (i = 0; i < users; i++)
		pthread_join(threads[i], NULL);
	seconds = (now_ns() - begin_ns) / 1e9;
	n = finished < latency_room ? finished : latency_room;
	qsort(latencies, n, sizeof(*latencies), by_value);
	printf("{\"requests\":%ld,\"broken\":%ld,\"users\":%ld,\"seconds\":%.3f,\"per_second\":%.1f,"
	       "\"2xx\":%ld,\"4xx\":%ld,\"5xx\":%ld,"
	       "\"p50_ms\":%.3f,\"p99_ms\":%.3f}\n",
	       finished, broken, users, seconds, finished / seconds, statuses[2], statuses[4], statuses[5],
	       n ? latencies[n / 2] / 1e6 : 0, n ? latencies[n * 99 / 100] / 1e6 : 0);
	return broken ? 1 : 0;
}

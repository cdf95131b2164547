/*
 * The prices of the shop: HTTP/1.1 by hand, one blocking thread per connection.
 *
 * GET /price/N: 500 when N is divisible by 13, slow (20 ms) when by 17, chunked when by 3.
 *
 * Configured by the environment: LISTEN (host:port) and GROUND_TRUTH_DIR.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <pthread.h>
#include <signal.h>

static unsigned long number;

static int send_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

		if (n <= 0)
			return -1;
		data += n;
		size -= n;
	}
	return 0;
}

/* Reads up to the blank line behind the headers; the callers send no body. 0 at the end of the connection. */
static int read_head(int fd, char *head, size_t room, unsigned long long *start)
{
	size_t have = 0;

	*start = 0;
	while (have < room - 1) {
		ssize_t n = recv(fd, head + have, room - 1 - have, 0);

		if (n <= 0)
			return 0;
		if (!*start)
			*start = now_ns();
		have += n;
		head[have] = 0;
		if (strstr(head, "\r\n\r\n"))
			return 1;
	}
	return 0;
}

static int answer(int fd, int item)
{
	char body[64], out[512];
	int size = snprintf(body, sizeof(body), "{\"cents\":%d,\"currency\":\"EUR\"}", 99 + item * 7);

	usleep(item % 17 ? 200 : 20000);
	if (item % 13 == 0) {
		const char *failed =
			"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 20\r\n\r\n{\"error\":\"no price\"}";

		return send_all(fd, failed, strlen(failed)) ? -1 : 500;
	}
	if (item % 3)
		snprintf(out, sizeof(out),
			 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size,
			 body);
	else
		snprintf(out, sizeof(out),
			 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
			 "\r\n%x\r\n%s\r\n0\r\n\r\n",
			 size, body);
	return send_all(fd, out, strlen(out)) ? -1 : 200;
}

static void *serve(void *arg)
{
	int fd = (int)(long)arg, one = 1;
	char head[4096], method[8], path[256], local[32], peer[32];
	unsigned long long start;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	end_of(fd, getsockname, local);
	end_of(fd, getpeername, peer);
	while (read_head(fd, head, sizeof(head), &start)) {
		int status, item = 0;

		if (sscanf(head, "%7s %255s", method, path) != 2 || sscanf(path, "/price/%d", &item) != 1)
			break;
		status = answer(fd, item);
		if (status < 0)
			break;
		truth_write("{\"service\":\"pricing\",\"kind\":\"server\",\"id\":\"pricing-%lu\",\"local\":\"%s\","
			    "\"peer\":\"%s\",\"start\":%llu,"
			    "\"end\":%llu,\"protocol\":\"http\",\"operation\":\"%s\",\"target\":\"/price/%d\","
			    "\"status\":%d}",
			    __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED), local, peer, start, now_ns(), method,
			    item, status);
	}
	close(fd);
	return NULL;
}

int main(void)
{
	struct sockaddr_in address = parse_address(getenv("LISTEN"));
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	pthread_attr_t attr;

	truth_open("pricing");
	signal(SIGPIPE, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1024)) {
		perror("pricing: listen");
		return 1;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	for (;;) {
		pthread_t thread;
		int fd = accept(listener, NULL, NULL);

		if (fd >= 0 && pthread_create(&thread, &attr, serve, (void *)(long)fd))
			close(fd);
	}
}

/* HTTP/1.1 over blocking sockets, as little as the shapes' C and C++ programs need. */
#ifndef HTTP_H
#define HTTP_H

#include "../shop/truth.h"

#define HEAD 2048

static inline int send_all(int fd, const char *data, size_t size)
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

/* Whether a head is there, and of a response its body too (all here have a Content-Length below HEAD, or none). */
static inline int is_whole(const char *text, size_t have)
{
	const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\ncontent-length:");

	return end && have >= end + 4 - text + (length && length < end ? (size_t)atol(length + 16) : 0);
}

/* Reads a message. 0 at the end. */
static inline int read_message(int fd, char text[HEAD])
{
	size_t have = 0;

	while (have < HEAD - 1) {
		ssize_t n = recv(fd, text + have, HEAD - 1 - have, 0);

		if (n <= 0)
			return 0;
		have += n;
		text[have] = 0;
		if (is_whole(text, have))
			return 1;
	}
	return 0;
}

static inline int connect_to(const struct sockaddr_in *address)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address))) {
		perror("connect");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* A path that names this call and nothing else: its load, and a number drawn for it alone. */
static inline void new_path(char path[64], unsigned load)
{
	static __thread unsigned long long state;
	static __thread pid_t owner;
	unsigned long long x;

	if (owner != getpid()) { /* a child must not draw its parent's numbers */
		owner = getpid();
		FILE *random = fopen("/dev/urandom", "r");

		if (!random || fread(&state, sizeof(state), 1, random) != 1)
			exit(1);
		fclose(random);
	}
	x = state += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	snprintf(path, 64, "/work/%u/%012llx", load % 4, (x ^ (x >> 31)) & 0xffffffffffffULL);
}

/* The record of a call that was answered. `in` is the path of the request it was made for; NULL for a user. */
static inline void note_call(const char *service, const char *path, const char *in, const struct sockaddr_in *to,
			     unsigned long long start, int status)
{
	char quoted[80] = "null";

	if (in)
		snprintf(quoted, sizeof(quoted), "\"%s\"", in);
	truth_write("{\"service\":\"%s\",\"kind\":\"client\",\"target\":\"%s\",\"in\":%s,\"port\":%d,"
		    "\"start\":%llu,\"end\":%llu,\"status\":%d}",
		    service, path, quoted, ntohs(to->sin_port), start, now_ns(), status);
}

/* Writes the ground truth of a request that was served on LISTEN. */
static inline void note_served(const char *service, const char *path, unsigned long long start, int status)
{
	truth_write("{\"service\":\"%s\",\"kind\":\"server\",\"target\":\"%s\",\"port\":%d,\"start\":%llu,"
		    "\"end\":%llu,\"status\":%d}",
		    service, path, ntohs(parse_address(getenv("LISTEN")).sin_port), start, now_ns(), status);
}

/* One call on a connection that is opened when it is not; its record. */
static inline int call(int *fd, const struct sockaddr_in *to, unsigned load, const char *service, const char *in)
{
	char text[HEAD], path[64];
	unsigned long long start = now_ns();
	int size, status;

	new_path(path, load);
	if (*fd < 0 && (*fd = connect_to(to)) < 0)
		return -1;
	size = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: shapes\r\n\r\n", path);
	if (send_all(*fd, text, size) || !read_message(*fd, text)) {
		close(*fd);
		*fd = -1;
		return -1;
	}
	status = atoi(text + strlen("HTTP/1.1 "));
	if (strcasestr(text, "\r\nconnection: close")) {
		close(*fd);
		*fd = -1;
	}
	note_call(service, path, in, to, start, status);
	return status;
}

#endif

/* Ground truth of the C and C++ programs: one JSON line per call, one write each. See ../README.md for the fields. */
#ifndef TRUTH_H
#define TRUTH_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int truth_fd = -1;

static inline unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static inline void truth_open(const char *service)
{
	const char *dir = getenv("GROUND_TRUTH_DIR");
	char path[512];

	if (!dir) {
		fprintf(stderr, "%s: GROUND_TRUTH_DIR is not set\n", service);
		exit(2);
	}
	snprintf(path, sizeof(path), "%s/%s.jsonl", dir, service);
	truth_fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (truth_fd < 0) {
		perror(path);
		exit(1);
	}
}

__attribute__((format(printf, 1, 2))) static inline void truth_write(const char *format, ...)
{
	char line[1024];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n < 0 || n >= (int)sizeof(line) - 1) {
		fprintf(stderr, "a record of ground truth is too long\n");
		exit(1);
	}
	line[n] = '\n';
	if (write(truth_fd, line, n + 1) != n + 1) {
		perror("ground truth");
		exit(1);
	}
}

/* "host:port" to an address; ends the program if it is not one. */
static inline struct sockaddr_in parse_address(const char *text)
{
	struct sockaddr_in address = {};
	const char *colon = text ? strrchr(text, ':') : NULL;
	char host[64] = "";

	if (colon && (size_t)(colon - text) < sizeof(host))
		memcpy(host, text, colon - text);
	if (!colon || inet_pton(AF_INET, host, &address.sin_addr) != 1) {
		fprintf(stderr, "not an IPv4 address and port: %s\n", text ? text : "(unset)");
		exit(2);
	}
	address.sin_family = AF_INET;
	address.sin_port = htons(atoi(colon + 1));
	return address;
}

/* One end of a socket as "ip:port": get is getsockname or getpeername. */
static inline const char *end_of(int fd, int (*get)(int, struct sockaddr *, socklen_t *), char text[32])
{
	struct sockaddr_in address = {};
	socklen_t size = sizeof(address);

	get(fd, (struct sockaddr *)&address, &size);
	snprintf(text, 32, "%s:%d", inet_ntoa(address.sin_addr), ntohs(address.sin_port));
	return text;
}

#endif

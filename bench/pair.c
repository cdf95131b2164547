/*
 * Send + receive pairs over one TCP connection on loopback, and system calls that have nothing to do with sockets.
 * Each line on stdin is a command; its answer is a line with ns per pair or call.
 *
 *   pair BYTES COUNT     call COUNT     (end of file ends it)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID,
		      &t); /* of this process, its system calls included: neighbours do not count */
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), server, one = 1;
	char line[64], what[8], buffer[65536];
	long bytes, count;

	if (bind(listener, (void *)&a, size) || listen(listener, 1) || getsockname(listener, (void *)&a, &size))
		die("listen");
	if (connect(client, (void *)&a, size))
		die("connect");
	server = accept(listener, NULL, NULL);
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	memset(buffer, 'x', sizeof(buffer));
	printf("%d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		double start;

		if (sscanf(line, "%7s %ld %ld", what, &bytes, &count) == 3 && !strcmp(what, "pair")) {
			char *request = "GET / HTTP/1.1\r\nHost: x\r\n",
			     *answer = "HTTP/1.1 200 OK\r\nContent-Length: ";
			char out[65536], back[65536];
			int n;

			/* Both directions carry a whole HTTP message of `bytes`: so the connection is understood. */
			n = snprintf(out, sizeof(out), "%sX: ", request);
			memset(out + n, 'x', bytes - n - 4);
			memcpy(out + bytes - 4, "\r\n\r\n", 4);
			for (long body = bytes;; body--) {
				n = snprintf(back, sizeof(back), "%s%ld\r\n\r\n", answer, body);
				if (n + body <= bytes)
					break;
			}
			memset(back + n, 'y', bytes - n);
			start = now();
			for (long i = 0; i < count; i++) {
				if (send(client, out, bytes, 0) != bytes ||
				    recv(server, buffer, bytes, MSG_WAITALL) != bytes)
					die("request");
				if (send(server, back, bytes, 0) != bytes ||
				    recv(client, buffer, bytes, MSG_WAITALL) != bytes)
					die("answer");
			}
			/* Two pairs a turn. */
			printf("%.1f\n", (now() - start) / count / 2);
		} else if (sscanf(line, "%7s %ld", what, &count) == 2 && !strcmp(what, "call")) {
			start = now();
			for (long i = 0; i < count; i++)
				syscall(SYS_getppid);
			printf("%.1f\n", (now() - start) / count);
		} else {
			fprintf(stderr, "pair: what is %s", line);
			return 2;
		}
		fflush(stdout);
	}
	return 0;
}

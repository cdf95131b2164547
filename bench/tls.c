/*
 * SSL_write + SSL_read pairs over one TLS 1.3 connection on loopback. Each line on stdin is a command; its answer is a
 * line with ns per pair (processor time of this process, its system calls included).
 *
 *   http BYTES COUNT     a request and its answer: of each, the beginning is enough
 *   nats BYTES COUNT     a message published and one delivered: a protocol of which every call is read whole
 *
 * End of file ends it. A connection speaks one of them.      usage: tls CERTIFICATE KEY
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* All of a message: one record for each SSL_write. */
static void move(SSL *from, const char *message, SSL *to, char *buffer, int bytes)
{
	if (SSL_write(from, message, bytes) != bytes || SSL_read(to, buffer, bytes) != bytes)
		die("pair");
}

/* A head that says how long the body is, and the body: `bytes` together, `tail` at the end. */
static void fill(char *message, long bytes, const char *head, const char *tail)
{
	long end = strlen(tail), body = bytes;
	int n;

	do
		n = snprintf(message, bytes, head, body--);
	while (n + body + 1 + end > bytes);
	memset(message + n, 'x', bytes - n - end);
	memcpy(message + bytes - end, tail, end);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fds[2] = { socket(AF_INET, SOCK_STREAM, 0) }, one = 1, done = 0;
	socklen_t size = sizeof(a);
	SSL_CTX *contexts[2] = { SSL_CTX_new(TLS_client_method()), SSL_CTX_new(TLS_server_method()) };
	SSL *ends[2];
	char line[64], out[16384], back[16384], buffer[16384];
	long bytes, count;

	if (argc != 3 || SSL_CTX_use_certificate_file(contexts[1], argv[1], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(contexts[1], argv[2], SSL_FILETYPE_PEM) != 1)
		die("certificate");
	printf("%d\n", getpid());
	fflush(stdout);
	if (bind(listener, (void *)&a, size) || listen(listener, 1) || getsockname(listener, (void *)&a, &size))
		die("listen");
	if (connect(fds[0], (void *)&a, size))
		die("connect");
	fds[1] = accept(listener, NULL, NULL);
	for (int i = 0; i < 2; i++) {
		setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		fcntl(fds[i], F_SETFL, O_NONBLOCK);
		ends[i] = SSL_new(contexts[i]);
		SSL_set_fd(ends[i], fds[i]);
	}
	SSL_set_connect_state(ends[0]);
	SSL_set_accept_state(ends[1]);
	for (int i = 0; done != 3 && i < 1000; i++)
		done |= (SSL_do_handshake(ends[i & 1]) == 1) << (i & 1);
	fcntl(fds[0], F_SETFL, 0);
	fcntl(fds[1], F_SETFL, 0);
	while (done == 3 && fgets(line, sizeof(line), stdin)) {
		double start;
		char what[8];

		if (sscanf(line, "%7s %ld %ld", what, &bytes, &count) != 3 || bytes < 100 || bytes > (long)sizeof(out))
			continue;
		if (!strcmp(what, "nats")) {
			fill(out, bytes, "PUB orders %ld\r\n", "\r\n");
			fill(back, bytes, "MSG orders 1 %ld\r\n", "\r\n");
		} else {
			fill(out, bytes, "GET / HTTP/1.1\r\nHost: x\r\nX: %ld", "\r\n\r\n");
			fill(back, bytes, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", "");
		}
		start = now();
		for (long i = 0; i < count; i++) {
			move(ends[0], out, ends[1], buffer, bytes);
			move(ends[1], back, ends[0], buffer, bytes);
		}
		printf("%.1f\n", (now() - start) / count / 2);
		fflush(stdout);
	}
	return done != 3;
}

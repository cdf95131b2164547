/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client and a server, two processes, that talk HTTP/1.1 over TLS without pause on several connections at once.
 *
 * usage: tls_load CONNECTIONS SECONDS SIGN      SIGN: a file; the first connection waits until it exists
 *
 * Each connection has a client's thread and a server's thread. A request names its connection, its number and the size
 * of its body: POST /tls/3/17/40000. Both bodies vary from none to three records of TLS. At the end the client prints
 * as one JSON line how many requests each connection has made. Needs cert.pem and key.pem in its folder.
 */
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT 8443
#define MOST_CONNECTIONS 64
#define REQUESTS_A_CONNECTION 200 /* then the client opens another one */
#define BUFFER 65536

static const int SIZES[] = { 0, 17, 700, 5000, 16384, 40000 };
#define SIZE_COUNT (sizeof(SIZES) / sizeof(SIZES[0]))

static const char REQUEST[] = "POST /tls/%d/%ld/%d HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n";

static SSL_CTX *context;
static time_t end;
static long asked[MOST_CONNECTIONS];

static void fail(const char *what)
{
	fprintf(stderr, "tls_load: %s\n", what);
	exit(1);
}

/* Reads one message, head and body. Returns its length, or 0 at the end of the connection. */
static int read_message(SSL *ssl, char *buffer)
{
	int have = 0;

	for (;;) {
		char *body, *length;
		int n = SSL_read(ssl, buffer + have, BUFFER - 1 - have);

		if (n <= 0)
			return 0;
		have += n;
		buffer[have] = 0;
		body = strstr(buffer, "\r\n\r\n");
		length = strstr(buffer, "content-length: ");
		if (body && length && have >= body + 4 - buffer + atoi(length + 16))
			return have;
		if (have == BUFFER - 1)
			fail("a message is longer than any that is sent");
	}
}

/* Appends a body to a head and sends both in one call. */
static bool write_message(SSL *ssl, char *buffer, int head, int size, char filling)
{
	memset(buffer + head, filling, size);
	return SSL_write(ssl, buffer, head + size) == head + size;
}

static void *serve(void *at)
{
	int fd = (int)(long)at, thread, size;
	char *buffer = malloc(BUFFER);
	SSL *ssl = SSL_new(context);
	long number;

	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1) {
		while (read_message(ssl, buffer)) {
			int head;

			if (sscanf(buffer, "POST /tls/%d/%ld/%d ", &thread, &number, &size) != 3)
				fail("the server read a request that nobody sent");
			size = SIZES[(number + SIZE_COUNT / 2) % SIZE_COUNT];
			head = sprintf(buffer, "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n", size);
			if (!write_message(ssl, buffer, head, size, 'A' + thread))
				break;
		}
	}
	SSL_free(ssl);
	close(fd);
	free(buffer);
	return NULL;
}

static void run_server(int listener)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pthread_t thread;

		if (fd < 0)
			continue;
		if (pthread_create(&thread, NULL, serve, (void *)(long)fd))
			fail("no thread for a connection");
		pthread_detach(thread);
	}
}

static const struct sockaddr_in ADDRESS = {
	.sin_family = AF_INET,
	.sin_port = (in_port_t)(PORT << 8 | PORT >> 8),
	.sin_addr.s_addr = 0x0100007f,
};

/* Makes requests on one connection after the other, until the time is over. */
static void *ask(void *at)
{
	int thread = (int)(long)at;
	char *buffer = malloc(BUFFER);

	while (time(NULL) < end) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		SSL *ssl = SSL_new(context);

		SSL_set_fd(ssl, fd);
		if (connect(fd, (const struct sockaddr *)&ADDRESS, sizeof(ADDRESS)) || SSL_connect(ssl) != 1)
			fail("the client gets no connection");
		for (int n = 0; n < REQUESTS_A_CONNECTION && time(NULL) < end; n++) {
			long number = asked[thread]++;
			int size = SIZES[number % SIZE_COUNT];
			int head = sprintf(buffer, REQUEST, thread, number, size, size);

			if (!write_message(ssl, buffer, head, size, 'a' + thread))
				fail("the client could not send");
			head = read_message(ssl, buffer);
			size = SIZES[(number + SIZE_COUNT / 2) % SIZE_COUNT];
			if (!head || (size && buffer[head - 1] != 'A' + thread))
				fail("the client got another thread's answer, or none");
		}
		SSL_shutdown(ssl);
		SSL_free(ssl);
		close(fd);
	}
	free(buffer);
	return NULL;
}

int main(int argc, char **argv)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, connections;
	pthread_t threads[MOST_CONNECTIONS];
	pid_t server;

	if (argc != 4 || (connections = atoi(argv[1])) < 1 || connections > MOST_CONNECTIONS)
		fail("usage: tls_load CONNECTIONS SECONDS SIGN");
	signal(SIGPIPE, SIG_IGN);
	context = SSL_CTX_new(TLS_method());
	SSL_CTX_use_certificate_file(context, "cert.pem", SSL_FILETYPE_PEM);
	SSL_CTX_use_PrivateKey_file(context, "key.pem", SSL_FILETYPE_PEM);
	if (!SSL_CTX_check_private_key(context))
		fail("no certificate");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (const struct sockaddr *)&ADDRESS, sizeof(ADDRESS)) || listen(listener, MOST_CONNECTIONS))
		fail("the port is taken");
	if (nice(10) == -1) /* the tracer goes first: a record that is lost is no record that is checked */
		fail("nice");
	server = fork();
	if (!server)
		run_server(listener);
	close(listener);
	while (access(argv[3], F_OK))
		usleep(100000);
	end = time(NULL) + atoi(argv[2]);
	for (long i = 0; i < connections; i++)
		if (pthread_create(&threads[i], NULL, ask, (void *)i))
			fail("no thread for a client");
	for (int i = 0; i < connections; i++)
		pthread_join(threads[i], NULL);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	printf("{\"sizes\": [0, 17, 700, 5000, 16384, 40000], \"asked\": [");
	for (int i = 0; i < connections; i++)
		printf("%s%ld", i ? ", " : "", asked[i]);
	printf("]}\n");
	return 0;
}

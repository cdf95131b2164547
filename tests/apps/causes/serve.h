/* What the servers here share: a listener with a thread per connection, and connections to the back end. */
#ifndef SERVE_H
#define SERVE_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void send_at_once(int socket)
{
	int one = 1;

	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int connect_to(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int to = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(to, (struct sockaddr *)&at, sizeof(at)))
		fail("connect");
	send_at_once(to);
	return to;
}

/* Prints `listening PORT`, and handles each connection in a thread of its own. */
static void serve(void *(*handle)(void *))
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t size = sizeof(at);
	pthread_t thread;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 64))
		fail("listen");
	getsockname(listener, (struct sockaddr *)&at, &size);
	printf("listening %d\n", ntohs(at.sin_port));
	fflush(stdout);
	for (;;) {
		int from = accept(listener, NULL, NULL);

		if (from < 0)
			fail("accept");
		send_at_once(from);
		pthread_create(&thread, NULL, handle, (void *)(long)from);
		pthread_detach(thread);
	}
}

#endif

/*
 * A server with a thread per connection. Each thread waits for an event within its call, as the C core of gRPC does.
 * `waits BACK`: a handler reads its request from a blocking socket, waits for a timer in epoll_wait(), then asks the
 * back end over a connection of its own. Prints `listening PORT`.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define WAIT_NS 500000

static int back;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int back_end(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(back),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int to = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (connect(to, (struct sockaddr *)&at, sizeof(at)))
		fail("connect");
	setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return to;
}

static void await_timer(int loop, int timer)
{
	struct itimerspec soon = { .it_value.tv_nsec = WAIT_NS };
	struct epoll_event event;
	unsigned long long times;

	if (timerfd_settime(timer, 0, &soon, NULL) || epoll_wait(loop, &event, 1, -1) != 1 ||
	    read(timer, &times, sizeof(times)) != sizeof(times))
		fail("timer");
}

static void *handle(void *argument)
{
	int from = (int)(long)argument, to = back_end(), number;
	int loop = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct epoll_event readable = { .events = EPOLLIN };
	const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	char text[1024];
	ssize_t n;

	if (epoll_ctl(loop, EPOLL_CTL_ADD, timer, &readable))
		fail("epoll_ctl");
	while ((n = recv(from, text, sizeof(text) - 1, 0)) > 0) {
		text[n] = 0;
		if (sscanf(text, "GET /r/%d ", &number) != 1)
			break;
		await_timer(loop, timer);
		n = snprintf(text, sizeof(text), "GET /u/%d HTTP/1.1\r\nHost: b\r\n\r\n", number);
		if (send(to, text, n, 0) != n || recv(to, text, sizeof(text), 0) <= 0)
			fail("back end");
		send(from, answer, strlen(answer), 0);
	}
	close(from);
	close(to);
	close(loop);
	close(timer);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	socklen_t size = sizeof(at);
	pthread_t thread;

	if (argc != 2)
		return 2;
	back = atoi(argv[1]);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 64))
		fail("listen");
	getsockname(listener, (struct sockaddr *)&at, &size);
	printf("listening %d\n", ntohs(at.sin_port));
	fflush(stdout);
	for (;;) {
		int from = accept(listener, NULL, NULL);

		if (from < 0)
			fail("accept");
		setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		pthread_create(&thread, NULL, handle, (void *)(long)from);
		pthread_detach(thread);
	}
}

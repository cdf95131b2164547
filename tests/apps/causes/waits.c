/*
 * A server with a thread per connection. Each thread waits for an event within its call, as the C core of gRPC does.
 * `waits BACK`: a handler reads its request from a blocking socket, waits for a timer in epoll_wait(), then asks the
 * back end over a connection of its own. Prints `listening PORT`.
 */
#include "serve.h"
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define WAIT_NS 500000

static int back;

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
	int from = (int)(long)argument, to = connect_to(back), number;
	int loop = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct epoll_event readable = { .events = EPOLLIN };
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
		send(from, ANSWER, strlen(ANSWER), 0);
	}
	close(from);
	close(to);
	close(loop);
	close(timer);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	back = atoi(argv[1]);
	serve(handle);
}

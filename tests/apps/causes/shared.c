/*
 * A server whose threads share one connection to the back end, as the clients of Redis for Java do. `shared BACK`: a
 * thread per connection reads a request, leaves its call in a queue, wakes the loop, and sleeps. The loop sends what is
 * in the queue. It lets answers gather for a while, reads them in one call, and wakes the threads in the order of their
 * answers. Prints `listening PORT`.
 */
#include "serve.h"

#include <semaphore.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GATHER_US 4000
#define MOST 256 /* calls under way */

struct call {
	int number;
	sem_t answered;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call *calls[MOST]; /* in the order in which they are sent */
static unsigned queued, sent, answered;
static int back, wake;

static void send_queued(int to)
{
	char text[128];
	int n;

	for (;;) {
		struct call *call = NULL;

		pthread_mutex_lock(&lock);
		if (sent < queued)
			call = calls[sent++ % MOST];
		pthread_mutex_unlock(&lock);
		if (!call)
			return;
		n = snprintf(text, sizeof(text), "GET /u/%d HTTP/1.1\r\nHost: b\r\n\r\n", call->number);
		if (send(to, text, n, 0) != n)
			fail("send");
	}
}

/* All answers are alike, so their lengths tell their number. */
static void read_answers(int to)
{
	static char text[1 << 16];
	static size_t kept;
	const size_t length = strlen(ANSWER);
	ssize_t n = recv(to, text, sizeof(text), 0);

	if (n <= 0)
		exit(0);
	for (kept += n; kept >= length; kept -= length)
		sem_post(&calls[answered++ % MOST]->answered);
}

static void *run_loop(void *argument)
{
	int to = connect_to(back), loop = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN, .data.fd = wake };
	unsigned long long times;

	(void)argument;
	if (epoll_ctl(loop, EPOLL_CTL_ADD, wake, &event))
		fail("epoll_ctl");
	event.data.fd = to;
	if (epoll_ctl(loop, EPOLL_CTL_ADD, to, &event))
		fail("epoll_ctl");
	for (;;) {
		if (epoll_wait(loop, &event, 1, -1) != 1)
			continue;
		if (event.data.fd == to) {
			usleep(GATHER_US);
			read_answers(to);
		} else if (read(wake, &times, sizeof(times)) > 0) {
			send_queued(to);
		}
	}
	return NULL;
}

static void *handle(void *argument)
{
	unsigned long long once = 1;
	int from = (int)(long)argument;
	struct call call;
	char text[1024];
	ssize_t n;

	sem_init(&call.answered, 0, 0);
	while ((n = recv(from, text, sizeof(text) - 1, 0)) > 0) {
		text[n] = 0;
		if (sscanf(text, "GET /r/%d ", &call.number) != 1)
			break;
		pthread_mutex_lock(&lock);
		calls[queued++ % MOST] = &call;
		pthread_mutex_unlock(&lock);
		if (write(wake, &once, sizeof(once)) != sizeof(once))
			fail("write");
		while (sem_wait(&call.answered))
			;
		send(from, ANSWER, strlen(ANSWER), 0);
	}
	close(from);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t loop;

	if (argc != 2)
		return 2;
	back = atoi(argv[1]);
	wake = eventfd(0, 0);
	pthread_create(&loop, NULL, run_loop, NULL);
	serve(handle);
}

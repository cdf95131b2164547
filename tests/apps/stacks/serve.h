// What the servers in C have in common: a thread for each connection, and a function that runs. It looks at the clock
// after TURNS turns of its loop.
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define KEPT __attribute__((noinline, noclone))

static volatile long done;

KEPT long spin_work(long ms)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		for (int i = 0; i < TURNS; i++)
			done++;
		clock_gettime(CLOCK_MONOTONIC, &to);
	} while ((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 < ms);
	return ++done;
}

// Listens on a port of the loopback device, and lets a thread handle each connection. Returns if it cannot.
static int serve(int port, void *(*handle)(void *))
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	pthread_t thread;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 64))
		return 1;
	for (;;) {
		long connection = accept(listener, NULL, NULL);

		if (connection >= 0 && !pthread_create(&thread, NULL, handle, (void *)connection))
			pthread_detach(thread);
	}
}

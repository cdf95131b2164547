/*
 * A process that must never be traced: two processes exchange marked bytes over TCP, UDP and Unix sockets, as HTTP and
 * Redis would, until SIGTERM or until its time is over.
 *
 * usage: bystander MARK [SECONDS]
 *
 * Prints "ready" when the first exchange is done, and the number of exchanges at its end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void on_term(int signal)
{
	(void)signal;
	stop = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Both ends of a connection over the loopback. */
static void connected(int type, int ends[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, b = a;
	socklen_t size = sizeof(a);
	int listener = socket(AF_INET, type, 0);

	ends[0] = socket(AF_INET, type, 0);
	if (listener < 0 || ends[0] < 0 || bind(listener, (void *)&a, size) || getsockname(listener, (void *)&a, &size))
		die("bind");
	if (type == SOCK_STREAM && listen(listener, 1))
		die("listen");
	if (bind(ends[0], (void *)&b, size) || connect(ends[0], (void *)&a, size) ||
	    getsockname(ends[0], (void *)&b, &size))
		die("connect");
	if (type == SOCK_DGRAM) {
		ends[1] = listener;
		if (connect(listener, (void *)&b, size))
			die("connect");
		return;
	}
	ends[1] = accept(listener, NULL, NULL);
	if (ends[1] < 0)
		die("accept");
	close(listener);
}

static void serve(int ends[3][2])
{
	char data[512];
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < 3; i++)
		close(ends[i][0]);
	for (i = 0;; i = (i + 1) % 3) {
		ssize_t n = recv(ends[i][1], data, sizeof(data), 0);

		if (n <= 0 || send(ends[i][1], data, n, MSG_NOSIGNAL) != n)
			_exit(0);
	}
}

int main(int argc, char **argv)
{
	const char *kinds[] = { "GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", "*2\r\n$3\r\nGET\r\n:%s\r\n%s", "%s %s" };
	time_t end = time(NULL) + (argc > 2 ? atol(argv[2]) : 3600);
	struct sigaction action = { .sa_handler = on_term, .sa_flags = SA_RESTART };
	char out[512], in[512];
	int ends[3][2], i;
	long done = 0;
	pid_t child;

	if (argc < 2 || strlen(argv[1]) > 200) {
		fprintf(stderr, "usage: bystander MARK [SECONDS]\n");
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	connected(SOCK_STREAM, ends[0]);
	connected(SOCK_DGRAM, ends[1]);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends[2]))
		die("socketpair");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child)
		serve(ends);
	for (i = 0; i < 3; i++)
		close(ends[i][1]);
	while (!stop && time(NULL) < end) {
		for (i = 0; i < 3; i++) {
			int n = snprintf(out, sizeof(out), kinds[i], argv[1], argv[1]);

			if (send(ends[i][0], out, n, MSG_NOSIGNAL) != n || recv(ends[i][0], in, sizeof(in), 0) != n)
				die("exchange");
		}
		if (!done++) {
			puts("ready");
			fflush(stdout);
		}
		usleep(2000);
	}
	for (i = 0; i < 3; i++)
		close(ends[i][0]);
	kill(child, SIGKILL); /* it may be waiting for a datagram */
	waitpid(child, NULL, 0);
	printf("%ld\n", done * 3);
	return 0;
}

/*
 * Loads of bench/why.
 *
 *   serve WORK_US     a server with a thread for each connection; each request runs for WORK_US, then waits for the
 *                     thread of a log that runs for half of that; `GET /N` makes N getpid calls, too; prints its port
 *   ask PORT          each line on stdin is a number of requests on one connection, and the N of their path; its answer
 *                     is the mean of their latencies, ns
 *   turns             each line on stdin is a number of turns between two threads by pipes; its answer is the CPU time
 *                     of one, ns
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long work_us;
static sem_t lines;
static int to[2], back[2];

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double turns_of_ns;

/* Makes no system call: the clock of a thread is one. */
static void __attribute__((noinline)) turn(long count)
{
	for (volatile long i = 0; i < count; i++)
		;
}

static void spin(double ns)
{
	turn(ns * turns_of_ns);
}

/* The best of some tries: others may run meanwhile. */
static void calibrate(void)
{
	const long count = 1000000;

	for (int i = 0; i < 20; i++) {
		double from = now(CLOCK_THREAD_CPUTIME_ID), found;

		turn(count);
		found = count / (now(CLOCK_THREAD_CPUTIME_ID) - from);
		if (found > turns_of_ns)
			turns_of_ns = found;
	}
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

struct line {
	sem_t written;
	struct line *next;
};

static struct line *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *write_log(void *none)
{
	for (;;) {
		struct line *line;

		sem_wait(&lines);
		pthread_mutex_lock(&lock);
		line = first;
		first = line->next;
		pthread_mutex_unlock(&lock);
		spin(work_us * 500.0);
		sem_post(&line->written);
	}
	return none;
}

static void *handle(void *arg)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	int fd = (int)(long)arg;
	char request[4096];
	struct line line;

	sem_init(&line.written, 0, 0);
	while (read(fd, request, sizeof(request)) > 0) {
		long calls = atol(request + 5);

		spin(work_us * 1000.0);
		while (calls-- > 0)
			syscall(SYS_getpid);
		pthread_mutex_lock(&lock);
		line.next = first;
		first = &line;
		pthread_mutex_unlock(&lock);
		sem_post(&lines);
		sem_wait(&line.written);
		if (write(fd, answer, sizeof(answer) - 1) < 0)
			break;
	}
	close(fd);
	return NULL;
}

static int tcp(struct sockaddr_in *a, int port)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	memset(a, 0, sizeof(*a));
	a->sin_family = AF_INET;
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a->sin_port = htons(port);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void serve(void)
{
	struct sockaddr_in a;
	socklen_t size = sizeof(a);
	int listener = tcp(&a, 0);
	pthread_t thread;

	if (bind(listener, (void *)&a, size) || listen(listener, 16) || getsockname(listener, (void *)&a, &size))
		die("listen");
	sem_init(&lines, 0, 0);
	pthread_create(&thread, NULL, write_log, NULL);
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	for (;;)
		pthread_create(&thread, NULL, handle, (void *)(long)accept(listener, NULL, NULL));
}

static double ask(int fd, long count, long calls)
{
	char request[128], answer[4096];
	int length = snprintf(request, sizeof(request), "GET /%ld HTTP/1.1\r\nHost: currency\r\n\r\n", calls);
	double from = now(CLOCK_MONOTONIC);

	for (long i = 0; i < count; i++)
		if (write(fd, request, length) < 0 || read(fd, answer, sizeof(answer)) <= 0)
			die("ask");
	return (now(CLOCK_MONOTONIC) - from) / count;
}

static void *return_turns(void *none)
{
	char c;

	while (read(to[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
		;
	return none;
}

static double turns(long count)
{
	double from = now(CLOCK_PROCESS_CPUTIME_ID);
	char c = 0;

	for (long i = 0; i < count; i++)
		if (write(to[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			die("turn");
	return (now(CLOCK_PROCESS_CPUTIME_ID) - from) / count;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a;
	pthread_t thread;
	char line[64];
	int fd = -1;

	if (argc == 3 && !strcmp(argv[1], "serve")) {
		work_us = atol(argv[2]);
		calibrate();
		serve();
	}
	if (argc == 3 && !strcmp(argv[1], "ask")) {
		fd = tcp(&a, atoi(argv[2]));
		if (connect(fd, (void *)&a, sizeof(a)))
			die("connect");
	} else if (pipe(to) || pipe(back) || pthread_create(&thread, NULL, return_turns, NULL)) {
		die("pipe");
	}
	while (fgets(line, sizeof(line), stdin)) {
		char *calls;
		long count = strtol(line, &calls, 10);

		printf("%.0f\n", fd < 0 ? turns(count) : ask(fd, count, atol(calls)));
		fflush(stdout);
	}
	return 0;
}

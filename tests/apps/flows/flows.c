/*
 * Calls and answers with known numbers, and says at its end what it did: the truth against which flows are held, and
 * the load under which they are measured.
 *
 *   flows serve tcp|udp ADDRESS PORT [-s SIZE] [-w WORKERS]
 *   flows call  tcp|udp ADDRESS PORT [-n ROUNDTRIPS] [-c CONNECTIONS] [-s SIZE] [-r PER_SECOND] [-p PEERS]
 *                                    [-1] [-h] [-C]
 *
 * `serve` runs until SIGTERM and answers SIZE bytes to each SIZE received.
 *
 * -w: processes with a socket each at one port (SO_REUSEPORT). -p: ADDRESS and the PEERS-1 addresses behind it take
 * turns. -1: a connection per round trip. -h: says "ready" when connected, and begins with a line on stdin. UDP clients
 * are not connected, but with -C. One JSON line per process on stdout: opened, failed, sent/received calls and bytes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
	uint64_t opened, failed, sent, sent_bytes, received, received_bytes;
} did;
static volatile sig_atomic_t stop;
static size_t size = 64;
static int lossy;
static char buffer[1 << 20];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void on_term(int s)
{
	stop = 1;
}

static void tell(const char *role)
{
	printf("{\"role\":\"%s\",\"pid\":%d,\"opened\":%lu,\"failed\":%lu,\"sent\":%lu,\"sent_bytes\":%lu,"
	       "\"received\":%lu,"
	       "\"received_bytes\":%lu}\n",
	       role, getpid(), did.opened, did.failed, did.sent, did.sent_bytes, did.received, did.received_bytes);
	fflush(stdout);
}

static socklen_t address(struct sockaddr_storage *a, const char *text, int port, unsigned nth)
{
	struct sockaddr_in *v4 = (void *)a;
	struct sockaddr_in6 *v6 = (void *)a;

	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		v4->sin_addr.s_addr = htonl(ntohl(v4->sin_addr.s_addr) + nth);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1) {
		fprintf(stderr, "%s is no address\n", text);
		exit(2);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	return sizeof(*v6);
}

static int listen_at(int type, const char *text, int port)
{
	struct sockaddr_storage a;
	socklen_t len = address(&a, text, port, 0);
	int on = 1, fd = socket(a.ss_family, type | SOCK_NONBLOCK, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(fd, (void *)&a, len) || (type == SOCK_STREAM && listen(fd, 4096)))
		die("listen");
	return fd;
}

static void answer(int fd)
{
	ssize_t n = recv(fd, buffer, size, 0);

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			close(fd);
		return;
	}
	did.received++;
	did.received_bytes += n;
	/* Answers as many bytes as came: whole messages in whole calls, as long as they are short. */
	n = send(fd, buffer, n, MSG_NOSIGNAL);
	if (n > 0) {
		did.sent++;
		did.sent_bytes += n;
	}
}

static void answer_datagrams(int fd)
{
	struct sockaddr_storage from;

	for (int i = 0; i < 64; i++) {
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, buffer, sizeof(buffer), MSG_DONTWAIT, (void *)&from, &len);

		if (n < 0)
			return;
		did.received++;
		did.received_bytes += n;
		n = sendto(fd, buffer, n, 0, (void *)&from, len);
		if (n >= 0) {
			did.sent++;
			did.sent_bytes += n;
		}
	}
}

static void serve(int fd, int type)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd }, got[256];
	int ep = epoll_create1(0);

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
	while (!stop) {
		int n = epoll_wait(ep, got, 256, 100);

		for (int i = 0; i < n; i++) {
			if (got[i].data.fd != fd) {
				answer(got[i].data.fd);
			} else if (type == SOCK_DGRAM) {
				answer_datagrams(fd);
			} else {
				for (int c; (c = accept4(fd, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
					did.opened++;
					e.data.fd = c;
					epoll_ctl(ep, EPOLL_CTL_ADD, c, &e);
				}
			}
		}
	}
	tell("server");
}

static int connect_to(const char *text, int port, unsigned nth)
{
	struct sockaddr_storage a;
	socklen_t len = address(&a, text, port, nth);
	int on = 1, fd = socket(a.ss_family, SOCK_STREAM, 0);

	if (fd < 0)
		die("socket");
	if (connect(fd, (void *)&a, len)) {
		did.failed++;
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	did.opened++;
	return fd;
}

static void round_trip(int fd, const struct sockaddr_storage *to, socklen_t len)
{
	ssize_t n =
		len ? sendto(fd, buffer, size, MSG_NOSIGNAL, (void *)to, len) : send(fd, buffer, size, MSG_NOSIGNAL);
	size_t got = 0;

	if (n < 0)
		return;
	did.sent++;
	did.sent_bytes += n;
	while (got < size) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (lossy && poll(&p, 1, 1000) < 1)
			return; /* a lost datagram */
		n = recvfrom(fd, buffer, sizeof(buffer), 0, NULL, NULL);
		if (n <= 0)
			return;
		did.received++;
		did.received_bytes += n;
		got += n;
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long n = 1, connections = 1, rate = 0, peers = 1, workers = 1, opt, each = 0, held = 0, connected = 0;
	struct rlimit files = { 200000, 200000 };
	struct sigaction term = { .sa_handler = on_term };
	pid_t children[64];
	int type, port;

	while ((opt = getopt(argc, argv, "n:c:s:r:p:w:1hC")) != -1) {
		switch (opt) {
		case 'n':
			n = atol(optarg);
			break;
		case 'c':
			connections = atol(optarg);
			break;
		case 's':
			size = atol(optarg);
			break;
		case 'r':
			rate = atol(optarg);
			break;
		case 'p':
			peers = atol(optarg);
			break;
		case 'w':
			workers = atol(optarg);
			break;
		case '1':
			each = 1;
			break;
		case 'h':
			held = 1;
			break;
		case 'C':
			connected = 1;
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 4 || !size || size > sizeof(buffer) || connections < 1 || peers < 1) {
		fprintf(stderr, "usage: %s serve|call tcp|udp ADDRESS PORT [options]\n", argv[0]);
		return 2;
	}
	argv += optind;
	type = strcmp(argv[1], "udp") ? SOCK_STREAM : SOCK_DGRAM;
	lossy = type == SOCK_DGRAM;
	port = atoi(argv[3]);
	setrlimit(RLIMIT_NOFILE, &files);
	sigaction(SIGTERM, &term, NULL);
	if (!strcmp(argv[0], "serve")) {
		for (int w = 1; w < workers && w < 64; w++) {
			children[w] = fork();
			if (!children[w]) {
				serve(listen_at(type, argv[2], port), type);
				return 0;
			}
		}
		int fd = listen_at(type, argv[2], port);

		fprintf(stderr, "ready\n");
		serve(fd, type);
		for (int w = 1; w < workers && w < 64; w++)
			kill(children[w], SIGTERM);
		while (wait(NULL) > 0)
			;
		return 0;
	}

	int *fds = calloc(connections, sizeof(*fds));
	struct sockaddr_storage to;
	socklen_t len = 0;

	for (long i = 0; i < connections && !each; i++)
		fds[i] = type == SOCK_STREAM ? connect_to(argv[2], port, i % peers)
					     : socket(strchr(argv[2], ':') ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
	if (held) {
		fprintf(stderr, "ready\n");
		if (read(0, buffer, 1) < 0)
			return 1;
	}
	for (uint64_t i = 0, begun = now_ns(); i < (uint64_t)n && !stop; i++) {
		int fd = each ? -1 : fds[i % connections];

		if (rate && i % 16 == 0) {
			uint64_t due = begun + i * 1000000000ull / rate, now = now_ns();

			if (due > now + 500000)
				usleep((due - now) / 1000);
		}
		if (type == SOCK_DGRAM) {
			len = address(&to, argv[2], port, i % peers);
			if (each)
				fd = socket(to.ss_family, SOCK_DGRAM, 0);
			if (connected) {
				if ((each || i < (uint64_t)connections) && connect(fd, (void *)&to, len))
					die("connect");
				len = 0;
			}
		} else if (each) {
			fd = connect_to(argv[2], port, i % peers);
		}
		if (fd >= 0)
			round_trip(fd, len ? &to : NULL, len);
		if (each && fd >= 0)
			close(fd);
	}
	tell("client");
	if (held && read(0, buffer, 1) < 0)
		return 1;
	return 0;
}

/*
 * Moves marked bytes through each system call that can carry a message, and says what it did.
 *
 * usage: abi [--mark TEXT] [--list] [CASE...]
 *
 * A case is FAMILY/SEND/RECEIVE (`tcp4/writev/readv`) or FAMILY/SPECIAL (`tcp4/peek`); without any, all run in turn.
 * Each case forks: the parent is the client, the child the server. The client sends "TEXT CASE request", padded to 96
 * bytes, the server answers "TEXT CASE answer", padded likewise. Every call on a socket is one JSON object on a line of
 * its own:
 *
 *   {"case","side":"client"|"server","pid","op":"send"|"recv","abi","local","peer","bytes","errno","peek"}
 *
 * bytes is what the call returned (-1 with an errno); a call that moved several messages gives one line per message.
 * Unix sockets have empty ends. Exit code: 0 if every case did what it should. One file, though long, so that a test
 * can compile it with one command.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE 96
#define BULK (1 << 20)
#define ZEROCOPY_BYTES 16384

static const char *mark = "MARK", *current, *side;
static char peer[80]; /* as noted at the start: a socket that was reset has none any more */
static int failures;

static void die(const char *what)
{
	fprintf(stderr, "abi: %s: %s: %s\n", current ? current : "start", what, strerror(errno));
	exit(1);
}

static void end_text(int fd, int (*get)(int, struct sockaddr *, socklen_t *), char text[80])
{
	struct sockaddr_storage a = { 0 };
	socklen_t size = sizeof(a);
	char ip[INET6_ADDRSTRLEN];

	text[0] = 0;
	if (get(fd, (struct sockaddr *)&a, &size))
		return;
	if (a.ss_family == AF_INET) {
		struct sockaddr_in *v4 = (void *)&a;

		snprintf(text, 80, "%s:%d", inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof(ip)), ntohs(v4->sin_port));
	} else if (a.ss_family == AF_INET6) {
		struct sockaddr_in6 *v6 = (void *)&a;

		snprintf(text, 80, "[%s]:%d", inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof(ip)),
			 ntohs(v6->sin6_port));
	}
}

/* Writes one line about a call; keeps errno. */
static ssize_t tell(int fd, const char *op, const char *abi, ssize_t bytes, int peek)
{
	int error = bytes < 0 ? errno : 0, saved = errno, n;
	char local[80], line[512];

	end_text(fd, getsockname, local);
	n = snprintf(line, sizeof(line),
		     "{\"case\":\"%s\",\"side\":\"%s\",\"pid\":%d,\"op\":\"%s\",\"abi\":\"%s\",\"local\":\"%s\","
		     "\"peer\":\"%s\","
		     "\"bytes\":%zd,\"errno\":%d,\"peek\":%s}\n",
		     current, side, getpid(), op, abi, local, peer, bytes, error, peek ? "true" : "false");
	if (write(STDOUT_FILENO, line, n) != n)
		exit(1);
	errno = saved;
	return bytes;
}

/* --- one call of each kind, moving len bytes --- */

/* Three vectors, the first of them empty: what counts is the sum. */
static int cut(struct iovec v[3], char *data, size_t len)
{
	v[0] = (struct iovec){ data, 0 };
	v[1] = (struct iovec){ data, len / 3 };
	v[2] = (struct iovec){ data + len / 3, len - len / 3 };
	return 3;
}

static ssize_t send_by(const char *abi, int fd, char *data, size_t len)
{
	struct iovec v[3];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = cut(v, data, len) } };
	ssize_t n = -1;
	int pipes[2], file;

	if (!strcmp(abi, "write")) {
		n = write(fd, data, len);
	} else if (!strcmp(abi, "writev")) {
		n = writev(fd, v, 3);
	} else if (!strcmp(abi, "sendto")) {
		n = sendto(fd, data, len, MSG_NOSIGNAL, NULL, 0);
	} else if (!strcmp(abi, "sendmsg")) {
		n = sendmsg(fd, &m.msg_hdr, MSG_NOSIGNAL);
	} else if (!strcmp(abi, "sendmmsg")) {
		n = sendmmsg(fd, &m, 1, MSG_NOSIGNAL) == 1 ? (ssize_t)m.msg_len : -1;
	} else if (!strcmp(abi, "sendfile")) {
		file = memfd_create("abi", 0);
		if (file < 0 || write(file, data, len) != (ssize_t)len || lseek(file, 0, SEEK_SET))
			die("memfd");
		n = sendfile(fd, file, NULL, len);
		close(file);
	} else if (!strcmp(abi, "splice")) {
		if (pipe(pipes) || write(pipes[1], data, len) != (ssize_t)len)
			die("pipe");
		n = splice(pipes[0], NULL, fd, NULL, len, 0);
		close(pipes[0]);
		close(pipes[1]);
	} else {
		errno = ENOSYS;
	}
	return tell(fd, "send", abi, n, 0);
}

static ssize_t recv_by(const char *abi, int fd, char *data, size_t len)
{
	struct iovec v[3];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = cut(v, data, len) } };
	ssize_t n = -1;
	int pipes[2];

	if (!strcmp(abi, "read")) {
		n = read(fd, data, len);
	} else if (!strcmp(abi, "readv")) {
		n = readv(fd, v, 3);
	} else if (!strcmp(abi, "recvfrom")) {
		n = recvfrom(fd, data, len, 0, NULL, NULL);
	} else if (!strcmp(abi, "recvmsg")) {
		n = recvmsg(fd, &m.msg_hdr, 0);
	} else if (!strcmp(abi, "recvmmsg")) {
		n = recvmmsg(fd, &m, 1, 0, NULL) == 1 ? (ssize_t)m.msg_len : -1;
	} else if (!strcmp(abi, "splice")) {
		if (pipe(pipes))
			die("pipe");
		n = splice(fd, NULL, pipes[1], NULL, len, 0);
		if (n > 0 && read(pipes[0], data, n) != n)
			die("pipe");
		close(pipes[0]);
		close(pipes[1]);
	} else {
		errno = ENOSYS;
	}
	return tell(fd, "recv", abi, n, 0);
}

static void message(char data[MESSAGE], const char *kind)
{
	int n = snprintf(data, MESSAGE, "%s %s %s", mark, current, kind);

	memset(data + n, '.', MESSAGE - n);
}

static void expect(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "abi: %s: %s: %s\n", current, side, what);
		failures++;
	}
}

static void receive(const char *abi, int fd, const char *kind)
{
	char want[MESSAGE], got[MESSAGE];
	size_t have = 0;

	message(want, kind);
	while (have < MESSAGE) {
		ssize_t n = recv_by(abi, fd, got + have, MESSAGE - have);

		if (n <= 0)
			break;
		have += n;
	}
	expect(have == MESSAGE && !memcmp(want, got, MESSAGE), kind);
}

static void transmit(const char *abi, int fd, const char *kind)
{
	char data[MESSAGE];

	message(data, kind);
	expect(send_by(abi, fd, data, MESSAGE) == MESSAGE, kind);
}

/* --- pairs of connected sockets --- */

static socklen_t loopback(const char *family, struct sockaddr_storage *a)
{
	memset(a, 0, sizeof(*a));
	if (strstr(family, "6") || !strcmp(family, "mapped")) {
		struct sockaddr_in6 *v6 = (void *)a;

		v6->sin6_family = AF_INET6;
		inet_pton(AF_INET6, strcmp(family, "mapped") ? "::1" : "::ffff:127.0.0.1", &v6->sin6_addr);
		return sizeof(*v6);
	}
	((struct sockaddr_in *)a)->sin_family = AF_INET;
	((struct sockaddr_in *)a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return sizeof(struct sockaddr_in);
}

static int bound(const char *family, int type, struct sockaddr_storage *a, socklen_t *size)
{
	int fd;

	*size = loopback(family, a);
	fd = socket(a->ss_family, type, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)a, *size) || getsockname(fd, (struct sockaddr *)a, size))
		die(family);
	return fd;
}

/* Forks and connects: returns the own end; *child is 0 in the server. */
static int start(const char *family, pid_t *child)
{
	struct sockaddr_storage a, b;
	socklen_t a_size, b_size;
	int fd, other, pair[2], one = 1;

	fflush(stdout);
	if (!strncmp(family, "unix", 4)) {
		if (socketpair(AF_UNIX, strcmp(family, "unix") ? SOCK_DGRAM : SOCK_STREAM, 0, pair))
			die("socketpair");
		fd = pair[0];
		other = pair[1];
	} else if (!strncmp(family, "udp", 3)) {
		fd = bound(family, SOCK_DGRAM, &a, &a_size);
		other = bound(family, SOCK_DGRAM, &b, &b_size);
		if (connect(fd, (struct sockaddr *)&b, b_size) || connect(other, (struct sockaddr *)&a, a_size))
			die("connect");
	} else {
		other = bound(family, SOCK_STREAM, &a, &a_size);
		if (listen(other, 1))
			die("listen");
		fd = -1;
	}
	*child = fork();
	side = *child ? "client" : "server";
	if (!*child)
		failures = 0;
	if (*child < 0)
		die("fork");
	if (fd >= 0) {
		close(*child ? other : fd);
		return *child ? fd : other;
	}
	if (*child) { /* TCP: the client connects, the server accepts, each in its own process */
		fd = socket(a.ss_family, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&a, a_size))
			die("connect");
	} else {
		fd = accept(other, NULL, NULL);
		if (fd < 0)
			die("accept");
	}
	close(other);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* --- what is special --- */

static void peek(int fd, int server)
{
	char data[MESSAGE];
	int i;

	if (!server) {
		transmit("write", fd, "request");
		receive("read", fd, "answer");
		return;
	}
	for (i = 0; i < 2; i++)
		expect(tell(fd, "recv", "recvfrom", recv(fd, data, MESSAGE, MSG_PEEK | MSG_WAITALL), 1) == MESSAGE,
		       "peek");
	receive("recvfrom", fd, "request");
	transmit("write", fd, "answer");
}

/* Nothing to read at first: EAGAIN is not a message. */
static void again(int fd, int server)
{
	char data[MESSAGE];
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	if (!server) {
		usleep(50000);
		transmit("write", fd, "request");
		receive("read", fd, "answer");
		return;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	expect(recv_by("read", fd, data, MESSAGE) < 0 && errno == EAGAIN, "EAGAIN");
	poll(&ready, 1, 5000);
	receive("read", fd, "request");
	transmit("write", fd, "answer");
}

/* A MiB through a small buffer: writes are cut short, and refused, until the reader has caught up. */
static void partial(int fd, int server)
{
	static char bulk[BULK];
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	int small = 8192, cut_short = 0, refused = 0;
	size_t done = 0;

	memset(bulk, '.', BULK);
	message(bulk, "request");
	while (server && done < BULK) {
		ssize_t n = recv_by("read", fd, bulk, BULK);

		if (n <= 0)
			break;
		done += n;
	}
	if (server) {
		expect(done == BULK, "bulk");
		transmit("write", fd, "answer");
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (done < BULK) {
		ssize_t n = send_by("write", fd, bulk + done, BULK - done);

		if (n < 0 && errno != EAGAIN)
			break;
		refused += n < 0;
		cut_short += n >= 0 && (size_t)n < BULK - done;
		done += n > 0 ? n : 0;
		poll(&ready, 1, 5000);
	}
	/* On a stream of the Unix kind, a write that fits not at all is refused and never cut short. */
	expect(done == BULK && cut_short + refused > 0, "partial writes");
	fcntl(fd, F_SETFL, 0);
	receive("read", fd, "answer");
}

/* MSG_ZEROCOPY; its completion comes by the error queue, which is no message. */
static void zerocopy(int fd, int server)
{
	static char bulk[ZEROCOPY_BYTES];
	char control[128];
	struct msghdr completion = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct pollfd ready = { .fd = fd };
	int one = 1;
	size_t done = 0;

	memset(bulk, '.', sizeof(bulk));
	message(bulk, "request");
	while (server && done < sizeof(bulk)) {
		ssize_t n = recv_by("recvmsg", fd, bulk, sizeof(bulk));

		if (n <= 0)
			break;
		done += n;
	}
	if (server) {
		transmit("write", fd, "answer");
		return;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		die("SO_ZEROCOPY");
	expect(tell(fd, "send", "sendto", send(fd, bulk, sizeof(bulk), MSG_ZEROCOPY), 0) == sizeof(bulk), "zero copy");
	poll(&ready, 1, 5000);
	expect(recvmsg(fd, &completion, MSG_ERRQUEUE) >= 0, "completion");
	receive("read", fd, "answer");
}

/* Three messages in one call each way. */
static void many(int fd, int server)
{
	char data[3][MESSAGE];
	struct iovec v[3];
	struct mmsghdr m[3] = { 0 };
	int i, n = 0, got = 0;

	for (i = 0; i < 3; i++) {
		message(data[i], "request");
		v[i] = (struct iovec){ data[i], MESSAGE };
		m[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	}
	if (!server) {
		n = sendmmsg(fd, m, 3, 0);
		for (i = 0; i < n; i++)
			tell(fd, "send", "sendmmsg", m[i].msg_len, 0);
		expect(n == 3, "sendmmsg");
		receive("read", fd, "answer");
		return;
	}
	while (got < 3) {
		n = recvmmsg(fd, m, 3 - got, MSG_WAITFORONE, NULL);
		if (n <= 0)
			break;
		for (i = 0; i < n; i++)
			tell(fd, "recv", "recvmmsg", m[i].msg_len, 0);
		got += n;
	}
	expect(got == 3, "recvmmsg");
	transmit("write", fd, "answer");
}

/* The server resets; the client's next calls fail with an errno. */
static void reset(int fd, int server)
{
	struct linger hard = { 1, 0 };
	char data[MESSAGE];

	message(data, "request");
	if (server) {
		receive("read", fd, "request");
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		close(fd);
		return;
	}
	transmit("write", fd, "request");
	expect(recv_by("read", fd, data, MESSAGE) < 0 && errno == ECONNRESET, "ECONNRESET");
	expect(send_by("sendto", fd, data, MESSAGE) < 0 && errno == EPIPE, "EPIPE");
}

static const struct {
	const char *name;
	void (*run)(int fd, int server);
	const char *families;
} specials[] = {
	{ "peek", peek, "tcp4 tcp6 unix" }, { "eagain", again, "tcp4 unix" }, { "partial", partial, "tcp4 unix" },
	{ "zerocopy", zerocopy, "tcp4" },   { "many", many, "udp4 udp6" },    { "reset", reset, "tcp4" },
};

static const char *const pairs[][2] = { { "write", "read" },	  { "writev", "readv" },      { "sendto", "recvfrom" },
					{ "sendmsg", "recvmsg" }, { "sendmmsg", "recvmmsg" }, { "sendfile", "read" },
					{ "splice", "splice" } };
static const char *const families[] = { "tcp4", "tcp6", "mapped", "udp4", "udp6", "unix", "unixdgram" };
#define COUNT(a) (int)(sizeof(a) / sizeof(*(a)))

static void run(const char *name, const char *family, int pair, void (*special)(int, int))
{
	pid_t child;
	int fd, status = 0;

	current = name;
	fd = start(family, &child);
	end_text(fd, getpeername, peer);
	if (special) {
		special(fd, child == 0);
	} else if (child) {
		transmit(pairs[pair][0], fd, "request");
		receive(pairs[pair][1], fd, "answer");
	} else {
		receive(pairs[pair][1], fd, "request");
		transmit(pairs[pair][0], fd, "answer");
	}
	close(fd);
	if (!child)
		_exit(failures ? 1 : 0);
	waitpid(child, &status, 0);
	expect(status == 0, "the server failed");
}

static int wanted(const char *name, int argc, char **argv, int from)
{
	if (from == argc)
		return 1;
	for (; from < argc; from++)
		if (!strcmp(argv[from], name))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	int i, f, from = 1, list = 0, ran = 0;
	char name[64];

	signal(SIGPIPE, SIG_IGN);
	for (; from < argc && !strncmp(argv[from], "--", 2); from++) {
		if (!strcmp(argv[from], "--list"))
			list = 1;
		else if (!strcmp(argv[from], "--mark") && from + 1 < argc)
			mark = argv[++from];
		else {
			fprintf(stderr, "usage: abi [--mark TEXT] [--list] [CASE...]\n");
			return 2;
		}
	}
	if (strlen(mark) > 40) {
		fprintf(stderr, "abi: the mark must not be longer than 40 bytes\n");
		return 2;
	}
	for (f = 0; f < COUNT(families); f++) {
		int stream = strncmp(families[f], "udp", 3) && strcmp(families[f], "unixdgram");

		for (i = 0; i < COUNT(pairs) + COUNT(specials); i++) {
			int special = i - COUNT(pairs);

			if (special < 0 && !stream && i >= 5)
				continue; /* sendfile and splice are for streams */
			if (special >= 0 && !strstr(specials[special].families, families[f]))
				continue;
			if (special < 0)
				snprintf(name, sizeof(name), "%s/%s/%s", families[f], pairs[i][0], pairs[i][1]);
			else
				snprintf(name, sizeof(name), "%s/%s", families[f], specials[special].name);
			if (!wanted(name, argc, argv, from))
				continue;
			ran++;
			if (list)
				puts(name);
			else
				run(name, families[f], i, special < 0 ? NULL : specials[special].run);
		}
	}
	if (!ran) {
		fprintf(stderr, "abi: no such case; `abi --list` names them\n");
		return 2;
	}
	return failures ? 1 : 0;
}

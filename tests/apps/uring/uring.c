/*
 * Messages over loopback connections, each sent and received through io_uring, in every form that io_uring has for it.
 * Says on stdout, one JSON object a line, what each operation moved. Ends by itself.
 *
 *   uring [--sqpoll]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MESSAGES 20
#define BYTES 300
#define BUFFERS 8
#define GROUP 1

static const char *forms[] = { "send", "sendmsg", "write", "fixed", "multishot", "async" };
enum form { SEND, SENDMSG, WRITE, FIXED, MULTISHOT, ASYNC, FORMS };

static char outgoing[4096], incoming[4096], pool[BUFFERS][512];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "uring: %s: %s\n", what, strerror(-result));
		exit(1);
	}
}

static void end(char *text, size_t size, int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in a;
	socklen_t length = sizeof(a);
	char ip[INET_ADDRSTRLEN];

	if (name(fd, (struct sockaddr *)&a, &length))
		die("name of a socket");
	snprintf(text, size, "%s:%d", inet_ntop(AF_INET, &a.sin_addr, ip, sizeof(ip)), ntohs(a.sin_port));
}

static void say(const char *op, int fd, int form, int bytes)
{
	char local[64], peer[64];

	end(local, sizeof(local), fd, (int (*)(int, struct sockaddr *, socklen_t *))getsockname);
	end(peer, sizeof(peer), fd, (int (*)(int, struct sockaddr *, socklen_t *))getpeername);
	printf("{\"op\":\"%s\",\"form\":\"%s\",\"local\":\"%s\",\"peer\":\"%s\",\"bytes\":%d}\n", op, forms[form],
	       local, peer, bytes);
}

static struct io_uring_cqe *wait_one(struct io_uring *ring, const char *what)
{
	struct io_uring_cqe *cqe;

	check(io_uring_wait_cqe(ring, &cqe), what);
	check(cqe->res, what);
	return cqe;
}

static void finish(struct io_uring *ring, int fd, int form, const char *op)
{
	struct io_uring_cqe *cqe = wait_one(ring, forms[form]);

	say(op, fd, form, cqe->res);
	io_uring_cqe_seen(ring, cqe);
}

static void give_buffers(struct io_uring *ring, int first, int count)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_provide_buffers(sqe, pool[first], sizeof(pool[0]), count, GROUP, first);
	io_uring_submit(ring);
	io_uring_cqe_seen(ring, wait_one(ring, "provide buffers"));
}

static void send_one(struct io_uring *ring, int fd, int form)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct iovec v[2] = { { outgoing, 100 }, { outgoing + 100, BYTES - 100 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	switch (form) {
	case SENDMSG:
		io_uring_prep_sendmsg(sqe, fd, &m, 0);
		break;
	case WRITE:
		io_uring_prep_write(sqe, fd, outgoing, BYTES, 0);
		break;
	case FIXED:
		io_uring_prep_write_fixed(sqe, fd, outgoing, BYTES, 0, 0);
		break;
	default:
		io_uring_prep_send(sqe, fd, outgoing, BYTES, 0);
		if (form == ASYNC)
			io_uring_sqe_set_flags(sqe, IOSQE_ASYNC); /* by a worker thread of the kernel */
	}
	io_uring_submit(ring);
	finish(ring, fd, form, "send");
}

/* Asked for before the bytes are there: the receive ends in task work. */
static void ask(struct io_uring *ring, int fd, int form)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	static struct iovec v[2];
	static struct msghdr m;

	v[0] = (struct iovec){ incoming, 7 };
	v[1] = (struct iovec){ incoming + 7, sizeof(incoming) - 7 };
	m = (struct msghdr){ .msg_iov = v, .msg_iovlen = 2 };
	switch (form) {
	case SENDMSG:
		io_uring_prep_recvmsg(sqe, fd, &m, 0);
		break;
	case WRITE:
		io_uring_prep_read(sqe, fd, incoming, sizeof(incoming), 0);
		break;
	case FIXED:
		io_uring_prep_read_fixed(sqe, fd, incoming, sizeof(incoming), 0, 1);
		break;
	default:
		io_uring_prep_recv(sqe, fd, incoming, sizeof(incoming), 0);
		if (form == ASYNC)
			io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	}
	io_uring_submit(ring);
}

static void converse(struct io_uring *to, struct io_uring *from, int listener, int form)
{
	int client = socket(AF_INET, SOCK_STREAM, 0), server;
	struct sockaddr_in a;
	socklen_t length = sizeof(a);

	if (getsockname(listener, (void *)&a, &length) || connect(client, (void *)&a, length))
		die("connect");
	server = accept(listener, NULL, NULL);
	if (server < 0)
		die("accept");
	if (form == MULTISHOT) {
		struct io_uring_sqe *sqe;

		give_buffers(from, 0, BUFFERS);
		sqe = io_uring_get_sqe(from);
		io_uring_prep_recv_multishot(sqe, server, NULL, 0, 0);
		sqe->buf_group = GROUP;
		sqe->flags |= IOSQE_BUFFER_SELECT;
		io_uring_submit(from);
	}
	for (int i = 0; i < MESSAGES; i++) {
		memset(outgoing, 'x', BYTES);
		outgoing[snprintf(outgoing, 64, "WIRE %s %d ", forms[form], i)] = 'x';
		if (form != MULTISHOT && form != SENDMSG)
			ask(from, server, form);
		send_one(to, client, form);
		if (form == SENDMSG) /* asked for when the bytes are there: it ends at once */
			ask(from, server, form);
		if (form == MULTISHOT) {
			struct io_uring_cqe *cqe = wait_one(from, "multishot");
			int buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;

			say("recv", server, form, cqe->res);
			io_uring_cqe_seen(from, cqe);
			give_buffers(from, buffer, 1);
		} else {
			finish(from, server, form, "recv");
		}
	}
	close(client);
	if (form == MULTISHOT) {
		struct io_uring_cqe *cqe;

		check(io_uring_wait_cqe(from, &cqe), "end");
		io_uring_cqe_seen(from, cqe);
	}
	close(server);
}

int main(int argc, char **argv)
{
	struct io_uring_params p = {};
	struct io_uring to, from;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct iovec buffers[2] = { { outgoing, sizeof(outgoing) }, { incoming, sizeof(incoming) } };
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (argc > 1 && !strcmp(argv[1], "--sqpoll")) {
		p.flags = IORING_SETUP_SQPOLL;
		p.sq_thread_idle = 1000;
	}
	check(io_uring_queue_init_params(16, &to, &p), "io_uring");
	check(io_uring_queue_init_params(16, &from, &p), "io_uring");
	check(io_uring_register_buffers(&to, buffers, 2), "fixed buffers");
	check(io_uring_register_buffers(&from, buffers, 2), "fixed buffers");
	if (bind(listener, (void *)&a, sizeof(a)) || listen(listener, 8))
		die("listen");
	for (int form = 0; form < FORMS; form++)
		converse(&to, &from, listener, form);
	io_uring_queue_exit(&from);
	io_uring_queue_exit(&to);
	return 0;
}

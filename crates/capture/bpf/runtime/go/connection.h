/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The socket of a Go connection, by the descriptor inside it: net.Conn (an interface: type, data) -> net.TCPConn.fd ->
 * netFD.pfd.Sysfd, at offsets that have not changed since Go 1.9.
 */
#ifndef WS_GO_CONNECTION_H
#define WS_GO_CONNECTION_H

#define GO_CONN_DATA 8
#define GO_SYSFD 16

static __always_inline struct sock *go_socket(struct task_struct *task, __u64 conn)
{
	__u64 at = 0, inode;
	__s64 fd = -1;

	if (bpf_probe_read_user(&at, sizeof(at), (void *)(conn + GO_CONN_DATA)) || !at)
		return NULL;
	if (bpf_probe_read_user(&at, sizeof(at), (void *)at) || !at)
		return NULL;
	if (bpf_probe_read_user(&fd, sizeof(fd), (void *)(at + GO_SYSFD)) || fd < 0 || fd > 0x7fffffff)
		return NULL;
	return sock_of_fd(task, fd, &inode);
}

static __always_inline __u64 go_cookie(struct task_struct *task, __u64 conn)
{
	struct sock *sk = go_socket(task, conn);

	return sk ? BPF_CORE_READ(sk, __sk_common.skc_cookie.counter) : 0;
}

#define GO_CONN_LAYERS 3 /* TLS and the like around a TCP connection, each of which begins with the one below */

/* The cookie of the socket at the bottom of a net.Conn, whose interface value stands here. */
static __always_inline __u64 go_bottom(struct task_struct *task, __u64 conn)
{
	for (int i = 0; i < GO_CONN_LAYERS; i++) {
		__u64 cookie = go_cookie(task, conn);

		if (cookie)
			return cookie;
		conn = user_word(conn + GO_CONN_DATA);
	}
	return 0;
}

#endif

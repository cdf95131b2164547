/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Plaintext of Go's crypto/tls. A goroutine may enter a call on one thread, send or receive on a second, and return on
 * a third. So a call is kept by its goroutine (register g), and its messages by their socket (tls/state.h). The socket
 * is found by the descriptor inside the connection: tls.Conn.conn (an interface: type, data) -> net.TCPConn.fd ->
 * netFD.pfd.Sysfd, at offsets that have not changed since Go 1.9. Return probes would break the runtime's stacks, so
 * user space probes each RET.
 */
#ifndef WS_TLS_GO_H
#define WS_TLS_GO_H

struct go_call {
	__u64 conn;
	__u64 buffer;
	__u64 enter_ns;
	__u64 cookie; /* of the connection's socket; 0 if that is not known */
	__u32 tid;
	__u8 op;
	__u8 first;
	__u8 pad[2];
};

/* The key's `ssl` is the address of the goroutine. */
WS_TABLE(go_calls, struct tls_key, struct go_call);

/* Forgets an older connection that had this address, if its socket was another one. */
static __always_inline void go_forget(const struct tls_key *key, __u64 cookie)
{
	struct tls_conn *conn = table_find(&tls_conns, key);

	if (conn && conn->note.cookie != cookie)
		table_drop(&tls_conns, key);
}

/* Messages of this socket belong to this call from now on, whichever thread sends or receives them. */
static __always_inline void go_begin(struct task_struct *task, struct tls_task *k, __u64 cookie, __u8 direction)
{
	struct tls_conn *moved = go_moved(task, cookie, direction);

	if (!moved) {
		struct tls_key key = { .ssl = cookie, .pid = task->tgid };
		struct tls_conn made = { .run = WS_NO_DIRECTION };

		key.kind = direction == WS_EGRESS ? TLS_SENT : TLS_GO_RECEIVED;
		table_put(&tls_conns, &key, &made, BPF_ANY);
		moved = table_find(&tls_conns, &key);
		if (!moved)
			return;
	}
	moved->note.calls = 0;
	moved->begins_run = k->begins_run;
	k->begins_run = 0;
}

SEC("uprobe.multi")
int WS_UPROBE(tls_go_enter)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct go_call call = {};
	struct tls_key key = {};
	struct tls_task *k;

	if (!t)
		return 0;
	k = tls_enters(task, t);
	if (!k)
		return 0;
	key.pid = task->tgid;
	key.ssl = call.conn = WS_GO_ARG1(ctx);
	call.buffer = WS_GO_ARG2(ctx);
	call.enter_ns = bpf_ktime_get_ns();
	call.tid = task->pid;
	call.op = bpf_get_attach_cookie(ctx) & TLS_COOKIE_OP;
	call.cookie = go_bottom(task, call.conn);
	if (call.cookie)
		go_forget(&key, call.cookie);
	tls_begin(k, &key, call.op);
	call.first = k->first;
	if (call.cookie)
		go_begin(task, k, call.cookie, call.op == TLS_WRITE ? WS_EGRESS : WS_INGRESS);
	key.ssl = WS_GO_G(ctx);
	table_remember(&go_calls, &key, &call);
	return 0;
}

/*
 * The connection of the call that ends. The descriptor proves the socket. If there is none, a message of this thread
 * does, provided that the goroutine stayed on this thread. The messages of the call are then noted as this thread's.
 */
static __always_inline struct tls_conn *go_bind(struct task_struct *task, struct tls_task *k,
						const struct go_call *call, const struct tls_key *key, __u8 direction)
{
	struct tls_note *n = &k->notes[direction & 1];
	struct tls_conn *moved;
	struct tls_note found = {};
	struct sock *sk;

	if (call->cookie) {
		moved = go_moved(task, call->cookie, direction);
		if (moved && moved->note.cookie == call->cookie) {
			*n = moved->note;
			moved->note.calls = 0;
			return tls_bound(key, n);
		}
	}
	sk = go_socket(task, call->conn);
	if (sk) {
		n->cookie = 0; /* the last message of this thread does not belong to this call */
		found.cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
		if (!found.cookie || !read_tuple(&found.tuple, sk))
			return NULL;
		found.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
		return tls_bound(key, &found);
	}
	if (n->calls && call->tid == task->pid)
		return tls_bound(key, n);
	return table_find(&tls_conns, key);
}

/*
 * The goroutine that reads plaintext acts for the request of that plaintext, even if another goroutine moved the TLS
 * record: net/http waits for the next request with a read of one byte in a goroutine of its own. That read takes the
 * whole record, and the serving goroutine finds the rest in memory.
 */
static __always_inline void go_read(struct task_struct *task, struct task_state *t, __u64 g, __u64 cookie)
{
	struct tls_conn *moved = go_moved(task, cookie, WS_INGRESS);
	struct attribution *c;

	if (!moved || !moved->note.request || moved->note.calls || moved->note.cookie != cookie)
		return;
	c = go_running(task, t, g);
	if (c && c->cause != moved->note.exchange)
		actor_pass_cause(c, moved->note.exchange, WS_EV_THREAD, PASS_OWN);
}

SEC("uprobe.multi")
int WS_UPROBE(tls_go_exit)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	__s64 len = WS_GO_ARG1(ctx); /* the first result is in the register of the first argument */
	struct tls_key key = {}, conn = {};
	struct go_call *call;
	struct tls_task *k;
	__u8 direction;

	if (!t)
		return 0;
	key.ssl = WS_GO_G(ctx);
	key.pid = conn.pid = task->tgid;
	call = table_find(&go_calls, &key);
	k = bpf_task_storage_get(&tls_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call || !k || call->op != (bpf_get_attach_cookie(ctx) & TLS_COOKIE_OP))
		return 0;
	t->tls = 1;
	direction = call->op == TLS_WRITE ? WS_EGRESS : WS_INGRESS;
	if (len > 0) {
		if (direction == WS_INGRESS && call->cookie)
			go_read(task, t, key.ssl, call->cookie);
		conn.ssl = call->conn;
		k->buffer = call->buffer;
		k->enter_ns = call->enter_ns;
		k->first = call->first;
		tls_emit(task, k, go_bind(task, k, call, &conn, direction), direction, len, false);
	}
	tls_end(k);
	call->op = TLS_NONE;
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Finds the socket to which a call of a TLS library belongs.
 *
 * A library sends and receives ciphertext on the thread of the call: inside the call, or just before it where an event
 * loop uses memory BIOs. So each thread notes its last message of each direction. Socket, exchange, cause, time and TCP
 * sequence of that message are those of the plaintext. A goroutine may change threads within a call, so its messages
 * are noted by socket and direction instead. Only one call at a time uses a direction: crypto/tls locks each half.
 */
#ifndef WS_TLS_STATE_H
#define WS_TLS_STATE_H

#define TLS_HEADER 5 /* of a record: type, version, length */
#define TLS_FIRST_TYPE 20
#define TLS_TYPES 5

struct tls_note {
	__u64 cookie;
	__u64 exchange;
	__u64 cause;
	__u64 enter_ns;
	__u64 exit_ns;
	__u32 seq; /* where the record begins: at its header if a call of its own read that, else at the noted call */
	__u32 netns;
	__u32 calls; /* messages since a TLS call of this thread last began or ended */
	__u8 evidence;
	__u8 known;   /* WS_F_HAS_SEQ, WS_F_ARRIVED */
	__u8 fresh;   /* no TLS call has taken it yet */
	__u8 tls;     /* the socket carries records of TLS */
	__u8 request; /* the message is (part of) a request, and its connection carries one request at a time */
	__u8 pad[3];
	struct ws_tuple tuple;
};

/*
 * State of a thread that has called a TLS library. The record under construction is part of it: uprobes may be
 * preempted, so they cannot use the scratch of the processor.
 */
struct tls_task {
	__u64 ssl;
	__u64 buffer;
	__u64 length;
	__u64 enter_ns;	 /* when the call began; 0 if that was not measured */
	__u64 length_at; /* where the _ex calls put the length */
	__u8 op;
	__u8 first;	 /* a write after a read: it begins a request or response */
	__u8 begins_run; /* the next message that is sent begins a run, too */
	__u8 pad[1];
	__u32 held;		  /* bytes of `payload` that belong to `written` */
	__u32 seals;		  /* Java: connection that this thread's next send is for, if it has no socket yet */
	__u32 sealing;		  /* Java: connection whose engine encrypts */
	__u64 written;		  /* bytes that rustls or Java has taken and whose ciphertext is still to be sent */
	__u64 fed;		  /* address of the buffer for which rustls last asked for ciphertext */
	__u64 chunk;		  /* address of plaintext that rustls has shown in place */
	__u64 chunk_length;	  /* bytes of it that the program has not consumed yet */
	__u64 chunk_of;		  /* address of its connection */
	struct tls_note notes[2]; /* by ws_direction */
	struct ws_data data;
	__u8 payload[WS_MAX_PLAINTEXT];
#ifdef WS_CHECKED_RECORDS
	__u64 owner; /* as in `scratch` */
#endif
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tls_task);
} tls_tasks SEC(".maps");

/* TLS_SENT: of Go and Java, by socket. TLS_BY_HASH: of Java. */
enum tls_key_kind { TLS_BY_ADDRESS = 0, TLS_BY_SOCKET = 1, TLS_GO_RECEIVED = 2, TLS_SENT = 3, TLS_BY_HASH = 4 };

struct tls_key {
	__u64 ssl; /* address of the library's connection, or the socket's cookie */
	__u32 pid;
	__u32 kind;
};

struct tls_conn {
	struct tls_note note;
	__u64 fed;	 /* rustls, by address: buffer into which the ciphertext of this reader is received */
	__u32 shown;	 /* bytes of records, while young */
	__u8 run;	 /* direction of the last plaintext */
	__u8 begins_run; /* as in `tls_task`; used with TLS_SENT */
	__u8 skips;	 /* Java: what a client reads answers a request that was not seen */
	__u8 pad[1];
};

WS_TABLE(tls_conns, struct tls_key, struct tls_conn);

/* What is known of a socket in one direction; NULL unless Go's crypto/tls, or JSSE, reads or writes it. */
static __always_inline struct tls_conn *go_moved(struct task_struct *task, __u64 cookie, __u8 direction)
{
	struct tls_key key = { .ssl = cookie, .pid = task->tgid };

	key.kind = direction == WS_EGRESS ? TLS_SENT : TLS_GO_RECEIVED;
	return table_find(&tls_conns, &key);
}

/* The next message that is sent on this socket begins a run, whichever thread sends it. */
static __always_inline void socket_begins_run(struct task_struct *task, __u64 cookie)
{
	struct tls_key key = { .ssl = cookie, .pid = task->tgid, .kind = TLS_SENT };
	struct tls_conn made = { .run = WS_NO_DIRECTION, .begins_run = 1 };
	struct tls_conn *conn = table_find(&tls_conns, &key);

	if (conn)
		conn->begins_run = 1;
	else
		table_put(&tls_conns, &key, &made, BPF_ANY);
}

/* The task has entered a TLS library; NULL if there is no memory to follow it. */
static __always_inline struct tls_task *tls_enters(struct task_struct *task, struct task_state *t)
{
	struct tls_task *k = bpf_task_storage_get(&tls_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (k)
		t->tls = 1;
	else
		count(WS_C_LOST_NO_STATE);
	return k;
}

#endif

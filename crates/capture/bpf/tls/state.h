/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which socket a TLS library's call belongs to. The library moves ciphertext on the same thread, inside the call or
 * (memory BIOs of event loops) just before it, so that each thread notes the last message of each direction: its
 * socket, exchange, cause, time and TCP sequence are those of the plaintext. A goroutine changes threads within a call:
 * what it moves is noted by socket and direction instead, which one call at a time has to itself (crypto/tls locks each
 * half).
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
	__u32 seq; /* of the record, as far as the calls tell: of the header if it was read by itself */
	__u32 netns;
	__u32 calls; /* since a TLS call of this thread last began or ended */
	__u8 evidence;
	__u8 known;   /* WS_F_HAS_SEQ, WS_F_ARRIVED */
	__u8 fresh;   /* no TLS call has taken it yet */
	__u8 tls;     /* the socket carries records of TLS */
	__u8 request; /* what was read is a request, and the only one of the moment on its connection */
	__u8 pad[3];
	struct ws_tuple tuple;
};

/*
 * A thread that has called a TLS library. The record stands here because uprobes may be preempted: no scratch per CPU.
 */
struct tls_task {
	__u64 ssl;
	__u64 buffer;
	__u64 length;
	__u64 enter_ns;	 /* of the call, where it was taken; else 0 */
	__u64 length_at; /* where the _ex calls put the length */
	__u8 op;
	__u8 first;	 /* a write after a read: it begins a request or response */
	__u8 begins_run; /* …and so does the next message that is sent */
	__u8 pad[1];
	__u32 held;		  /* bytes of `payload` that wait with `written` */
	__u64 written;		  /* rustls has taken so much, and its ciphertext is still to be sent */
	__u64 fed;		  /* what rustls last asked ciphertext for */
	__u64 chunk;		  /* rustls has shown this plaintext… */
	__u64 chunk_length;	  /* …and not been told yet how much of it was read */
	__u64 chunk_of;		  /* its connection */
	struct tls_note notes[2]; /* by ws_direction */
	struct ws_data data;
	__u8 payload[WS_MAX_PLAINTEXT];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tls_task);
} tls_tasks SEC(".maps");

enum tls_key_kind { TLS_BY_ADDRESS = 0, TLS_BY_SOCKET = 1, TLS_GO_RECEIVED = 2, TLS_GO_SENT = 3 };

struct tls_key {
	__u64 ssl; /* address of the library's connection, or the socket's cookie */
	__u32 pid;
	__u32 kind;
};

struct tls_conn {
	struct tls_note note;
	__u64 fed;	 /* of what stands in a rustls reader: into what its ciphertext was received */
	__u32 shown;	 /* bytes of records, while young */
	__u8 run;	 /* direction of the last plaintext */
	__u8 begins_run; /* as in `tls_task`, of TLS_GO_SENT */
	__u8 pad[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct tls_key);
	__type(value, struct tls_conn);
} tls_conns SEC(".maps");

/* What a socket has moved of late in one direction; NULL unless Go's crypto/tls reads or writes it. */
static __always_inline struct tls_conn *go_moved(struct task_struct *task, __u64 cookie, __u8 direction)
{
	struct tls_key key = { .ssl = cookie, .pid = task->tgid };

	key.kind = direction == WS_EGRESS ? TLS_GO_SENT : TLS_GO_RECEIVED;
	return bpf_map_lookup_elem(&tls_conns, &key);
}

/* The task has entered a TLS library; NULL if there is no memory to follow it. */
static __always_inline struct tls_task *tls_enters(struct task_struct *task, struct task_state *t)
{
	struct tls_task *k = bpf_task_storage_get(&tls_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (k)
		t->tls = 1;
	else
		count(WS_C_LOST_STATE);
	return k;
}

#endif

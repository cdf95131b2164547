/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The state that is kept of each socket of a target. */
#ifndef WS_SOCK_STATE_H
#define WS_SOCK_STATE_H

#define WS_NO_DIRECTION 0xff
#define SEND_SHUTDOWN 2 /* of sock.sk_shutdown: this end has said that it sends nothing more */
#define WS_YOUNG_CIPHERTEXT_CALLS 32
#define WS_CIPHERTEXT_BYTES 16 /* of each call, once its plaintext is read: the header of a TLS record */

/* Where the next TLS record begins in one direction. Both directions may be in use at the same time. */
struct tls_half {
	__u32 record; /* sequence number of its header */
	__u32 header; /* first bytes of that header, if the last call ended within it; the first byte is the lowest */
	__u8 broken;  /* number of these bytes */
	__u8 framed;  /* the fields above are known */
	__u8 pad[2];
};

/* The id of an exchange of the socket with this cookie; it names the request, too. */
static __always_inline __u64 exchange_of(__u64 cookie, __u32 number)
{
	return cookie << WS_NUMBER_BITS | (number & WS_NUMBER_MASK);
}

/* State of a socket of a target. An accepted socket begins with a copy of its listener's state (BPF_F_CLONE). */
struct sock_state {
	__u64 cookie;
	__u64 cause;	       /* cause of the current exchange (client sockets) */
	__u64 untrusted_cause; /* the cause that the rules named, if the sender was not trusted */
	__u64 connect_cause;
	__u64 connect_guess; /* if that is provisional: the cause of who woke the opener where it waits for work */
	__u64 connect_ns;    /* start of the handshake; its length once it is over */
	__u64 request_ns;    /* when the last request was read; kept while waits are asked for */
	__u32 connect_tid;
	__u32 exchange; /* number of the current exchange */
	__u32 calls;
	__u32 verdict_epoch;
	__u32 received;	 /* sequence number behind the last byte that was read; 0 if not known */
	__u32 sent;	 /* the same behind the last byte of which a send was seen */
	__u32 shown;	 /* bytes of records while young */
	__u32 run_shown; /* payload bytes copied of the current run */
	__u32 srtt_us;	 /* at the last call */
	__u32 sender;	 /* in processes with tokio: the task that sent the last request */
	__u8 run;	 /* direction of the current run of calls */
	__u8 request_direction;
	__u8 evidence;
	__u8 copy;   /* enum ws_copy */
	__u16 bytes; /* payload bytes per call, 0 = default */
	__u8 announced : 1;
	__u8 verdict : 1;     /* user space has given a verdict */
	__u8 begun_short : 1; /* the run has begun, and its calls so far were too short to be a head */
	__u8 shared : 1;      /* carries many requests at a time */
	__u8 connect_untrusted : 1;
	__u8 connect_later : 1;	   /* the opener did not wait until it was connected */
	__u8 mixed : 1;		   /* its requests have different causes (shared connections) */
	__u8 delivers : 1;	   /* it brings deliveries (of a broker) to its client */
	__u8 pulls : 1;		   /* the client sends requests for these deliveries */
	__u8 takes : 1;		   /* only some of its requests ask for deliveries: `asking` */
	__u8 for_delivery : 1;	   /* `cause` is a delivery that its actor had read itself */
	__u8 asking : 1;	   /* its last request does */
	__u8 one_way : 1;	   /* its client sends requests that are not answered */
	__u8 overtaken : 1;	   /* its answer was read, and the record of this request is still to come */
	__u8 waits_request : 1;	   /* a request is being read, see `request_ns` */
	__u8 waits_sampled : 1;	   /* its waits are wanted, whether it is slow or not */
	__u8 pipelined : 1;	   /* its client sends requests while others wait, which are answered in order */
	__u8 gathers : 1;	   /* one send may carry what several requests have given its client */
	__u8 guessed : 1;	   /* `untrusted_cause` is no more than a guess, which answers do not test */
	__u8 by_task : 1;	   /* a task of asyncio has sent the last request itself, so its cause is no opinion */
	__u8 read_apart : 1;	   /* goroutines read its answers that have never sent anything */
	__u8 tls;		   /* carries records of TLS */
	struct tls_half halves[2]; /* by ws_direction */
	struct ws_tuple tuple;
	struct ws_actor actor;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct sock_state);
} socks SEC(".maps");

/* A request that waits for its response, on connections with verdict WS_COPY_PAIR. */
#define WS_HELD_PAYLOAD 1024
struct held {
	struct ws_data data; /* data.kind is 0 while nothing waits */
	__u8 payload[WS_HELD_PAYLOAD];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct held);
} helds SEC(".maps");

/* Bytes of the call that a task makes for io_uring: there is no system call whose registers tell where they lie. */
struct held_bytes {
	__u32 length;
	__u8 bytes[2 * WS_HELD_PAYLOAD]; /* twice, as in `scratch` */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct held_bytes);
} uring_bytes SEC(".maps");

/*
 * Socket state by address, for the system-call rung: socket storage wants a pointer that the verifier trusts, and a
 * socket found by its descriptor is none. `inode` tells a new socket at an old address.
 */
struct addressed_sock {
	struct sock_state state;
	__u64 inode;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct addressed_sock);
} socks_by_address SEC(".maps");

/*
 * Verdicts on their way from user space, by cookie; taken into the socket's state at its next call. User space makes a
 * larger table when there are many.
 */
WS_TABLE(verdicts, __u64, struct ws_verdict);

#endif

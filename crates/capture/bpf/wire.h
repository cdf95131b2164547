/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The contract between the kernel programs and user space. Long because it is the whole contract, in one file: a change
 * of one side shows the other. Only what a runtime shares with user space stands in its own folder, in
 * runtime/NAME/contract.h. build/contract.rs makes Rust types and numbers of every struct and enum of these headers;
 * it refuses a struct with holes, and one without a size assert. src/wire.rs reads them. All integers are in host byte
 * order except addresses, which are in network byte order; times are CLOCK_MONOTONIC ns.
 */
#ifndef WS_WIRE_H
#define WS_WIRE_H

enum ws_size {
	WS_MAX_PAYLOAD = 32768, /* of a call of the socket */
	/* of a library's call: plaintext comes in records of its own, and is held per thread */
	WS_MAX_PLAINTEXT = 4096,
	/* as much as a record of TLS carries; a record of more plaintext than the above is always this long */
	WS_MAX_RECORD = 16384,
	WS_PARTS = 4, /* records that tell of one call, if it is to be seen whole */
	WS_COMM_LEN = 16,
	WS_CHECKED_PAYLOAD = 256, /* bytes of payload that a checksum covers, in a debug build */
	WS_LOG2_BUCKETS = 24,	  /* of microseconds: 1, 2–3, 4–7, … */
	WS_FLOW_DROPS = 4,
	WS_HANDED_BYTES = 1024, /* of what a worker reads from a pipe */
	WS_FLOW_BLOCK = 64,	/* sockets of flows whose use is noted together */
	WS_FLOW_NEAR = 4096,	/* sockets of flows for which there is room from the start; a power of two */
};

enum ws_kind {
	WS_DATA = 1,
	WS_SOCKET = 2,
	WS_TASK = 3,
	WS_ALIAS = 4,
	WS_TROUBLE = 5,
	WS_HANDED = 6,
	WS_WAKE = 7,
	WS_CONTEXT = 8,
	WS_WAITS = 9,	  /* wait/contract.h */
	WS_SAMPLE = 10,	  /* there, too */
	WS_SDK_SPAN = 11, /* sdk/contract.h */
};
enum ws_direction { WS_INGRESS = 0, WS_EGRESS = 1 };
enum ws_role { WS_ROLE_UNKNOWN = 0, WS_CLIENT = 1, WS_SERVER = 2 };
enum ws_transport { WS_TCP = 1, WS_UDP = 2, WS_UNIX_STREAM = 3, WS_UNIX_DGRAM = 4 };

/*
 * What acts for a request. A runtime is known by the kind of its actors: a process has a set of them, 1 << kind each.
 * The events of Node and the jobs of Python's pools run on threads, and are no actors of their own.
 */
enum ws_actor_kind {
	WS_THREAD = 0,
	WS_GOROUTINE = 1,
	WS_VIRTUAL_THREAD = 2,
	WS_GREENLET = 3,
	WS_ASYNCIO_TASK = 4,
	WS_TOKIO_TASK = 5,
	WS_HAPROXY_STREAM = 6,
	WS_NODE_EVENT = 7,
	WS_PYTHON_JOB = 8,
	WS_RUBY_THREAD = 9,
};

/* Further bits in the set of a process's runtimes. */
enum ws_process_bit {
	WS_GO_TLS = 1U << 31,	   /* Go's crypto/tls is probed */
	WS_JAVA_AGENT = 1U << 30,  /* the agent of --attach-java is loaded and probed */
	WS_SDK_CONTEXT = 1U << 29, /* an SDK publishes in which span each thread is */
};

/* What user space has found in a process; each runtime has a map of its own for more. */
struct ws_process_facts {
	__u32 runtimes; /* 1 << enum ws_actor_kind, enum ws_process_bit */
};

/* How far a process is trusted (cause/trust.h); user space says so where a runtime is known to keep the rules. */
struct ws_trust {
	__u32 distrust; /* 0: full trust */
};

/* How the cause of a message is known: model::trace::Evidence in Rust. */
enum ws_evidence {
	WS_EV_NONE = 0,
	WS_EV_THREAD = 4,
	WS_EV_COROUTINE = 5,
	WS_EV_CHILD = 6,
	WS_EV_CONNECT = 7,
	WS_EV_WAKE_UP = 8,
	WS_EV_EVENT_LOOP = 9,
	WS_EV_BROKER = 12,   /* the id of a message names the job */
	WS_EV_INFERRED = 11, /* with no cause: for one of several requests, and it is not known for which */
};

/*
 * A cause is a number of 64 bits: above, the cookie of the socket; below, the last bits of the number of the exchange.
 * model::event has the same layout; src/wire.rs compares them.
 */
enum ws_cause_bits {
	WS_NUMBER_BITS = 24, /* of the exchange, or of the stream's id */
	WS_SOCKET_BITS = 38, /* of the socket's cookie, in a cause that names a stream */
};
#define WS_NUMBER_MASK ((1U << WS_NUMBER_BITS) - 1)

/*
 * A provisional cause: a worker acts for a request that is not known yet. The worker's hand-back of its result tells
 * which request that was. No exchange has both of these bits (exchange_id()).
 */
#define WS_PROVISIONAL (3ULL << (WS_NUMBER_BITS + WS_SOCKET_BITS))

/*
 * A request that is named by its HTTP/2 stream, where the program itself tells for which stream it acts: this bit alone
 * of the two, the socket's cookie, and the last bits of the stream's id. Several requests may share an exchange, but
 * not a stream.
 */
#define WS_BY_STREAM (1ULL << (WS_NUMBER_BITS + WS_SOCKET_BITS))

/* The system call that moved the bytes. */
enum ws_abi {
	WS_ABI_OTHER = 0,
	WS_ABI_READ,
	WS_ABI_READV,
	WS_ABI_RECVFROM,
	WS_ABI_RECVMSG,
	WS_ABI_RECVMMSG,
	WS_ABI_WRITE,
	WS_ABI_WRITEV,
	WS_ABI_SENDTO,
	WS_ABI_SENDMSG,
	WS_ABI_SENDMMSG,
	WS_ABI_SENDFILE,
	WS_ABI_SPLICE,
	WS_ABI_IO_URING,
};

enum ws_data_flag {
	WS_F_HAS_SEQ = 1,    /* `seq` is valid */
	WS_F_FIRST = 2,	     /* first call of its direction run */
	WS_F_ENTER = 4,	     /* `enter_ns` was measured; else it equals `exit_ns` */
	WS_F_UNREADABLE = 8, /* payload was wanted and could not be read */
	WS_F_ARRIVED = 32,   /* `enter_ns` is when the received bytes arrived */
	WS_F_OVERTAKEN = 64, /* received: before its request was recorded; sent: that request */
	WS_F_PLAINTEXT = 16, /* the payload is plaintext of a TLS library; other fields describe its ciphertext */
	WS_F_PART = 256,     /* times the number of WS_MAX_PAYLOAD between the first byte of the call and this record */
};

struct ws_actor {
	__u32 pid;
	__u32 tid;
	__u64 cgroup_id;
	__u64 coroutine;
	__u32 netns;
	__u32 pad;
	char comm[WS_COMM_LEN];
};

struct ws_tuple {
	__u8 local[16]; /* IPv4 in v4-mapped form */
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u8 transport;
	__u8 role;
	__u8 pad[2];
};

/* What the scheduler says of the thread that made a call: times since it began, each only grows. */
struct ws_clocks {
	__u64 on_cpu_ns;  /* 0: not known */
	__u64 queued_ns;  /* ready, and waiting for a processor */
	__u64 limited_ns; /* its groups were held back by their CPU limits: on all processors together */
};

/* Followed by `payload_len` bytes. */
struct ws_data {
	__u8 kind;
	__u8 direction;
	__u8 abi;
	__u8 evidence;
	__u16 flags;
	__u16 payload_len;
	__s32 error; /* 0 or errno */
	__u32 seq;
	__u64 socket;
	__u64 enter_ns;
	__u64 exit_ns;
	__u32 len;
	__u32 srtt_us; /* of TCP; 0 if not known */
	__u64 exchange;
	__u64 cause;
	struct ws_tuple tuple;
	struct ws_actor actor;
	struct ws_clocks clocks; /* at `exit_ns` */
#ifdef WS_CHECKED_RECORDS
	__u64 checksum; /* of the fields above and the first WS_CHECKED_PAYLOAD bytes of payload: src/checked.rs */
#endif
};

enum ws_change { WS_OPEN = 1, WS_CLOSE = 2, WS_CONNECT_FAILED = 3, WS_RESET = 4 };

struct ws_socket {
	__u8 kind;
	__u8 change;
	__u8 evidence;
	__u8 pad0;
	__s32 error;
	__u64 socket;
	__u64 time_ns;
	__u64 cause;
	__u64 bytes_sent;
	__u64 bytes_received;
	__u64 connect_ns;
	__u32 srtt_us;
	__u32 retransmits;
	struct ws_tuple tuple;
	struct ws_actor actor;
};

/* What went wrong below the bytes of a connection. */
enum ws_trouble_what { WS_RETRANSMIT = 1, WS_RESET_SENT = 2, WS_RESET_RECEIVED = 3 };

struct ws_trouble {
	__u8 kind;
	__u8 what;
	__u16 segments;
	__u32 from; /* first sequence number that was sent again */
	__u64 socket;
	__u64 time_ns;
	__u32 to; /* sequence number behind the last one that was sent again */
	__u32 pad;
};

enum ws_task_change { WS_FORK = 1, WS_EXEC = 2, WS_EXIT = 3 };

struct ws_task {
	__u8 kind;
	__u8 change;
	__u8 pad0[2];
	__u32 parent_pid;
	__u64 time_ns;
	struct ws_actor actor;
};

/* For which request a provisional cause stood, or, until that is known, may stand. */
enum ws_alias_what {
	WS_ALIAS_NAME = 0, /* cause 0: it stands for a request that is not known */
	WS_ALIAS_GUESS = 1,
	WS_ALIAS_WAKE_UP = 2,
	/* a request is about to be sent on this stream (WS_BY_STREAM), for this cause: 0 if none is known */
	WS_ALIAS_STREAM = 3,
	/* an actor was made for the next request of a connection: `provisional` stands for it (by_order()) */
	WS_ALIAS_BORN = 4,
};

struct ws_alias {
	__u8 kind;
	__u8 what;
	__u8 evidence; /* of WS_ALIAS_STREAM */
	__u8 pad0[5];
	__u64 time_ns;
	__u64 provisional;
	__u64 cause;
};

/* A worker has read a job from a pipe, and acts for it. Followed by `length` bytes of the job. */
struct ws_handed {
	__u8 kind;
	__u8 pad0;
	__u16 length;
	__u32 pad1;
	__u64 time_ns;
	__u64 provisional;
};

/*
 * An event loop that has read an answer wakes a thread that waits in the middle of a request: probably with that
 * answer. `socket` and `read_ns` are those of the read (`exit_ns` of its record), `cause` is that of the woken thread.
 */
struct ws_wake {
	__u8 kind;
	__u8 unsure; /* the woken thread may be done with that: it has answered, or has the cause from another thread */
	__u8 pad[2];
	__u32 pid;
	__u64 time_ns;
	__u64 socket;
	__u64 read_ns;
	__u64 cause;
	__u32 tid; /* of the woken thread */
	__u32 pad2;
};

/* A change that only the one who probes is told: the process now does what some of its probes wait for. */
enum ws_life_change { WS_NEEDS = 4 };

struct ws_life {
	__u32 pid;
	__u32 change; /* enum ws_task_change, or enum ws_life_change */
};

/*
 * A trace context of the request that begins at `seq`: given to it by us (egress), or found beside its bytes (ingress).
 * `added` bytes stand on the wire at `at`, which the call that follows does not count.
 */
struct ws_context {
	__u8 kind;
	__u8 direction;
	__u8 flags; /* of the context: 1 is sampled */
	__u8 pad;
	__u16 at;
	__u16 added;
	__u32 seq;
	__u32 stream; /* of HTTP/2; 0 if the connection carries one request at a time */
	__u64 socket;
	__u64 time_ns;
	__u8 trace[16];
	__u8 span[8];
};

/* Programs that are attached once a target needs them: src/on_demand.rs. */
enum ws_hooks {
	WS_HOOK_SENDS = 1,
	WS_HOOK_IO_URING = 2,
	WS_HOOK_SPLICE = 4,
	WS_HOOK_PIPES = 8,
	WS_HOOK_WAITS = 16,
	WS_HOOK_CALLS = 32,
};

enum ws_verdict_flag {
	/* says what to copy of the plaintext of TLS; its ciphertext needs headers of records only */
	WS_V_PLAINTEXT = 1,
	WS_V_SHARED = 2,   /* carries many requests at a time, answered in any order */
	WS_V_DELIVERS = 4, /* brings deliveries to its client, which begins the work when it reads one */
	WS_V_PULLS = 8,	   /* the client asks for these deliveries; such a request has no cause */
	WS_V_TAKES = 16,   /* it speaks Redis: only some of its commands ask for deliveries */
	WS_V_ONE_WAY = 32, /* the client sends requests that are not answered */
	/* the client sends requests while others wait, which are answered in order: each send is a request */
	WS_V_PIPELINED = 64,
	WS_V_GATHERS = 128, /* one send may carry what several requests have given the client */
};

/* Verdict of user space about a connection. */
enum ws_copy {
	WS_COPY_DEFAULT = 0, /* whole calls while young, then the beginning of each */
	WS_COPY_FIRST = 1,   /* the first call of each run of answers, every call of requests */
	WS_COPY_EVERY = 2,
	WS_COPY_IGNORE = 3,  /* no records; causality is still followed */
	WS_COPY_PAIR = 4,    /* hold the request, emit it together with its response */
	WS_COPY_LENGTHS = 5, /* records without payload */
	/* datagrams with a long header of QUIC, those of handshakes; of others, the length */
	WS_COPY_LONG_HEADERS = 6,
};

struct ws_verdict {
	__u16 bytes;
	__u8 copy;
	__u8 flags; /* enum ws_verdict_flag */
};

/* A bundle of connections: which. Addresses as in ws_tuple; `port` is that at which the server's side listens. */
struct ws_flow_key {
	__u8 local[16];
	__u8 remote[16];
	__u64 start_ns; /* of the process, since boot: tells two processes with one pid apart */
	__u32 pid;
	__u32 netns;
	__u16 port;
	__u8 transport;
	__u8 role;
	__u16 client_port; /* of a connection that is a bundle of its own, else 0 */
	__u16 pad;
};

/* Remote ends whose connections are bundled although addresses are translated on this host; the port as in the key. */
struct ws_flow_plain {
	__u8 remote[16];
	__u32 netns;
	__u16 port;
	__u8 transport;
	__u8 role;
};

struct ws_flow_drop {
	__u32 reason; /* of the kernel's enum skb_drop_reason */
	__u32 count;
};

/* What was exchanged since the last drain. Pairs are by enum ws_direction. */
struct ws_flow_counts {
	__u64 bytes[2];
	__u64 messages[2];
	__u64 cgroup_id;
	__u32 opened;
	__u32 adopted; /* connections that existed when first seen */
	__u32 failed;
	__u32 closed;
	__u32 moved; /* connections that another process took over: they are `adopted` in its bundle */
	__u32 retransmits;
	__u32 resets_sent;
	__u32 resets_received;
	__u32 zero_windows;
	__u32 out_of_order;
	__u32 listen_overflows;
	__u32 other_drops; /* of further reasons */
	struct ws_flow_drop drops[WS_FLOW_DROPS];
	__u32 handshake[WS_LOG2_BUCKETS];
	__u32 srtt[WS_LOG2_BUCKETS];
	__u16 client_port; /* of one of the connections */
	__u8 pad[6];
	char comm[WS_COMM_LEN];
};

/* A bundle for which the table had no room, on its own. */
struct ws_flow {
	struct ws_flow_key key;
	struct ws_flow_counts counts;
};

/* A socket that existed before the agent, told by user space to the program flow_adopt. */
struct ws_flow_adopt {
	__u64 cookie;
	__u64 cgroup_id;
	struct ws_flow_key key;
	char comm[WS_COMM_LEN];
	__u16 client_port;
	__u8 listens;
	__u8 pad[5];
};

/* Cookies of the probes in TLS libraries: what a function does, … */
enum ws_tls_op {
	TLS_NONE = 0,
	TLS_READ = 1,
	TLS_WRITE = 2,
	TLS_HANDSHAKE = 3,
	TLS_FREE = 4,
	RUST_FEED = 5,
	RUST_CHUNK = 6,
	RUST_CONSUME = 7,
};

/* …and how. */
enum ws_tls_cookie {
	TLS_COOKIE_OP = 0xff,
	TLS_COOKIE_EX = 0x100,	    /* the length comes back through the fourth argument */
	RUST_COOKIE_VECTOR = 0x200, /* the argument is an array of buffers */
};

enum ws_inject_mode {
	WS_INJECT_OFF = 0,
	WS_INJECT_FIRST = 1, /* a socket leaves the map with its first bytes */
	WS_INJECT_EVERY = 2, /* a socket stays while it certainly speaks HTTP/1, or HTTP/2 that can be followed */
};

/* Per-CPU counters: why a context was put into a request, or why not. Named as those below. */
enum ws_inject_counter {
	WS_I_INJECT_ENROLLED,
	WS_I_INJECT_REFUSED, /* another user of sockmap, or no room: left alone */
	WS_I_INJECTED,
	WS_I_INJECT_OWN_CONTEXT, /* the application sent a context itself */
	WS_I_INJECT_NOT_HTTP,
	WS_I_INJECT_PARTIAL_HEAD,    /* the header block does not end in this call, or is too long */
	WS_I_INJECT_BUSY,	     /* TCP might not take the added bytes at once */
	WS_I_INJECT_H2_CONTINUED,    /* of HTTP/2: headers in several frames */
	WS_I_INJECT_H2_SPLIT,	     /* a frame of headers in several calls: this request goes without */
	WS_I_INJECT_H2_UNREAD,	     /* a frame of headers with padding, or that could not be read */
	WS_I_INJECT_H2_MANY,	     /* more requests in one call than can be followed */
	WS_I_INJECT_H2_LIMIT,	     /* the server takes only small blocks of headers */
	WS_I_INJECT_UNKNOWN_CONTEXT, /* acts for a request whose context could not be read */
	WS_I_INJECT_FAILED,	     /* the kernel gave no memory */
	WS_I_INJECT_LEFT,
	WS_I_RECEIVED_CONTEXTS, /* requests with a context */
	WS_I_OPTION_SENT,	/* segments sent with a context in an option of TCP */
	WS_I_OPTION_NO_ROOM,	/* other options left no room for it */
	WS_I_OPTION_RECEIVED,	/* requests that came with such an option */
	WS_I_MAX,
};

/*
 * Per-CPU counters. Users see each under its name here, in lower case and without the prefix (`wirespan status`,
 * `/metrics`): the name is part of the interface.
 */
enum ws_counter {
	WS_C_RECORDS,			/* data records emitted */
	WS_C_LOST_RING_FULL,		/* records lost: ring buffer full */
	WS_C_LOST_NO_STATE,		/* calls lost: no memory for socket or task state */
	WS_C_PEEKS,			/* MSG_PEEK calls, not messages */
	WS_C_WOULD_BLOCK,		/* EAGAIN and its kin, not messages */
	WS_C_UNREADABLE_PAYLOADS,	/* payloads that could not be read */
	WS_C_IGNORED_CALLS,		/* calls on connections with verdict ignore */
	WS_C_PAIRED,			/* responses emitted together with their request */
	WS_C_PLAINTEXT_RECORDS,		/* records of TLS plaintext emitted */
	WS_C_PLAINTEXT_WITHOUT_SOCKET,	/* calls of TLS libraries whose socket is not known */
	WS_C_FLOWS_SPILLED,		/* bundles that went out on their own: the table was full */
	WS_C_LOST_FLOWS,		/* bundles lost: the ring of spilled ones was full, too */
	WS_C_FLOW_SOCKETS_BEYOND_TABLE, /* connections beyond the table of sockets: bundled with each message instead */
	WS_C_STREAMS_NAMED,		/* requests named by their HTTP/2 stream, received or sent */
	WS_C_STREAMS_UNKNOWN,		/* such requests whose stream or connection could not be found */
	WS_C_WAITS_SLOW,		/* answers of slow requests with which waits were sent to user space */
	WS_C_WAITS_SAMPLED,		/* the same of requests that were not slow */
	WS_C_WAITS_FORGOTTEN,		/* waits that a thread's ring had no room to keep until they were asked for */
	WS_C_LOST_WAITS,		/* waits lost: ring buffer full */
	WS_C_LOST_SAMPLES,		/* samples of running threads lost: ring buffer full */
	WS_C_LOST_CALLS,		/* system calls lost: ring buffer full, or no memory for the thread's state */
	WS_C_PACKET_ENDS_FULL,		/* servers of targets that found no room in the table of watched ends */
	WS_C_SHORT_HEADERS,		/* datagrams without a long header of QUIC: only their length is recorded */
#ifdef WS_CHECKED_RECORDS
	WS_C_CHECKED_RECORDS, /* data records whose owner was compared */
	WS_C_CORRUPT_RECORDS, /* times that a task found another task's mark on its record */
#endif
	WS_C_MAX,
};

_Static_assert(sizeof(struct ws_process_facts) == 4, "contract");
_Static_assert(sizeof(struct ws_trust) == 4, "contract");
_Static_assert(sizeof(struct ws_actor) == 48, "contract");
_Static_assert(sizeof(struct ws_tuple) == 40, "contract");
_Static_assert(sizeof(struct ws_clocks) == 24, "contract");
#ifdef WS_CHECKED_RECORDS
_Static_assert(sizeof(struct ws_data) == 184, "contract");
#else
_Static_assert(sizeof(struct ws_data) == 176, "contract");
#endif
_Static_assert(sizeof(struct ws_socket) == 152, "contract");
_Static_assert(sizeof(struct ws_trouble) == 32, "contract");
_Static_assert(sizeof(struct ws_task) == 64, "contract");
_Static_assert(sizeof(struct ws_alias) == 32, "contract");
_Static_assert(sizeof(struct ws_handed) == 24, "contract");
_Static_assert(sizeof(struct ws_wake) == 48, "contract");
_Static_assert(sizeof(struct ws_life) == 8, "contract");
_Static_assert(sizeof(struct ws_flow_key) == 56, "contract");
_Static_assert(sizeof(struct ws_flow_plain) == 24, "contract");
_Static_assert(sizeof(struct ws_flow_drop) == 8, "contract");
_Static_assert(sizeof(struct ws_flow_counts) == 336, "contract");
_Static_assert(sizeof(struct ws_flow) == 392, "contract");
_Static_assert(sizeof(struct ws_flow_adopt) == 96, "contract");
_Static_assert(sizeof(struct ws_context) == 56, "contract");
_Static_assert(sizeof(struct ws_verdict) == 4, "contract");

#endif

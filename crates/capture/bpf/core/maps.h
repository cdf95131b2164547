/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps, and the state that the programs keep in them. */
#ifndef WS_MAPS_H
#define WS_MAPS_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 * 1024 * 1024); /* set by user space */
} events SEC(".maps");

/* Processes of targets that are born, change their program or end, for whom waits for them without polling. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} lives SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WS_C_MAX);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* Targets by process id (thread group id in the root pid namespace). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} target_pids SEC(".maps");

/* Targets by inode of the network namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} target_netns SEC(".maps");

/* Targets by cgroup v2 and its descendants. */
#define WS_MAX_CGROUPS 16
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, WS_MAX_CGROUPS);
	__type(key, __u32);
	__type(value, __u32);
} target_cgroups SEC(".maps");

#define WS_WOKEN 4

/* For which request somebody acts, a thread or a goroutine; see context.h. */
struct context {
	__u64 cause;	 /* exchange id of the request, 0 if none */
	__u64 guess;	 /* for whom a worker may act that acts for nobody known */
	__u64 place;	 /* where it was handed over: address of a futex, a file or a channel; 0 if it was not */
	__u64 believed;	 /* it is doubted, and acts for nobody that is known: for whom it would be believed to act */
	__u64 woken_by;	 /* a task of tokio: for whom those act that woke it since it last read or slept; ~0: several */
	__u8 evidence;	 /* of `cause` */
	__u8 state;	 /* enum context_state */
	__u8 used;	 /* something was sent for it since */
	__u8 woken;	 /* the guess is who woke it where it waits for work */
	__u8 pending;	 /* the guess is newer than the cause */
	__u8 crowd;	 /* enum crowd: requests read together */
	__u8 acted;	 /* something was sent since it was last known for whom it acts */
	__u8 framed : 1; /* …since the program was given that very frame, or read that socket, and nothing else */
	__u8 told : 1;	 /* the program says which job it does: no wake-up says more */
	__u8 delivers : 1;	/* a goroutine: what it sends next is a connection, not work */
	__u8 woken_idle : 1;	/* it acts for nobody, and was woken by a worker */
	__u8 writes : 1;	/* it has sent something itself */
	__u8 answers : 1;	/* …also answers to requests that others have read: it gives no results back */
	__u8 reads_answers : 1; /* …has not, and reads the answers to what others have */
	__u8 slept : 1;		/* a task of tokio: since it last read something */
	__u32 results;		/* the place where it was given a result last, its lower half */
	__u32 pad;
};

/* Where Go's runtime keeps what is read of it. */
struct go_runtime {
	__u16 goid;   /* of runtime.g */
	__u16 parent; /* …the id of the goroutine that started it; 0: not kept (before Go 1.21) */
	__u16 curg;   /* of runtime.m */
	__u8 births;  /* their start is probed */
	__u8 tls;     /* crypto/tls is probed */
};

/* Where Java's virtual machine keeps which thread of Java it runs, in bytes: src/tls/java.rs. */
struct java_machine {
	__u64 collecting; /* address of the byte that is not 0 while the collector moves objects and all threads stand */
	__u16 thread;	  /* of the C library's structure of a thread: its JavaThread; 0 if this is no such machine */
	__u16 os_thread;  /* of JavaThread: its OSThread */
	__u16 handle;	  /* of OSThread: the address of the C library's structure */
	__u16 platform;	  /* of JavaThread: a pointer to the reference to its own java.lang.Thread… */
	__u16 current; /* …and to the one that runs, which is another one while a virtual thread is mounted; 0: there are none */
	__u16 id;	    /* of JavaThread: the id of that one; 0: not kept (before Java 24) */
	__u16 id_in_object; /* of java.lang.Thread */
	__u16 buffer;	    /* of JavaThread: from which it allocates; in that, as addresses: */
	__u16 buffer_start;
	__u16 buffer_top;
	__u16 buffer_end;
	__u16 stack;	   /* of JavaThread: the upper end of its stack */
	__u64 collections; /* address of their number, of 4 bytes; 0: not known */
	__u64 entry; /* by which the machine goes to the first method of a thread: the return address; 0: tasks cannot be told */
	__u64 heap_from;
	__u64 heap_to;
};

/* HAProxy: addresses of functions that a task may run, and where a thread keeps what it does: src/tls/haproxy.rs. */
struct haproxy {
	__u64 stream;  /* process_stream(), of a stream; 0 if this is no HAProxy */
	__u64 end;     /* sc_conn_io_cb(), of one end of a stream */
	__u64 context; /* of the thread, from where the C library has its structure */
};

/* What user space has learnt of a process; by thread group. */
struct process_facts {
	struct go_runtime go; /* zero if that is no Go program; no `goid`: of a version that is not known */
	struct java_machine java;
	__u64 locks_from; /* addresses at which only an interpreter's locks lie */
	__u64 locks_to;
	struct haproxy haproxy;
};

enum java_runs { RUNS_TASK = 1, RUNS_IN_EVENT = 2 }; /* …which an event has called, that goes on then */

enum allocates { ALLOCATES = 1, ALLOCATES_OWN = 2 }; /* …which it has read itself */

/* What a task is to us, and for which request it acts. */
struct task_state {
	__u32 generation; /* of `target_generation` when `target` was decided */
	__u8 target;
	__u8 inherited;	 /* child of a target: stays one */
	__u8 loop : 1;	 /* has waited for events of many sockets */
	__u8 blocks : 1; /* it read its last request where it waits for it alone */
	__u8 mmsg_next;	 /* index of the next message of a running sendmmsg/recvmmsg */
	struct context acts;
	__u64 goroutine; /* that made the last call, or greenlet, virtual thread of Java, stream of HAProxy; 0 if none did */
	__u64 java_thread;	/* its JavaThread, once it is known to be that */
	__u32 java_allocator;	/* its number among those of its process; 0: none yet */
	__u32 java_collections; /* when it was last looked what it runs (java_place.h) */
	__u64 java_own;		/* id of the java.lang.Thread which it is itself; 0 if not known */
	__u64 java_entry;	/* where on its stack the first frame of Java begins; 0: not known, JAVA_NO_ENTRY */
	__u64 java_task;	/* what it runs… */
	__u64 java_task_for;
	__u32 java_task_by;    /* bytes of a mark: who made it */
	struct context job;    /* …and for whom, if it takes tasks from others */
	__u16 java_slot;       /* where that stands, below java_entry; 0: not known */
	__u16 java_root;       /* …or what leads to it (java_path.h) */
	__u16 java_seen_at;    /* the same, of a loop, before it is believed… */
	__u8 java_seen;	       /* …and how much more often it was right than wrong */
	__u64 java_last;       /* task that was seen last there */
	__u64 java_inner_task; /* what it sent last for, and where that stood then */
	__u16 java_inner_at;
	__u32 java_class;     /* of its tasks */
	__u16 java_inner;     /* where one stands when something is sent, above the end of the stack… */
	__u8 java_inner_seen; /* …as often in a row */
	__u8 java_inner_runs; /* enum java_runs: what it sent last was for a task that stands there */
	__u8 java_called;     /* so often it was woken for a task since one was seen */
	__u8 java_unsure;     /* what it sent last may have been for a task, or not */
	__u8 java_checks;     /* of a worker: so often it has sent for its task */
	__u8 java_worn;	      /* …it is used for one request after the other; as it was known… */
	__u32 java_worn_at;   /* …when so many classes were */
	__u64 java_event;     /* what stood there when it last read something */
	__u8 java_mounts;     /* it carries virtual threads */
	__u8 java_serves;     /* it reads requests itself */
	__u8 java_misses;
	__u8 java_begins; /* it sends the first request on a connection, and it is not known for whom it works */
	__u8 java_pause;
	__u8 java_wait;
	__u64 greenlet; /* …or task of asyncio or tokio, that runs; 0: none that is known (greenlet.h, asyncio.h, tokio.h) */
	__u32 facts_epoch;
	struct process_facts facts;
	__u64 woken[WS_WOKEN]; /* at which futexes it was woken of late */
	__u64 enter_sk;	       /* socket of the call in progress */
	__u64 enter_ns;
	__u64 mmsg_vector; /* vector of that sendmmsg/recvmmsg */
	__u32 enter_seq;
	__u8 tls; /* has called a TLS library */
	__u8 woken_next;
	__u8 frames;	 /* is given frames of HTTP/2 one by one, which are seen */
	__u8 deferred;	 /* enum node_turn (node_turns.h) */
	__u8 callbacks;	 /* each callback of its event loop is seen (asyncio.h) */
	__u8 tokio;	 /* it has run a task of tokio (tokio.h): 1, or 3 if channels are not seen */
	__u8 fresh;	 /* what the callback that runs has read: enum carried_by */
	__u16 from_port; /* sender of the datagram that is being received; 0 if not known */
	__u8 from[16];
	__u16 flow_from_port; /* from_port, for flows */
	__u64 flow_vector;    /* as mmsg_vector and mmsg_next, for flows */
	__u64 flow_next;
	__u64 received_from; /* cookie of the socket that it read last */
	__u64 read_for;	     /* if `fresh`: the request that it has read, or for which the answer is that it has read */
	__u64 acts_on;	     /* if `callbacks` or `tokio`: address of the socket that it reads or writes */
	__u64 born;	     /* task that the callback that runs has made */
	__u64 allocates_for; /* if `allocates`: the request; 0: not known which (allocation.h) */
	__u8 allocates;	     /* enum allocates */
	__u64 haproxy_task;  /* that ran at its last message (haproxy.h) */
	__u16 haproxy_current; /* where its context has the task that runs, plus one; 0: not known */
	__u16 haproxy_looks;
};

/*
 * Puts something into a map of what was used of late. Once such a map is full, the kernel drops first what was never looked up, and what is new
 * was not yet: so it is, at once.
 */
static __always_inline long remember(void *map, const void *key, const void *value)
{
	long error = bpf_map_update_elem(map, key, value, BPF_ANY);

	if (!error)
		bpf_map_lookup_elem(map, key);
	return error;
}

/* Who acts in the place of a thread: a goroutine, or what else is like one. */
struct goroutine_key {
	__u64 id;
	__u32 pid;
	__u32 java; /* its threads have numbers of their own */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536); /* set before loading */
	__type(key, struct goroutine_key);
	__type(value, struct context);
} goroutines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

#define WS_NO_DIRECTION 0xff
#define WS_YOUNG_CIPHERTEXT_CALLS 32
#define WS_CIPHERTEXT_BYTES 16 /* of each call, once its plaintext is read: the header of a TLS record */

/* Where the next record of TLS begins in one direction. Each has its own bytes: one is sent while one is received. */
struct tls_half {
	__u32 record; /* sequence number of its header */
	__u32 header; /* the bytes of it that the last call ended with, the first one lowest */
	__u8 broken;  /* so many */
	__u8 framed;  /* this is known */
	__u8 pad[2];
};

/* What a socket of a target is to us. Children of a listener inherit a copy (BPF_F_CLONE). */
struct sock_state {
	__u64 cookie;
	__u64 cause;	/* of the current exchange (client sockets) */
	__u64 believed; /* …if it was sent by who was doubted: for whom he would have been believed to act */
	__u64 connect_cause;
	__u64 connect_ns; /* start of the handshake; its length once it is over */
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
	__u8 verdict : 1;     /* user space has spoken */
	__u8 begun_short : 1; /* the run has begun, and its calls so far were too short to be a head */
	__u8 shared : 1;      /* carries many requests at a time */
	__u8 connect_doubtful : 1;
	__u8 connect_later : 1;	   /* nobody waited until it was connected */
	__u8 mixed : 1;		   /* …for different requests that this process serves */
	__u8 delivers : 1;	   /* brings its client work, … */
	__u8 pulls : 1;		   /* …for which that asks */
	__u8 overtaken : 1;	   /* its answer was read, and the record of this request is still to come */
	__u8 tls;		   /* carries records of TLS, of a thread or Go program that calls a TLS library */
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
 * Socket state by address, for the system-call rung: socket storage wants a pointer that the verifier trusts, and a socket
 * found by its descriptor is none. `inode` tells a new socket at an old address.
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

/* Verdicts on their way from user space, by cookie; taken into the socket's state at its next call. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct ws_verdict);
} verdicts SEC(".maps");

/*
 * A record under construction. Message programs run in process context with preemption off: one per CPU is enough. Values
 * of a per-CPU array are limited to 32 KiB, so that this is an array with an entry for each.
 */
struct scratch {
	struct ws_data data;
	__u8 payload[2 * WS_MAX_PAYLOAD]; /* twice: the verifier bounds offset and length separately */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by user space */
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Set before load. */
const volatile __u32 default_bytes = 512;
const volatile __u32 young_bytes = 256 * 1024;
#define WS_RUN_BYTES 131072 /* after so many bytes of a run, its calls show no more than their beginning */
#define WS_CALL_BYTES 4096  /* …which is this */
const volatile __u32 cgroup_count = 0;
const volatile __u32 tick_ns = 4000000; /* of the kernel's coarse clock */
const volatile bool by_netns = false;
const volatile bool everything = false;
const volatile bool by_syscalls = false;
const volatile bool watch_lives = false;
const volatile bool waited_for = false;	 /* only tasks are told of: who reads them waits, and a new program cannot */
const volatile bool preemptible = false; /* tracepoints no longer hold the processor (Linux 7.0) */
const volatile bool flows_by_syscalls = false;	 /* calls on connections are counted at the end of system calls */
const volatile bool flows_with_messages = false; /* programs of messages count for flows, too */
/* Changed at run time. */
__u32 target_generation; /* 1 before load */
__u32 verdict_epoch;
__u32 hooks_wanted; /* enum ws_hooks: user space attaches them */
__u64 next_socket_id;
__u64 next_provisional;
bool flows_open; /* the self-test's own sockets, before, are nobody's flows */

static __always_inline void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);
	if (n)
		(*n)++;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What a thread is to us, and for which request it acts. */
#ifndef WS_TASK_STATE_H
#define WS_TASK_STATE_H

#define WS_WOKEN 4

/*
 * For which request an actor (a thread, a goroutine, a task, …) acts: its attribution. cause/attribution.h has the rules.
 * "Last" and "since" refer to the last change of the cause unless a field says otherwise.
 */
struct attribution {
	__u64 cause;	       /* exchange id of the request, 0 if none */
	__u64 guess;	       /* a worker without a known cause may act for this request */
	__u64 place;	       /* where the cause was handed over: address of a futex, file or channel; 0: it was not */
	__u64 untrusted_cause; /* no cause, because the process is not trusted: the rules name this one */
	__u64 woken_by; /* tokio: cause of the actor that woke this task since its last read or sleep; ~0: of several */
	__u8 evidence;	/* of `cause` */
	__u8 state;	/* enum attribution_state */
	__u8 used;	/* enum attribution_use: what was done for the cause since */
	__u8 woken;	/* `guess` is the waker's cause, and the wake-up was where this worker waits for work */
	__u8 pending;	/* `guess` is newer than `cause` */
	__u8 overlap;	/* enum overlap: requests read together */
	__u8 acted;	/* something was sent since */
	__u8 framed : 1;	/* the program was given one frame, or read one socket, since, and nothing else */
	__u8 authoritative : 1; /* the runtime itself names the cause: a wake-up changes nothing */
	__u8 delivers : 1;	/* a goroutine: its next send on a channel is a connection, not work */
	__u8 woken_idle : 1;	/* without a cause, and woken by a worker */
	__u8 writes : 1;	/* it has sent something itself, ever */
	__u8 answers : 1;	/* it has answered requests that other actors have read: it gives no results back */
	__u8 reads_answers : 1; /* it never sends, and reads answers to requests of other actors */
	__u8 slept : 1;		/* tokio: the task slept since its last read */
	__u32 results;		/* lower half of the place where this actor was given its last result */
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
	struct attribution acts;
	__u64 actor; /* that made the last call, or greenlet, virtual thread of Java, stream of HAProxy; 0 if none did */
	__u64 java_thread;	/* its JavaThread, once it is known to be that */
	__u32 java_allocator;	/* its number among those of its process; 0: none yet */
	__u32 java_collections; /* when it was last looked what it runs (place.h) */
	__u64 java_own;		/* id of the java.lang.Thread which it is itself; 0 if not known */
	__u64 java_entry;	/* where on its stack the first frame of Java begins; 0: not known, JAVA_NO_ENTRY */
	__u64 java_task;	/* what it runs… */
	__u64 java_task_for;
	__u32 java_task_by;	/* bytes of a mark: who made it */
	struct attribution job; /* …and for whom, if it takes tasks from others */
	__u16 java_slot;	/* where that stands, below java_entry; 0: not known */
	__u16 java_root;	/* …or what leads to it (path.h) */
	__u16 java_seen_at;	/* the same, of a loop, before it is believed… */
	__u8 java_seen;		/* …and how much more often it was right than wrong */
	__u64 java_last;	/* task that was seen last there */
	__u64 java_inner_task;	/* what it sent last for, and where that stood then */
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
	__u64 runs; /* …or task of asyncio or tokio, that runs; 0: none that is known (greenlet.h, asyncio.h, tokio.h) */
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
	__u8 deferred;	 /* enum node_turn (turns.h) */
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

/* Who acts in the place of a thread: a goroutine, or what else is like one. */
struct actor_key {
	__u64 id;
	__u32 pid;
	__u32 java; /* its threads have numbers of their own */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536); /* set before loading */
	__type(key, struct actor_key);
	__type(value, struct attribution);
} actors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

#endif

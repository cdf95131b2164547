/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The state that is kept of each thread of a target, with its attribution. A runtime keeps further state of a thread in
 * its own folder.
 */
#ifndef WS_TASK_STATE_H
#define WS_TASK_STATE_H

#define WS_WOKEN 4

/*
 * For which request an actor (a thread, a goroutine, a task, …) acts: its attribution. cause/attribution.h has the
 * rules. "Last" and "since" refer to the last change of the cause unless a field says otherwise.
 */
struct attribution {
	__u64 cause;	       /* exchange id of the request, 0 if none */
	__u64 guess;	       /* a worker without a known cause may act for this request */
	__u64 place;	       /* where the cause was handed over: address of a futex, file or channel; 0: it was not */
	__u64 untrusted_cause; /* no cause, because the process is not trusted: the rules name this one */
	union {
		/* tokio: cause of the actor that woke this task since its last read or sleep; ~0: of several */
		__u64 woken_by;
		__u64 made_for; /* Go, if `in_wait`: the request of which this goroutine is a child */
	};
	__u8 evidence;		/* of `cause` */
	__u8 state;		/* enum attribution_state */
	__u8 used;		/* enum attribution_use: what was done for the cause since */
	__u8 woken;		/* `guess` is the waker's cause, and the wake-up was where this worker waits for work */
	__u8 pending;		/* `guess` is newer than `cause` */
	__u8 overlap;		/* enum overlap: requests read together */
	__u8 acted;		/* something was sent since */
	__u8 framed : 1;	/* the program was given one frame, or read one socket, since, and nothing else */
	__u8 authoritative : 1; /* the runtime itself names the cause: a wake-up changes nothing */
	__u8 delivers : 1;	/* a goroutine: its next send on a channel is a connection, not work */
	__u8 woken_by_worker : 1; /* without a cause, and woken by a worker, so probably a worker itself */
	__u8 writes : 1;	  /* it has sent something itself, ever */
	__u8 answers : 1;	  /* it has answered requests that other actors have read: it gives no results back */
	__u8 reads_answers : 1;	  /* it never sends, and reads answers to requests of other actors */
	__u8 delivery : 1;	  /* its cause is a delivery that it has read itself */
	__u8 slept : 1;		  /* tokio: the task slept since its last read */
	__u8 takes_work : 1;	  /* tokio: others have sent the task something by a channel, ever */
	__u8 awake : 1;		  /* tokio: the task runs, or was sent something and will run */
	__u8 serves_many : 1; /* tokio: it reads a connection with many requests, the last since it slept: `guess` */
	__u8 by_waker : 1;    /* `cause` is provisional, and `guess` was that of its waker when it was given */
	__u8 resumed : 1;     /* Java: a coroutine without a cause of its own runs, for the cause of what resumed it */
	__u8 in_wait : 1;     /* Go: a child that had sent nothing was given `cause` with a value, see own_again() */
	__u8 polls : 1;	      /* it reads requests of several connections, ever, and others answer them */
	__u32 results;	      /* lower half of the place where this actor was given its last result */
	__u16 depth;	      /* Java with an agent: how many objects it runs, one inside the other */
	__u8 bound;	      /* it was made for this one request, and acts for it until it ends */
	__u8 births;	      /* tokio: tasks that it has made since it slept, while `serves_many` */
};

struct task_state {
	__u32 generation; /* of `target_generation` when `target` was decided */
	__u8 target;
	__u8 inherited;	 /* child of a target: stays one */
	__u8 loop : 1;	 /* has waited for events of many sockets */
	__u8 blocks : 1; /* its last request came from a blocking socket */
	__u8 serves : 1; /* has read a request */
	__u8 shares : 1; /* has sent on a connection that requests share, see note_sharer() */
	__u8 tls;	 /* has called a TLS library */
	struct attribution acts;
	__u64 actor;		/* id of the actor that made the last call; 0: the thread itself */
	__u64 runs;		/* id of the actor that its runtime runs on this thread now; 0: none that is known */
	__u32 runs_kind;	/* enum ws_actor_kind, of `runs` */
	__u32 process_runtimes; /* runtimes of its process that user space has found, see has_runtime() */
	__u32 thread_runtimes;	/* runtimes whose probes have run on this thread */
	__u32 facts_epoch;	/* of `process_runtimes`, and of the facts of its runtimes */
	__u64 woken[WS_WOKEN];	/* futexes at which it was woken lately */
	__u64 received_from;	/* cookie of the socket that it read last */
	__u64 answer_ns;	/* when it read that socket, if what it read was an answer; else 0 */
	__u64 brings_from;	/* cookie of the socket whose answer it may bring to another thread (answer.h) */
	__u64 brings_ns;	/* when that was read; 0: none */
	__u64 moved_on;		/* cookie of the socket of the message that it moved last */
	__u64 moved_ns;		/* when, if that was an answer, or what a producer sent; else 0 */
	__u64 closing_ns;	/* Go: when it closed a channel for which goroutines wait */
	__u64 sdk_span;		/* id of the span in which its SDK was last told to be; 0: none */
	__u64 sdk_cause;	/* the cause that was told with it */
	__u64 socket;		/* address of the socket that it reads or writes now, as a number */
	__u64 enter_sk;		/* socket whose call was timed from its entry */
	__u64 enter_ns;
	__u32 enter_seq;
	__u8 woken_next;
	__u8 closing;	   /* Go: how many of these goroutines are still to be made ready */
	__u8 mmsg_next;	   /* index of the next message of a running sendmmsg/recvmmsg */
	__u16 from_port;   /* sender of the datagram that is being received; 0 if not known */
	__u64 mmsg_vector; /* address of the vector of that call */
	__u8 from[16];
	__u64 flow_vector; /* as mmsg_vector, mmsg_next and from_port, for flows */
	__u64 flow_next;
	__u16 flow_from_port;
	struct message message;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

/* Whether the process or thread has this runtime; `kind` is the kind of its actors. */
static __always_inline bool has_runtime(const struct task_state *t, enum ws_actor_kind kind)
{
	return (t->process_runtimes | t->thread_runtimes) >> kind & 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of Java share; wire.h says how Rust gets it. */
#ifndef WS_JAVA_CONTRACT_H
#define WS_JAVA_CONTRACT_H

/* Places in the memory of the machine: addresses, and offsets in bytes; found by src/runtime/java/. */
struct java_facts {
	__u64 collecting; /* address of a byte, not 0 while the collector moves objects and all threads stand */
	__u16 thread;	  /* in the C library's structure of a thread: its JavaThread */
	__u16 os_thread;  /* in JavaThread: its OSThread */
	__u16 handle;	  /* in OSThread: the address of the C library's structure */
	__u16 platform;	  /* in JavaThread: a pointer to the reference to its own java.lang.Thread */
	__u16 current;	  /* in JavaThread: the same for the one that runs, maybe a virtual thread; 0: there are none */
	__u16 id;	  /* in JavaThread: the id of the one that runs; 0: not kept (before Java 24) */
	__u16 id_in_object; /* in java.lang.Thread: its id */
	__u16 buffer;	    /* in JavaThread: the buffer from which it allocates; in that, as addresses: */
	__u16 buffer_start;
	__u16 buffer_top;
	__u16 buffer_end;
	__u16 stack;	   /* in JavaThread: the upper end of its stack */
	__u64 collections; /* address of the number of collections, 4 bytes; 0: not known */
	__u64 entry;	   /* return address of the stub that calls a thread's first method; 0: tasks cannot be found */
	__u64 heap_from;   /* begin and end of the heap; 0 if `entry` is */
	__u64 heap_to;
};

/* Key of `java_allocations`: what was allocated by a process. 0: its threads; else a chunk of its marks. */
struct allocations_key {
	__u32 pid;
	__u32 chunk;
};

/* Cookies of the probes in the agent's functions: src/runtime/java/agent.rs. */
enum java_agent_point {
	JAVA_SUBMITTED = 1, /* an object is handed over */
	JAVA_BEGINS = 2,    /* it is run, once */
	JAVA_RESUMES = 3,   /* it is told something, maybe not for the last time */
	JAVA_ENDS = 4,	    /* what began last has ended */
	JAVA_SENDS = 5,	    /* a request on a stream of HTTP/2 is about to be written */
	JAVA_GETS = 6,	    /* a frame of a stream was read; it ends as the others do */
	JAVA_TAKES = 7,	    /* a worker has taken an object, which it runs until it is idle */
	JAVA_IDLE = 8,	    /* a worker looks for the next object */
	JAVA_TURNS = 9,	    /* what the thread runs turns to an object */
	JAVA_SEALS = 10,    /* a connection of TLS is about to encrypt */
	JAVA_WRITES = 11,   /* a record of TLS is encrypted */
	JAVA_READS = 12,    /* a record of TLS was read */
	JAVA_SUSPENDS = 13, /* a continuation of a coroutine is made, or is about to wait */
	JAVA_PROCEEDS = 14, /* it goes on; it ends as the others do */
	JAVA_STARTS = 15,   /* a new coroutine is started; the same */
	JAVA_RECEIVES = 16, /* a coroutine takes what is in a channel */
};

/* Cookies of the probes in the machine: it takes the frames of a virtual thread from a carrier, and puts them back. */
enum java_mount_point { JAVA_FREEZES = 1, JAVA_THAWS = 2 };

/* Chunks of marks that a process has. User space removes them when the process has ended. */
enum java_size { WS_MARK_CHUNKS = 4 };

_Static_assert(sizeof(struct java_facts) == 64, "contract");
_Static_assert(sizeof(struct allocations_key) == 8, "contract");

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What the programs of waits share with user space. */
#ifndef WS_WAIT_CONTRACT_H
#define WS_WAIT_CONTRACT_H

enum ws_wait_size {
	WS_WAITS_KEPT = 64, /* of each thread; a power of two */
	WS_WAIT_NAME = 24,
};

enum ws_turn_size {
	WS_TURNS_KEPT = 32,    /* of each actor; a power of two */
	WS_TURN_ACTORS = 4096, /* whose turns are kept */
	WS_TURN_ACTORS_BITS = 12,
};

enum ws_stack_size {
	WS_STACKS_KEPT = 8192, /* of all threads; a power of two */
	WS_STACK_KERNEL = 24,  /* frames */
	WS_STACK_USER = 80,
	WS_STACK_NATIVE = 16, /* if functions of an interpreter follow */
	WS_STACK_INTERPRETED = 64,
};

enum ws_stack_copy_size {
	WS_COPY_BLOCK = 512,	/* bytes; a page has a whole number of blocks */
	WS_COPY_BLOCKS = 32,	/* of one copy at most */
	WS_COPIES_KEPT = 16384, /* blocks of all copies; a power of two */
};

/*
 * A copy of the memory of a stack, for programs without frame pointers: WS_COPY_BLOCK bytes for each of `blocks`, from
 * the block on that holds `sp`. In the table, each block stands between two words that are its number.
 */
struct ws_stack_copy {
	__u64 first; /* number of the first block; 0: no copy was made */
	__u64 ip;
	__u64 sp;
	__u64 fp;
	__u64 lr; /* 0 on machines that have none */
	__u32 blocks;
	__u32 cut; /* the stack goes on beyond the copy */
};

/* In which state a thread stopped. */
enum ws_wait_state {
	WS_WAIT_READY = 0, /* it went on being ready: another thread ran */
	WS_WAIT_SLEEPS = 1,
	WS_WAIT_UNINTERRUPTIBLE = 2,
};

/* What woke a thread. */
enum ws_waker {
	WS_WAKER_NONE = 0,
	/* a thread of a target in a system call, or an interrupt in its place: waker_*, comm */
	WS_WAKER_TARGET = 1,
	WS_WAKER_OTHER = 2,  /* the same of another process, of which nothing is told */
	WS_WAKER_KERNEL = 3, /* a thread of the kernel */
	WS_WAKER_INTERRUPT = 4,
};

/* Instead of the id of a thread that ran. */
enum ws_ran { WS_RAN_KERNEL = 0xfffffffe, WS_RAN_OTHER = 0xffffffff };

/* A wait of a thread. */
struct ws_wait {
	__u64 stopped_ns;
	__u64 woken_ns; /* 0: it was ready all the time */
	__u64 ran_ns;	/* 0: it still waits */
	__u64 about;	/* of a file: number of its inode; of a socket: its cookie; of a futex: its address */
	__u32 waker_pid;
	__u32 waker_tid;
	__u32 limited_us; /* its groups were held back by their CPU limits */
	__s32 fd;	  /* -1: the call names no file */
	__s16 call;	  /* number of the system call; -1: none: it ran its own code */
	__u16 file;	  /* i_mode of the file */
	__u16 port;	  /* of the peer; of a socket without a peer its own */
	__u8 state;	  /* enum ws_wait_state */
	__u8 waker;	  /* enum ws_waker */
	__u16 family;	  /* of a socket */
	__s16 waker_call; /* number of the waker's system call */
	__u16 several;	  /* poll(): number of files, of which `fd` is the first */
	__u16 timeout_ms; /* of a wait for events; 0xffff: none, or longer */
	char comm[16];
	__u64 stack;   /* number of the stack on which the thread stopped; 0: none was taken */
	__u32 ran_pid; /* while the thread was ready, this thread of a target had its processor, or enum ws_ran */
	__u32 ran_tid; /* 0: not known */
	/* of a socket of the internet: the peer's address, in v4-mapped form, or 0; of a file: the end of its path */
	__u8 name[WS_WAIT_NAME];
};

/*
 * A stack. WS_STACK_KERNEL addresses of the kernel follow, then WS_STACK_USER of the program, innermost first. The
 * first of each is of an instruction, the others are return addresses. Functions that an interpreter
 * runs (runtime_frames()) begin after WS_STACK_NATIVE addresses of the program.
 */
struct ws_stack {
	__u64 number; /* 0: it is being written */
	__u16 kernel; /* number of frames */
	__u16 user;   /* without those of an interpreter */
	__u16 interpreted;
	__u16 pad;
	__u64 pid;
	struct ws_stack_copy copy;
};

/* Followed by `count` waits in any order; one whose `stopped_ns` is 0 is empty. */
struct ws_waits {
	__u8 kind;
	__u8 slow;	  /* else one of some requests that are taken whether slow or not */
	__u8 depth;	  /* of a chain that user space follows, see ws_wait_take */
	__u8 runs_actors; /* in turns */
	__u32 count;
	__u32 pid;
	__u32 tid;
	__u64 exchange; /* whose answer is being sent; 0: user space asked for these waits */
	__u64 actor;	/* that sends it, if it is no thread */
	__u64 since_ns; /* of the request */
	__u64 time_ns;
	char comm[16];
};

/* A thread ran an actor of its runtime from one time to another. */
struct ws_turn {
	__u64 from_ns;
	__u64 to_ns;   /* 0: no end was seen: the turn ends at the latest when the next one begins */
	__u64 awaited; /* where its code had stopped before: a place as in interpreter_frames(); 0: that is not known */
	__u32 tid;
	__u32 before; /* the first WS_TURN_READY_BITS: how long it was ready before, us; then enum ws_parked */
	__u32 ran_us; /* how much of it the thread was on a processor; 0: not known */
	__u32 pad;
};

enum ws_turn_before { WS_TURN_READY_BITS = 23 };

/* Why the actor did not run before: the runtime's number of that, or one of these. */
enum ws_parked {
	WS_PARK_UNKNOWN = 0,
	WS_PARK_READY = 256, /* it waited for nothing: its runtime did not run it */
};

/* The last turns of an actor. Places of turns that have not been are left as they were. */
struct ws_turns {
	__u64 actor;
	__u32 pid;
	__u32 next;	/* number of the next turn */
	__u64 ready_ns; /* since when it is ready for that; 0: not known */
	__u64 acts_for; /* the request for which it was last told to act (turn_actors); 0: none */
	struct ws_turn turns[WS_TURNS_KEPT];
};

enum ws_sample_rate { WS_SAMPLES_PER_SECOND = 99 };

/*
 * Where a thread ran when the clock of its processor rang. A stack follows, as above; of its part of the program only
 * so many places as are in use.
 */
struct ws_sample {
	__u8 kind;
	__u8 pad[3];
	__u32 tid;
	__u64 time_ns;
	struct ws_stack stack; /* without a number */
};

/* What user space asks the program wait_take for. */
struct ws_wait_take {
	__u32 tid;
	__u8 depth;
	__u8 make; /* only begin to keep waits of this thread */
	__u8 pad[2];
	__u64 since_ns;
};

_Static_assert(sizeof(struct ws_wait) == 120, "contract");
_Static_assert(sizeof(struct ws_stack_copy) == 48, "contract");
_Static_assert(sizeof(struct ws_stack) == 72, "contract");
_Static_assert(sizeof(struct ws_waits) == 64, "contract");
_Static_assert(sizeof(struct ws_turn) == 40, "contract");
_Static_assert(sizeof(struct ws_turns) == 1312, "contract");
_Static_assert(sizeof(struct ws_sample) == 88, "contract");
_Static_assert(sizeof(struct ws_wait_take) == 16, "contract");

#endif

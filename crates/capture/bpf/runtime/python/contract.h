/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of Python share; wire.h says how Rust gets it. */
#ifndef WS_PYTHON_CONTRACT_H
#define WS_PYTHON_CONTRACT_H

/* Addresses at which only the interpreter's locks lie. */
struct python_facts {
	__u64 locks_from;
	__u64 locks_to;
};

/* Cookies of the probes of queues and of contexts: queue.rs, heap.rs and context.rs in src/runtime/python. */
enum python_point {
	PYTHON_PUT = 1,	   /* put(self, arguments, …) */
	PYTHON_GOT = 2,	   /* at the return of get(self, …): the item, 0 with an exception */
	PYTHON_GIVEN = 3,  /* gevent: _put(self, item, …) */
	PYTHON_TAKEN = 4,  /* gevent: at the return of _get(self, …), in which no other greenlet runs */
	PYTHON_COPIED = 5, /* at the return of copy_context(): the copy, 0 with an exception */
	PYTHON_ENTERS = 6, /* context_run(context, …) */
	PYTHON_PUSHED = 7, /* heappush(module, arguments, …): the arguments are a list and an item */
	PYTHON_POPPED = 8, /* heappop(module, list) */
};

enum python_frame {
	PYTHON_UNIT = 2,		/* bytes of an instruction */
	PYTHON_CODE_BITS = 48,		/* of an address; above it stands the number of the instruction */
	PYTHON_NO_INSTRUCTION = 0xffff, /* it is not known, or higher */
};

/* Where an interpreter keeps what its threads run. All but the first are offsets, in bytes. */
struct python_layout {
	__u64 code_type;    /* address of the type of code objects */
	__u16 thread;	    /* in the C library's structure of a thread: address of its PyThreadState */
	__u16 holder;	    /* in that: address of what holds the innermost frame, until Python 3.12; else 0 */
	__u16 frame;	    /* in the holder, or the PyThreadState: address of the innermost frame */
	__u16 code;	    /* in a frame: address of its code */
	__u16 caller;	    /* address of the frame that called it */
	__u16 instruction;  /* address of the instruction that it runs */
	__u16 instructions; /* in code: the instructions */
	__u16 name;	    /* address of the name of its function */
	__u16 file;	    /* address of the name of its file */
	__u16 lines;	    /* address of its table of lines */
	__u16 first_line;
	__u16 text; /* in a string: its letters, if all are ASCII */
};

_Static_assert(sizeof(struct python_facts) == 16, "contract");
_Static_assert(sizeof(struct python_layout) == 32, "contract");

#endif

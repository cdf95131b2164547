/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of interpreters share; wire.h says how Rust gets it. */
#ifndef WS_INTERPRETER_CONTRACT_H
#define WS_INTERPRETER_CONTRACT_H

enum interpreter_language {
	INTERPRETER_PYTHON = 1,
	INTERPRETER_RUBY = 2,
	INTERPRETER_PHP = 3,
};

/*
 * A place in a program is one word: the address of a function's code, and above it the lowest bits of the address of an
 * instruction, in units of instructions. User space subtracts the address of the first one, and notices by it if other
 * code has come to the same address meanwhile.
 */
enum interpreter_size {
	INTERPRETER_CODE_BITS = 48,
	INTERPRETER_PATH = 4,
	INTERPRETER_NATIVE_BACK = 16, /* bytes before a frame's environment: what describes a function in C */
};

/* Where an interpreter keeps what its threads run. All but the first three fields are offsets, in bytes. */
struct interpreter_layout {
	__u64 from;  /* address at which `path` begins; 0: the C library's structure of the thread */
	__u64 known; /* Python: type of code objects; Ruby: table of the names of methods */
	__u8 language;
	__u8 steps;	/* of `path`: each leads to an address, the last one to the innermost frame */
	__u8 unit_bits; /* the addresses of instructions are multiples of 1 << unit_bits */
	__u8 pad;
	__u16 path[INTERPRETER_PATH];
	/* In a frame. */
	__u16 code;	   /* address of its code */
	__u16 instruction; /* address of the instruction that it runs */
	__u16 caller;	   /* address of the frame that called it; if `row` is set, 0 */
	__u16 environment; /* address of its environment, if functions in C have frames without code; else 0 */
	/* Ruby's frames stand in a row: */
	__u16 row;	 /* size of a frame */
	__u16 row_begin; /* before the last step: address of the memory with all frames; its length in words */
	/* In code, or in its body; the kernel programs do not use these. */
	__u16 body; /* address of the body; 0: the code has all of it */
	__u16 instructions;
	__u16 name;
	__u16 file;
	__u16 lines; /* where lines of instructions are told */
	__u16 first_line;
	__u16 line_bytes; /* of an entry of such a table */
	__u16 text;	  /* in a string: its letters */
	/* Of Python: a coroutine that waits keeps what it awaits uppermost on the stack in its frame. */
	__u16 suspended; /* in a coroutine: its frame; 0: not known */
	__u16 values;	 /* in a frame: where its stack begins; 0: `top` is an address */
	__u16 top;	 /* in a frame: how many values there are, or the address behind the last one */
	__u16 spare;
};

_Static_assert(sizeof(struct interpreter_layout) == 64, "contract");

#endif

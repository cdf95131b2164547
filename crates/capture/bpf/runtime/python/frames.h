/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Functions of Python that a thread runs: the interpreter's own frames are followed (docs/decisions/0027). User space
 * has found where they are, and names them later.
 */
#ifndef WS_PYTHON_FRAMES_H
#define WS_PYTHON_FRAMES_H

#include "contract.h"

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct python_layout);
} python_layouts SEC(".maps");

struct python_stack {
	__u64 places[WS_STACK_INTERPRETED];
};

/* The code of a frame, and the number of the instruction in it, in one word. */
static __always_inline __u64 python_place(const struct python_layout *l, __u64 frame)
{
	/* Until Python 3.13 an address, since then with marks in the lowest bits. */
	__u64 code = user_word(frame + l->code) & ~7ULL;
	__u64 number = (user_word(frame + l->instruction) - code - l->instructions) / PYTHON_UNIT;

	if (number > PYTHON_NO_INSTRUCTION)
		number = PYTHON_NO_INSTRUCTION;
	return number << PYTHON_CODE_BITS | (code & ((1ULL << PYTHON_CODE_BITS) - 1));
}

/*
 * Writes the frames of the current thread, innermost first. Returns their number; 0 in other programs. A global
 * function, so that the verifier goes through the loop once, not for each way that leads here.
 */
__noinline int python_frames(struct python_stack *to)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct python_layout *l;
	__u32 pid = task->tgid;
	int i = 0;
	__u64 at;

	l = bpf_map_lookup_elem(&python_layouts, &pid);
	if (!to || !l)
		return 0;
	at = user_word(WS_THREAD_SELF(task) + l->thread);
	if (at && l->holder)
		at = user_word(at + l->holder);
	if (at)
		at = user_word(at + l->frame);
	for (i = 0; i < WS_STACK_INTERPRETED; i++) {
		if (!at)
			break;
		to->places[i] = python_place(l, at);
		at = user_word(at + l->caller);
	}
	return i;
}

#endif

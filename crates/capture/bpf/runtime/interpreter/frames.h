/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Functions that a thread runs in an interpreter: the interpreter's own frames are followed (docs/decisions/0027). User
 * space has found where they are, and names them later. What differs between interpreters is in their layouts.
 */
#ifndef WS_INTERPRETER_FRAMES_H
#define WS_INTERPRETER_FRAMES_H

#include "contract.h"

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct interpreter_layout);
} interpreter_layouts SEC(".maps");

struct interpreter_stack {
	__u64 places[WS_STACK_INTERPRETED];
};

static __always_inline __u64 interpreter_place(const struct interpreter_layout *l, __u64 frame)
{
	/* In some versions, the lowest bits of an address are marks. */
	__u64 code = user_word(frame + l->code) & ~7ULL;
	__u64 instruction = user_word(frame + l->instruction) >> (l->unit_bits & 7);

	if (!code && l->environment)
		code = user_word(user_word(frame + l->environment) - INTERPRETER_NATIVE_BACK);
	return instruction << INTERPRETER_CODE_BITS | (code & ((1ULL << INTERPRETER_CODE_BITS) - 1));
}

/*
 * Writes the frames of the current thread, innermost first. Returns their number; 0 in other programs. A global
 * function, so that the verifier goes through the loop once, not for each way that leads here.
 */
__noinline int interpreter_frames(struct interpreter_stack *to)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 at, holder = 0, end = 0;
	struct interpreter_layout *l;
	__u32 pid = task->tgid;
	int i;

	l = bpf_map_lookup_elem(&interpreter_layouts, &pid);
	if (!to || !l)
		return 0;
	at = l->from ? l->from : WS_THREAD_SELF(task);
	for (i = 0; i < INTERPRETER_PATH; i++) {
		if (i >= l->steps || !at)
			break;
		holder = at;
		at = user_word(at + l->path[i]);
	}
	if (l->row)
		end = user_word(holder + l->row_begin) + 8 * user_word(holder + l->row_begin + 8);
	for (i = 0; i < WS_STACK_INTERPRETED; i++) {
		if (!at || (l->row && at >= end))
			break;
		to->places[i] = interpreter_place(l, at);
		at = l->row ? at + l->row : user_word(at + l->caller);
	}
	return i;
}

#endif

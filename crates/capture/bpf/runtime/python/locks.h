/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Locks of an interpreter of Python: a wake-up at one of them hands over no work. */
#ifndef WS_PYTHON_LOCKS_H
#define WS_PYTHON_LOCKS_H

#include "contract.h"

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct python_facts);
} python_facts SEC(".maps");

struct python_thread {
	struct python_facts facts;
	__u32 facts_epoch;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct python_thread);
} python_threads SEC(".maps");

static __always_inline bool python_is_lock(struct task_struct *task, const struct task_state *t, __u64 place)
{
	const struct python_facts *facts;
	struct python_thread *p;
	__u32 pid = task->tgid;

	p = bpf_task_storage_get(&python_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!p)
		return false;
	if (p->facts_epoch != t->facts_epoch) {
		facts = bpf_map_lookup_elem(&python_facts, &pid);
		if (!facts)
			return false;
		p->facts = *facts;
		p->facts_epoch = t->facts_epoch;
	}
	return place >= p->facts.locks_from && place < p->facts.locks_to;
}

#endif

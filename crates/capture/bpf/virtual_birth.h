/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Who started a virtual thread of Java, which the machine keeps nowhere: told by where the new object lies. A carrier allocates from
 * a buffer of its own, upwards, for whoever it has mounted. So at each message it is noted for whom, from which address on
 * (a mark); and whose mark is the last below a new virtual thread, at its first message, has made it. The collector moves
 * objects and gives addresses again: marks hold until the next collection.
 *
 * A virtual thread that is about to wait (its read finds nothing, it connects), and a carrier that is woken, end what is known.
 * Who waits for a lock, and who goes on after that, is not seen: that is why the link counts as that of a child, which
 * the traces put on trial.
 */
#ifndef WS_VIRTUAL_BIRTH_H
#define WS_VIRTUAL_BIRTH_H

#define WS_CARRIERS 32 /* of a process: others replace them */
#define WS_ALLOCATIONS 1024

struct allocation {
	__u64 from;
	__u64 to;    /* end of the buffer */
	__u64 cause; /* 0: not known */
};

/* Of one carrier. Of its process, under number 0: how many there were. */
struct allocations {
	__u32 collections; /* how many there had been */
	__u32 first;	   /* mark since then */
	__u32 next;
	__u32 pad;
	__u64 start; /* of the buffer, at the last mark */
	__u64 cause; /* …and for whom that was */
	struct allocation marks[WS_ALLOCATIONS];
};

struct allocations_key {
	__u32 pid;
	__u32 carrier;
};

/* User space empties it of processes that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct allocations_key);
	__type(value, struct allocations);
} java_allocations SEC(".maps");

struct allocations no_allocations; /* too large for the stack */

static __always_inline struct allocations *allocations_of(struct allocations_key *key)
{
	struct allocations *all = bpf_map_lookup_elem(&java_allocations, key);

	if (all)
		return all;
	bpf_map_update_elem(&java_allocations, key, &no_allocations, BPF_NOEXIST);
	return bpf_map_lookup_elem(&java_allocations, key);
}

static __always_inline void add_mark(struct allocations *all, __u64 from, __u64 to, __u64 cause)
{
	struct allocation *mark = &all->marks[all->next % WS_ALLOCATIONS];

	mark->to = 0; /* who looks at it meanwhile finds nothing in it */
	mark->from = from;
	mark->cause = cause;
	mark->to = to;
	all->next++;
}

/* What this thread of the current process allocates from now on is for this request; 0: not known for which. */
__noinline int allocates_for(struct task_state *t, __u64 cause)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct allocations_key key = { .pid = task->tgid };
	const struct java_machine *j;
	struct allocations *all;
	__u64 buffer, start, to;
	__u32 collections = 0;

	if (!t || !t->java_thread || !t->facts.java.collections)
		return 0;
	j = &t->facts.java;
	if (!t->java_carrier) {
		all = allocations_of(&key);
		if (!all)
			return 0;
		key.carrier = 1 + __sync_fetch_and_add(&all->next, 1) % WS_CARRIERS;
		if (!allocations_of(&key))
			return 0;
		t->java_carrier = key.carrier;
	}
	/* Made above, in a message: where somebody is woken, nothing may be allocated before Linux 6.1. */
	key.carrier = t->java_carrier;
	all = bpf_map_lookup_elem(&java_allocations, &key);
	if (!all || bpf_probe_read_user(&collections, sizeof(collections), (void *)j->collections))
		return 0;
	buffer = t->java_thread + j->buffer;
	start = user_word(buffer + j->buffer_start);
	to = user_word(buffer + j->buffer_end);
	if (all->collections != collections) {
		all->collections = collections;
		all->first = all->next;
		all->start = 0;
	}
	if (all->start != start)
		add_mark(all, start, to, all->cause);
	all->start = start;
	all->cause = cause;
	add_mark(all, user_word(buffer + j->buffer_top), to, cause);
	return 0;
}

/* Takes the mark of this carrier that is nearest below the object: of those of one buffer that is the newest. */
__noinline int nearest_mark(struct allocations *all, struct allocation *best, __u64 object, __u32 collections)
{
	__u32 next, kept;

	if (!all || !best || all->collections != collections)
		return 0;
	next = all->next;
	kept = next - all->first;
	for (__u32 i = 0; i < WS_ALLOCATIONS && i < kept; i++) {
		const struct allocation *mark = &all->marks[(next - 1 - i) % WS_ALLOCATIONS];

		if (mark->from <= object && object < mark->to) {
			*best = *mark;
			return 1;
		}
	}
	return 0;
}

/* For which request the virtual thread that the current thread has mounted was made; 0 if that is not known. */
__noinline __u64 made_for(struct task_state *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct allocations_key key = { .pid = task->tgid };
	struct allocation best = {};
	__u32 before = 0, after = 0;
	struct allocations *all;
	__u64 object;

	if (!t || !t->facts.java.collections)
		return 0;
	if (bpf_probe_read_user(&before, sizeof(before), (void *)t->facts.java.collections))
		return 0;
	object = user_word(user_word(t->java_thread + t->facts.java.current));
	for (__u32 i = 1; i <= WS_CARRIERS; i++) {
		key.carrier = i;
		all = bpf_map_lookup_elem(&java_allocations, &key);
		if (!all || nearest_mark(all, &best, object, before))
			break;
	}
	bpf_probe_read_user(&after, sizeof(after), (void *)t->facts.java.collections);
	return before == after ? best.cause : 0;
}

/* After a message, or when it connects. */
static __always_inline void note_allocations(struct task_state *t, const struct context *c)
{
	if (t->facts.java.thread)
		allocates_for(t, c && c->state != ACTS_RETURNED && !is_provisional(c->cause) ? c->cause : 0);
}

#endif

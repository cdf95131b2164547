/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Ruby: what a thread waits for at a futex. Each thread has one condition variable, for the lock of the machine (GVL)
 * and for all that Ruby's code waits for. So the place of a wait does not tell a lock from a result. The mutex does
 * with which the thread waits: that of the machine's lock is one for all threads, that of a result is the thread's own.
 * The last mutex that a thread took before it sleeps is the one with which it waits.
 *
 * A thread that has ended is kept for the next one (seen in Ruby 3.1). It waits at a condition variable on its own
 * stack, which only the maker of the next thread is told. src/runtime/ruby.rs finds the function.
 */
#ifndef WS_RUBY_THREADS_H
#define WS_RUBY_THREADS_H

#define RUBY_OWN_STACK 1024 /* bytes above the stack pointer in a system call: the frames of a kept thread */

/* By thread: the mutex that it took last. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} ruby_mutexes SEC(".maps");

struct ruby_mutex {
	__u64 address;
	__u32 pid;
	__u32 pad;
};

/* Which thread waits with a mutex; 0: several do. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct ruby_mutex);
	__type(value, __u32);
} ruby_waiters SEC(".maps");

/* rb_native_mutex_lock(mutex) */
SEC("uprobe.multi")
int WS_UPROBE(ruby_mutex_lock)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	__u64 *last;

	if (!t)
		return 0;
	last = bpf_task_storage_get(&ruby_mutexes, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!last)
		return 0;
	*last = WS_FN_ARG1(ctx);
	t->thread_runtimes |= 1U << WS_RUBY_THREAD;
	return 0;
}

/* Whether this thread, which sleeps at a futex, waits for the machine's lock. */
static __always_inline bool ruby_is_lock(struct task_struct *wakee)
{
	struct ruby_mutex key = { .pid = wakee->tgid };
	__u32 *waiter, tid = wakee->pid;
	__u64 *last;

	last = bpf_task_storage_get(&ruby_mutexes, wakee, 0, 0);
	if (!last)
		return false;
	key.address = *last;
	waiter = bpf_map_lookup_elem(&ruby_waiters, &key);
	if (!waiter) {
		bpf_map_update_elem(&ruby_waiters, &key, &tid, BPF_ANY);
		return false;
	}
	if (*waiter != tid)
		*waiter = 0;
	return !*waiter;
}

/* Whether this thread, which sleeps at this futex, was kept for the next thread of Ruby. */
static __always_inline bool ruby_is_kept(const struct pt_regs *theirs, __u64 place)
{
	return place - WS_SP(theirs) < RUBY_OWN_STACK;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Java: facts about the machine of a process, and the state of each of its threads. Only this folder uses them. */
#ifndef WS_JAVA_THREAD_H
#define WS_JAVA_THREAD_H

#include "contract.h"

#define WS_MARK_TICK 20			    /* a tick is 2^20 ns */
#define JAVA_OBJECT (1U << 31)		    /* in place of a stream in a carrier_key: the object is an identity hash */
#define JAVA_CONTINUATION (JAVA_OBJECT | 1) /* the same, for the cause of a coroutine itself */

static __always_inline bool has_java_agent(const struct task_state *t)
{
	return t->process_runtimes & WS_JAVA_AGENT;
}

/* Facts by thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct java_facts);
} java_facts SEC(".maps");

/*
 * What a loop ran at its last send: a task from its queue, or a task that an event has called; in the latter case the
 * event goes on afterwards.
 */
enum java_runs { RUNS_TASK = 1, RUNS_IN_EVENT = 2 };

/*
 * What to note about a thread's allocations after a message. ALLOCATES_OWN: they are for a request that it has read.
 */
enum allocates { ALLOCATES = 1, ALLOCATES_OWN = 2 };

/* "Place": distance of a word on the stack below `entry`, where the first frame of Java begins. */
struct java_thread {
	struct java_facts facts;
	__u32 facts_epoch;
	__u32 allocator; /* its number among the allocating threads of its process, from 1; 0: none yet */
	__u32 born;	 /* when it was started, in ticks of WS_MARK_TICK */
	__u64 thread;	 /* its JavaThread; 0 until that is certain */
	__u64 own;	 /* id of its own java.lang.Thread; 0: not known */
	__u64 entry;	 /* address on its stack where the first frame of Java begins; 0: not known, JAVA_NO_ENTRY */
	__u64 cause;	 /* cause of the thread itself: a copy from its task_state */
	__u64 task;	 /* object of the task that it runs */
	__u64 task_for;	 /* cause for which the task was made */
	struct attribution job; /* attribution of a worker or loop while it runs the task */
	__u32 task_by;		/* flags of the mark that shows the cause of the task */
	__u32 collections;	/* number of collections when the task was looked at */
	__u64 last;		/* task that was last seen at the place */
	__u64 event;	   /* loop: word at the place when the thread last read; while it stands there, an event runs */
	__u64 inner_task;  /* loop: task of the last send, found in the last frames */
	__u16 inner_at;	   /* its distance from the end of the stack, bytes */
	__u16 inner;	   /* loop: where tasks are at a send, as a distance from the end of the stack, bytes */
	__u8 inner_seen;   /* how often in a row a task was there */
	__u8 inner_runs;   /* enum java_runs, of the last send */
	__u16 slot;	   /* place of the task; 0: not known */
	__u16 root;	   /* place of the object by which a path to the task begins (path.h) */
	__u16 seen_at;	   /* loop: a candidate for the place */
	__u8 seen;	   /* how much more often the candidate was right than wrong */
	__u8 called;	   /* loop: number of wake-ups for a task since one was seen */
	__u32 class;	   /* class of the tasks that it runs */
	__u32 recycled_at; /* `java_recycled_classes` when `recycled` was decided */
	__u8 recycled;	   /* worker: its task object is used for one request after the other */
	__u8 unsure;	   /* the last send may have been for a task, or not */
	__u8 checks;	   /* worker: number of tasks that it has taken */
	__u8 misses;	   /* worker: how often in a row there was no task at the place */
	__u8 pause;	   /* length of the pause between searches that find nothing, in sends */
	__u8 wait;	   /* sends that are left of the current pause */
	__u8 loop : 1;	   /* as in its task_state */
	__u8 mounts : 1;   /* it carries virtual threads */
	__u8 serves : 1;   /* it reads requests itself */
	__u8 told : 1;	   /* the agent says what it runs */
	__u8 sent : 1;	   /* java_sent() is to be called */
	__u8 allocates;	   /* enum allocates, to be noted by java_finish() */
	__u64 sent_on;	   /* cookie of the socket, 0 if no requests were sent */
	__u64 allocates_for; /* the cause to be noted; 0: not known */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct java_thread);
} java_threads SEC(".maps");

/* Copies facts that user space has found since. A global function, to be verified once. */
__noinline int java_learn(struct java_thread *j, __u32 epoch)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	const struct java_facts *facts = bpf_map_lookup_elem(&java_facts, &pid);

	if (!j || !facts)
		return 0;
	j->facts = *facts;
	j->facts_epoch = epoch;
	return 0;
}

/* The state of a Java thread as of its last call; NULL if it has made none. */
static __always_inline struct java_thread *java_seen(struct task_struct *task, const struct task_state *t)
{
	return has_runtime(t, WS_VIRTUAL_THREAD) ? bpf_task_storage_get(&java_threads, task, 0, 0) : NULL;
}

/* The state of the current thread of Java; NULL if its process has no machine that is followed. */
static __always_inline struct java_thread *java_thread(struct task_struct *task, const struct task_state *t)
{
	struct java_thread *j;

	if (!has_runtime(t, WS_VIRTUAL_THREAD))
		return NULL;
	j = bpf_task_storage_get(&java_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!j)
		return NULL;
	if (j->facts_epoch != t->facts_epoch)
		java_learn(j, t->facts_epoch);
	j->born = task->start_time >> WS_MARK_TICK;
	j->loop = t->loop;
	j->cause = t->acts.cause;
	return j;
}

#endif

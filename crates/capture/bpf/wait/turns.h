/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Turns of actors that a runtime moves from thread to thread (docs/decisions/0032): which thread ran the actor, and
 * when. The runtime's probe tells that a turn begins. It ends when the thread runs another actor, or stops without one.
 * If another probe tells that an actor is ready to go on, the time until its next turn is one that it waited for its
 * runtime.
 *
 * All actors share one table; an actor whose place is taken loses its turns. User space counts that if it asks for
 * them.
 */
#ifndef WS_WAIT_TURNS_H
#define WS_WAIT_TURNS_H

/* These boxes are empty while no waits are asked for. */
WS_BOXED_ARRAY(actor_turns, struct ws_turns);
/* The actor that acted last for a request, where a loop may send its answer. */
WS_TABLE(turn_actors, __u64, __u64);

#define WS_TURN_HASH 0x9e3779b97f4a7c15ULL /* actors are numbers in a row, or addresses */

static __always_inline struct ws_turns *turns_of(__u64 actor, __u32 pid)
{
	void *table = table_in(&actor_turns);
	__u32 at = (actor ^ pid) * WS_TURN_HASH >> (64 - WS_TURN_ACTORS_BITS); /* src/source/wait/turns.rs */

	return table ? bpf_map_lookup_elem(table, &at) : NULL;
}

static __always_inline struct ws_turn *turn_at(struct ws_turns *of, __u32 number)
{
	return &of->turns[number & (WS_TURNS_KEPT - 1)];
}

static __always_inline bool turns_are_of(const struct ws_turns *of, __u64 actor, __u32 pid)
{
	return of->actor == actor && of->pid == pid;
}

/* The turn that this thread is in; NULL if its actor has lost its place. */
static __always_inline struct ws_turn *turn_of_thread(const struct wait_ring *r, const struct task_struct *task)
{
	struct ws_turns *of = r->turn ? turns_of(r->turn, task->tgid) : NULL;
	struct ws_turn *turn;

	if (!of || !turns_are_of(of, r->turn, task->tgid))
		return NULL;
	turn = turn_at(of, r->turn_number);
	return turn->tid == task->pid ? turn : NULL;
}

static __always_inline void turn_ends(struct wait_ring *r, struct task_struct *task, __u64 now)
{
	struct ws_turn *turn = turn_of_thread(r, task);
	__u64 ran_us;

	if (turn && !turn->to_ns) {
		ran_us = (on_cpu_ns(task, now) - r->turn_ran_ns) / 1000;
		turn->to_ns = now;
		turn->ran_us = ran_us + 1;
	}
	r->turn = 0;
}

/* The thread stops. Its actor has not ended its turn if the runtime still names it: then it stops for the actor. */
static __always_inline void turn_may_end(struct wait_ring *r, struct task_struct *task, __u64 now)
{
	__u64 runs = 1;

	if (r->turn && r->runs_at && !bpf_probe_read_user(&runs, sizeof(runs), (void *)r->runs_at) && !runs)
		turn_ends(r, task, now);
}

/* An actor takes this place. */
static __always_inline void turns_become(struct ws_turns *of, __u64 actor, __u32 pid)
{
	of->actor = actor;
	of->pid = pid;
	of->next = 0;
	of->ready_ns = of->acts_for = 0;
}

/* The place of this actor, which is taken from another one if need be. */
static __always_inline struct ws_turns *turns_for(__u64 actor, __u32 pid)
{
	struct ws_turns *of = turns_of(actor, pid);

	if (of && !turns_are_of(of, actor, pid))
		turns_become(of, actor, pid);
	return of;
}

/* The actor has got what it waited for. */
static __always_inline void turn_is_due(__u64 actor, __u32 pid)
{
	struct ws_turns *of = turns_for(actor, pid);

	if (of && !of->ready_ns)
		of->ready_ns = bpf_ktime_get_ns();
}

/* How long the actor has been ready for a turn that begins, us; 0: not known. */
static __always_inline __u32 ready_us(const struct ws_turns *of, __u64 now)
{
	__u64 us = of->ready_ns && of->ready_ns < now ? (now - of->ready_ns) / 1000 : 0;
	__u64 most = (1 << WS_TURN_READY_BITS) - 1;

	return us > most ? most : us;
}

/*
 * This thread runs an actor from now on. `runs_at`: see struct wait_ring; `parked`: enum ws_parked; `awaited`: see
 * struct ws_turn.
 */
static __always_inline void turn_begins(struct task_struct *task, __u64 actor, __u64 runs_at, __u16 parked,
					__u64 awaited)
{
	struct wait_ring *r = bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 now = bpf_ktime_get_ns();
	struct ws_turns *of;
	struct ws_turn *turn;

	if (!r)
		return;
	if (r->turn)
		turn_ends(r, task, now);
	r->head.runs_actors = 1;
	of = turns_for(actor, task->tgid);
	if (!of)
		return;
	turn = turn_at(of, of->next);
	turn->before = ready_us(of, now) | (__u32)parked << WS_TURN_READY_BITS;
	of->ready_ns = 0;
	turn->from_ns = now;
	turn->to_ns = turn->ran_us = 0;
	r->turn_ran_ns = on_cpu_ns(task, now);
	turn->awaited = awaited;
	turn->tid = task->pid;
	r->turn = actor;
	r->turn_number = of->next++;
	r->runs_at = runs_at;
}

/*
 * An actor is made, and is ready at once. What the actor has done that made it counts as its own first turn, since that
 * one's turn began; or what the thread has done since `began_ns`, if it runs no actor.
 */
static __always_inline void turn_born(struct task_struct *task, __u64 actor, __u64 began_ns)
{
	struct wait_ring *r = bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 now = bpf_ktime_get_ns(), awaited = 0;
	struct ws_turns *of = turns_of(actor, task->tgid);
	struct ws_turn *turn;
	__u32 before = 0;

	if (!r || !of)
		return;
	turn = turn_of_thread(r, task);
	if (turn) {
		began_ns = turn->from_ns;
		before = turn->before;
		awaited = turn->awaited;
	}
	turns_become(of, actor, task->tgid);
	of->ready_ns = now;
	if (!began_ns)
		return;
	turn = turn_at(of, of->next++);
	turn->from_ns = began_ns;
	turn->to_ns = now;
	turn->ran_us = 0;
	turn->awaited = awaited;
	turn->tid = task->pid;
	turn->before = before;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tasks of Python's asyncio, also on uvloop, are actors of one thread. A task inherits from its creator. The loop reads
 * sockets in callbacks. A callback passes the bytes to a task by settling a future. The task that waited for the future
 * then acts for the request that the callback has read. There is one exception: a task whose own request is not
 * answered yet has waited for something else, such as a free connection. A future that another task settles is only a
 * signal. A task without a cause stands for its thread (cause/trust.h).
 *
 * uvloop may read the first request of a connection before the task that was made for it runs. The task then finds the
 * request without waiting. The callback that makes the task also begins to read; this shows which request belongs to
 * that task.
 *
 * A callback has ended when the next one begins. uvloop reads before that, so the exit from the callback's context
 * counts as its end, too. src/runtime/asyncio.rs finds the functions. The offsets are those of builds with the
 * interpreter's lock, and a task is trusted only if its birth was seen.
 *
 * Long because all probes of the program share the state of a callback.
 */
#ifndef WS_ASYNCIO_H
#define WS_ASYNCIO_H

#include "contract.h"

#define PY_HEADER 16	      /* struct PyObject: a wrapper's task follows it */
#define PY_TUPLE 24	      /* struct PyTupleObject: where its items begin */
#define PY_FUTURE_CALLBACK 24 /* struct FutureObj: its loop, its first callback */
#define PY_METHOD_SELF 24     /* struct PyCFunctionObject */
#define PY_PARTIAL_ARGS 24    /* partialobject of functools: the arguments */
#define UV_STREAM_FD 184      /* struct uv_stream_s of libuv 1: io_watcher.fd */

/* The place of a task that was woken by an answer, and of one that works for any task that asks it. */
enum { ASYNCIO_READER = 1, ASYNCIO_WORKER = 2 };

#include "answers.h"
#include "callbacks.h"

/* turns.h, while waits are asked for. */
int asyncio_turn_begins(__u64 id, bool stepped);
int asyncio_turn_ends(void);
int asyncio_turn_due(__u64 future);
int asyncio_turn_born(__u64 id);

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct asyncio_facts);
} asyncio_facts SEC(".maps");

/* Tasks that were made for a new connection, by its socket: its first request may come before they wait for it. */
WS_TABLE(first_tasks, __u64, __u64);

/* Whether the end of each callback of this thread's loop is seen. */
static __always_inline bool asyncio_is_seen(const struct task_state *t)
{
	return t->thread_runtimes >> WS_ASYNCIO_TASK & 1;
}

/*
 * A task without a cause stands for its thread; but no worker does, for the trust in the thread is learnt from its
 * calls.
 */
static __always_inline bool asyncio_stands_for_thread(const struct attribution *c)
{
	return !c->cause && c->place != ASYNCIO_WORKER;
}

static __always_inline void asyncio_born(struct task_state *t, struct asyncio_thread *l, struct actor_key *key,
					 __u64 task)
{
	struct carrier_key future = { .object = task, .pid = key->pid };
	struct attribution *from = actor_running(t, key), born = {};

	if (from) {
		drop_if_superseded(from);
		inherit(&born, from, WS_EV_COROUTINE);
		if (!born.cause && (from->cause || from->guess || from->evidence == WS_EV_INFERRED))
			born.evidence = WS_EV_INFERRED;
	} else if (l->fresh && l->read_for) {
		born.cause = l->read_for;
		born.evidence = WS_EV_COROUTINE;
		born.state = is_provisional(born.cause) ? ACTS_LENT : ACTS_OWN;
		born.bound = l->fresh == CARRIED_BY_REQUEST;
	} else if (!l->fresh && l->made_for) { /* by call_soon() or a timer */
		born.cause = l->made_for;
		born.evidence = WS_EV_COROUTINE;
		born.state = ACTS_LENT;
	} else if (l->fresh || (asyncio_is_seen(t) && t->loop)) { /* by a callback, for a connection that is new */
		born.evidence = WS_EV_INFERRED;
	}
	if (!t->runs)
		l->born = task;
	key->id = task;
	key->kind = WS_ASYNCIO_TASK;
	actor_born_with(key, &born);
	actor_drop(&future); /* of an older future at this address */
}

/* A task that may be older than its probes. Whether it acts for a request or waits for work is not known. */
static __always_inline struct attribution *asyncio_found(struct actor_key *key)
{
	struct attribution unknown = { .evidence = WS_EV_INFERRED };

	table_put(&actors, key, &unknown, BPF_NOEXIST);
	return actor_find(key);
}

/*
 * Whether a task of this type waits for this future, as the first to do so (`key`). The future's callback is a method
 * of that task, or its wrapper.
 */
static __always_inline bool asyncio_waits(struct actor_key *key, __u64 type, __u64 future)
{
	__u64 callback = user_word(future + PY_FUTURE_CALLBACK);

	key->kind = WS_ASYNCIO_TASK;
	key->id = user_word(callback + PY_METHOD_SELF);
	if (!type || user_word(key->id + PY_TYPE) != type)
		key->id = user_word(callback + PY_HEADER);
	return type && user_word(key->id + PY_TYPE) == type;
}

/* The task that waits for this future. */
static __always_inline struct attribution *asyncio_waiter(struct actor_key *key, __u64 running, __u64 future)
{
	return asyncio_waits(key, user_word(running + PY_TYPE), future) ? asyncio_found(key) : NULL;
}

/*
 * Whether a gather(), a group or a task waits for the end of this task. Such a task is a part of the request for which
 * it was made. If it wakes another task, it passes a lock, an event or a connection, no work. The end of a worker is
 * not awaited.
 */
static __always_inline bool asyncio_awaited(__u64 task)
{
	return user_word(task + PY_FUTURE_CALLBACK) != 0;
}

/* One task wakes another. */
static __always_inline void asyncio_passed(struct task_state *t, struct actor_key *key, __u64 future)
{
	struct attribution *from, *to;
	bool other, over, gives;

	from = actor_running(t, key);
	if (!from)
		return;
	drop_if_superseded(from);
	to = asyncio_waiter(key, t->runs, future);
	other = to && to->cause != from->cause;
	over = is_over(from);
	if (from->place == ASYNCIO_READER)
		gives = over || (other && to->cause && !asyncio_awaited(t->runs));
	else
		gives = from->state == ACTS_LENT && other && (over || to->cause) && !asyncio_awaited(t->runs);
	if (to && to != from && other && to->cause && !to->bound && is_over(to))
		actor_pass_cause(to, 0, WS_EV_INFERRED, PASS_OWN);
	/*
	 * The task works for other requests than the one for which it was made: perhaps a worker that was made when
	 * first needed. Or it gave back a lock.
	 */
	if (gives && from->cause && !is_provisional(from->cause)) {
		actor_pass_cause(from, 0, WS_EV_INFERRED, PASS_OWN);
		from->place = ASYNCIO_WORKER;
	}
}

static __always_inline void asyncio_settled(struct task_state *t, struct asyncio_thread *l, struct actor_key *key,
					    __u64 object)
{
	struct carrier_key future = { .object = object, .pid = key->pid };
	struct carried value = { .cause = l->read_for, .by = l->fresh };

	if (t->runs)
		asyncio_passed(t, key, object);
	if (value.by && !t->runs) {
		l->future_type = user_word(object + PY_TYPE);
		actor_carry(&future, &value);
	} else {
		actor_drop(&future);
	}
}

/*
 * Whether a task awaits this one (`key`), directly or by wait_for() until Python 3.11: functools.partial(release,
 * future of the other).
 */
static __always_inline bool asyncio_has_superior(struct actor_key *key, __u64 task)
{
	__u64 type = user_word(task + PY_TYPE);

	return asyncio_waits(key, type, task) ||
	       asyncio_waits(key, type,
			     user_word(user_word(user_word(task + PY_FUTURE_CALLBACK) + PY_PARTIAL_ARGS) + PY_TUPLE));
}

/*
 * The task that awaits this one, or else this one: a task that wait_for() makes is a part of the task that called it.
 * A function of its own, because its callers have little stack.
 */
__noinline __u64 asyncio_superior(__u32 pid, __u64 task)
{
	struct actor_key key = { .pid = pid };

	return asyncio_has_superior(&key, task) ? key.id : task;
}

static __always_inline void asyncio_woken(const struct actor_key *task, struct attribution *c,
					  const struct carrier_key *future)
{
	struct carried *got = actor_carried(future);
	struct actor_key key = *task;
	struct attribution *other;
	__u64 cause;
	bool free, reader, worker;
	__u8 by;

	if (!got)
		return;
	cause = got->cause;
	by = got->by;
	actor_drop(future);
	if (cause && cause == c->cause)
		return;
	free = !c->cause || (is_over(c) && !c->bound);
	/* A task without a cause of its own that an answer has woken before reads answers for other tasks. */
	reader = by == CARRIED_BY_ANSWER && c->place == ASYNCIO_READER;
	if (by == CARRIED_BY_REQUEST && (is_provisional(c->cause) || socket_of(cause) == socket_of(c->cause)))
		free = true;
	if (!free && !reader)
		return;
	worker = by == CARRIED_BY_ANSWER && c->place == ASYNCIO_WORKER;
	actor_pass_cause(c, cause, cause ? WS_EV_COROUTINE : WS_EV_INFERRED,
			 is_provisional(cause) ? PASS_LENT : PASS_OWN);
	if (by == CARRIED_BY_ANSWER)
		c->place = cause ? ASYNCIO_READER : worker ? ASYNCIO_WORKER : 0;
	/* The task was made only to read the request: the task that awaits it acts for that, too. */
	other = by == CARRIED_BY_REQUEST && asyncio_has_superior(&key, task->id) ? asyncio_found(&key) : NULL;
	if (other && other != c && (!other->cause || is_over(other)))
		actor_pass_cause(other, cause, WS_EV_COROUTINE, PASS_OWN);
}

static __always_inline void asyncio_reads(struct task_struct *task, const struct task_state *t,
					  const struct asyncio_thread *l, __u64 stream)
{
	__u64 made = l->born, inode, sk;
	__u32 fd = 0;

	if (!made || t->runs || bpf_probe_read_user(&fd, sizeof(fd), (void *)(stream + UV_STREAM_FD)))
		return;
	sk = (__u64)sock_of_fd(task, fd, &inode);
	if (sk)
		table_remember(&first_tasks, &sk, &made);
}

/* The first request of a connection is read: the task that was made for the connection acts for it. */
static __always_inline void asyncio_first(__u64 sk, __u64 request, __u32 pid)
{
	struct actor_key key = { .pid = pid, .kind = WS_ASYNCIO_TASK };
	__u64 *id = table_find(&first_tasks, &sk);
	struct attribution *c;

	if (!id)
		return;
	key.id = *id;
	table_drop(&first_tasks, &sk);
	c = actor_find(&key);
	if (c && !c->cause)
		actor_pass_cause(c, request, WS_EV_COROUTINE, PASS_OWN);
}

static __always_inline void asyncio_before_message(struct task_struct *task, const struct task_state *t,
						   struct sock_state *s, struct attribution *a, __u8 direction)
{
	if (s->request_direction != WS_INGRESS) {
		if (direction == WS_EGRESS) {
			drop_if_superseded(a);
			s->by_task = t->actor != 0;
		}
		return;
	}
	if (direction == WS_INGRESS && s->exchange <= 1)
		asyncio_first(t->socket, exchange_id(s), task->tgid);
	note_progress(s, direction);
}

/*
 * A callback of the loop has read a request (`c->exchange`), or the answer to one (`c->id`). `wakes`: the bytes only
 * wake the loop, as another thread has something for it. If no task has asked itself, the cause of the answer is an
 * opinion about the thread. It stays one: the task that goes on with the answer does not take it.
 */
static __always_inline void asyncio_after_message(struct task_struct *task, const struct task_state *t,
						  const struct sock_state *s, const struct cause *c, bool wakes)
{
	struct asyncio_thread *l = bpf_task_storage_get(&asyncio_threads, task, 0, 0);
	bool begins = brings_work(s);
	struct actor_key key = { .pid = task->tgid };
	struct attribution *reader;

	if (!l || (begins && wakes))
		return;
	if (t->runs) { /* a task without a cause reads for itself: Tornado, sock_recv() */
		reader = begins ? actor_running(t, &key) : NULL;
		if (reader && !reader->cause && reader->place != ASYNCIO_WORKER)
			actor_pass_cause(reader, c->exchange, WS_EV_COROUTINE, PASS_OWN);
		return;
	}
	l->fresh = begins ? CARRIED_BY_REQUEST : c->id || c->evidence == WS_EV_INFERRED ? CARRIED_BY_ANSWER : 0;
	l->read_for = begins ? c->exchange : s->by_task ? c->id : 0;
}

SEC("uprobe.multi")
int WS_UPROBE(asyncio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid, .kind = WS_ASYNCIO_TASK };
	struct asyncio_thread *l;
	struct carrier_key future = { .pid = task->tgid };
	struct attribution *c;
	bool known;
	__u64 point = bpf_get_attach_cookie(ctx);

	if (!t)
		return 0;
	l = bpf_task_storage_get(&asyncio_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!l)
		return 0;
	if (point == ASYNCIO_CALLBACK || point == ASYNCIO_LEFT) {
		t->thread_runtimes |= 1U << WS_ASYNCIO_TASK;
		if (t->runs)
			return 0;
		l->fresh = l->born = l->made_for = 0;
		l->began_ns = waits_on ? bpf_ktime_get_ns() : 0;
		if (point == ASYNCIO_CALLBACK && t->runs_kind == WS_ASYNCIO_TASK)
			asyncio_called(WS_FN_ARG1(ctx), WS_FN_ARG2(ctx), WS_FN_ARG3(ctx));
		return 0;
	}
	if (!asyncio_is_seen(t) && point != ASYNCIO_BORN) /* the other half was not found */
		return 0;
	switch (point) {
	case ASYNCIO_BORN:
		asyncio_born(t, l, &key, WS_FN_ARG1(ctx));
		if (waits_on)
			asyncio_turn_born(WS_FN_ARG1(ctx));
		return 0;
	case ASYNCIO_SETTLED:
		if (t->shares)
			asyncio_brings(WS_FN_ARG1(ctx), l->fresh == CARRIED_BY_ANSWER);
		if (waits_on)
			asyncio_turn_due(WS_FN_ARG1(ctx));
		asyncio_settled(t, l, &key, WS_FN_ARG1(ctx));
		return 0;
	case ASYNCIO_END:
		if (waits_on)
			asyncio_turn_ends();
		actor_runs(t, WS_ASYNCIO_TASK, 0);
		return 0;
	case ASYNCIO_READS:
		asyncio_reads(task, t, l, WS_FN_ARG1(ctx));
		return 0;
	case ASYNCIO_STEP:
		key.id = user_word(WS_FN_ARG1(ctx) + PY_HEADER);
		break;
	case ASYNCIO_WAKE:
		key.id = WS_FN_ARG1(ctx);
		future.object = WS_FN_ARG2(ctx);
		break;
	case ASYNCIO_WRAPPED:
		key.id = user_word(WS_FN_ARG1(ctx) + PY_HEADER);
		future.object = user_word(WS_FN_ARG2(ctx) + PY_TUPLE);
		break;
	}
	c = actor_find(&key);
	known = c;
	if (!c && point == ASYNCIO_WAKE)
		c = asyncio_found(&key);
	if (c && future.object) {
		if (t->shares)
			asyncio_brought(future.object, key.id);
		asyncio_woken(&key, c, &future);
	}
	if (waits_on)
		asyncio_turn_begins(key.id, point == ASYNCIO_STEP);
	/* A task that was not known stands for its thread this time. */
	actor_runs(t, WS_ASYNCIO_TASK, c && (known || c->cause) ? key.id : 0);
	return 0;
}

#endif

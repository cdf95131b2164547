/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tasks of Python's asyncio, also on uvloop: what a goroutine is to Go, and in one thread. A context each, inherited from who makes
 * one. The loop reads sockets in callbacks of its own, which give what they have read to a task by way of a future: who waits for a
 * future that was settled by the very callback that read a request goes on for that request, unless it acts for another that is not
 * answered (then it waited for something else: a connection that became free). A future that another task settles says only that
 * something has happened. A task of which nothing is known stands for its thread, as all did without this (trust.h).
 *
 * uvloop may read the first request of a connection before the task runs that was made for it, which then finds the request without
 * waiting: the callback that makes the task also begins to read, which tells whose that request will be.
 *
 * That a callback ends is seen where the next one begins, or, as uvloop reads before, where it leaves its context. src/tls/asyncio.rs
 * finds the functions; the offsets are those of builds with the interpreter's lock, and a task is believed only if it was seen born.
 */
#ifndef WS_ASYNCIO_H
#define WS_ASYNCIO_H

#define PY_HEADER 16 /* struct PyObject: a wrapper's task follows it */
#define PY_TYPE 8
#define PY_TUPLE 24	      /* struct PyTupleObject: where its items begin */
#define PY_FUTURE_CALLBACK 24 /* struct FutureObj: its loop, its first callback */
#define PY_METHOD_SELF 24     /* struct PyCFunctionObject */
#define PY_PARTIAL_GIVEN 24   /* partialobject of functools: the arguments */
#define UV_STREAM_FD 184      /* struct uv_stream_s of libuv 1: io_watcher.fd */

enum asyncio_point {
	ASYNCIO_CALLBACK = 1, /* context_run(), PyContext_Exit() */
	ASYNCIO_BORN = 2,     /* Task.__init__(self, …) */
	ASYNCIO_SETTLED = 3,  /* set_result(self, …), set_exception, cancel of a future */
	ASYNCIO_STEP = 4,     /* TaskStepMethWrapper.__call__(self, …) */
	ASYNCIO_WAKE = 5,     /* task_wakeup(task, future) */
	ASYNCIO_WRAPPED = 6,  /* TaskWakeupMethWrapper.__call__(self, (future,), …), until Python 3.9 */
	ASYNCIO_END = 7,      /* the return of the last three */
	ASYNCIO_READS = 8,    /* uv_read_start(stream, …) */
};

static __always_inline void asyncio_born(struct task_state *t, struct actor_key *key, __u64 task)
{
	struct carrier_key future = { .object = task, .pid = key->pid };
	struct attribution *from = NULL, born = {};

	if (t->runs) {
		key->id = t->runs;
		from = bpf_map_lookup_elem(&actors, key);
	}
	if (from) {
		drop_if_superseded(from);
		inherit(&born, from, WS_EV_COROUTINE);
		if (!born.cause && (from->cause || from->guess || from->evidence == WS_EV_INFERRED))
			born.evidence = WS_EV_INFERRED;
	} else if (t->fresh && t->read_for) {
		born.cause = t->read_for;
		born.evidence = WS_EV_COROUTINE;
		born.state = is_provisional(born.cause) ? ACTS_LENT : ACTS_OWN;
	} else if (t->fresh || (t->callbacks && t->loop)) { /* by a callback, for a connection that is new */
		born.evidence = WS_EV_INFERRED;
	}
	if (!t->runs)
		t->born = task;
	key->id = task;
	remember(&actors, key, &born);
	bpf_map_delete_elem(&carriers, &future); /* what was a future at this address */
}

/* A task that may have been there before its probes: it may act for somebody, or wait for work. */
static __always_inline struct attribution *asyncio_found(struct actor_key *key)
{
	struct attribution unknown = { .evidence = WS_EV_INFERRED };

	bpf_map_update_elem(&actors, key, &unknown, BPF_NOEXIST);
	return bpf_map_lookup_elem(&actors, key);
}

/* The task that waits for this future, if it is the first to do so: its callback is a method of that task, or its wrapper. */
static __always_inline struct attribution *asyncio_waiter(struct actor_key *key, __u64 running, __u64 future)
{
	__u64 callback = user_word(future + PY_FUTURE_CALLBACK), type = user_word(running + PY_TYPE);

	key->id = user_word(callback + PY_METHOD_SELF);
	if (!type || user_word(key->id + PY_TYPE) != type)
		key->id = user_word(callback + PY_HEADER);
	if (!type || user_word(key->id + PY_TYPE) != type)
		return NULL;
	return asyncio_found(key);
}

/*
 * Somebody waits for the end of this task: a gather(), a group, another task. So it is a part of what it was made for, and whom it wakes
 * it has given a lock, an event or a connection. A worker has no end that anybody waits for.
 */
static __always_inline bool asyncio_awaited(__u64 task)
{
	return user_word(task + PY_FUTURE_CALLBACK) != 0;
}

/* One task wakes another. */
static __always_inline void asyncio_passed(struct task_state *t, struct actor_key *key, __u64 future)
{
	struct attribution *from, *to;

	key->id = t->runs;
	from = bpf_map_lookup_elem(&actors, key);
	if (!from)
		return;
	drop_if_superseded(from);
	to = asyncio_waiter(key, t->runs, future);
	/*
	 * It works for others than the request for which it was made, or has outlived it: perhaps a worker that was made when first
	 * needed. Or it gave back a lock.
	 */
	if ((from->state == ACTS_LENT || from->place == ASYNCIO_READER) && !is_provisional(from->cause) &&
	    from->cause &&
	    (is_over(from) || (to && to->cause && to->cause != from->cause && !asyncio_awaited(t->runs)))) {
		take(from, 0, WS_EV_INFERRED);
		from->place = ASYNCIO_WORKER;
	}
	if (to && to != from && to->cause && is_over(to))
		take(to, 0, WS_EV_INFERRED);
}

static __always_inline void asyncio_settled(struct task_state *t, struct actor_key *key, __u64 object)
{
	struct carrier_key future = { .object = object, .pid = key->pid };
	struct carried given = { .cause = t->read_for, .by = t->fresh };

	if (t->runs)
		asyncio_passed(t, key, object);
	if (given.by && !t->runs)
		remember(&carriers, &future, &given);
	else
		bpf_map_delete_elem(&carriers, &future);
}

/* Who waits for the end of this task, by itself or by wait_for() until Python 3.11: functools.partial(release, future of the other). */
static __always_inline struct attribution *asyncio_superior(struct actor_key *key, __u64 task)
{
	struct attribution *c = asyncio_waiter(key, task, task);

	return c ? c
		 : asyncio_waiter(
			   key, task,
			   user_word(user_word(user_word(task + PY_FUTURE_CALLBACK) + PY_PARTIAL_GIVEN) + PY_TUPLE));
}

static __always_inline void asyncio_woken(const struct actor_key *task, struct attribution *c,
					  const struct carrier_key *future)
{
	struct carried *got = bpf_map_lookup_elem(&carriers, future);
	struct actor_key key = *task;
	struct attribution *other;
	__u64 cause;
	bool free, reader, worker;
	__u8 by;

	if (!got)
		return;
	cause = got->cause;
	by = got->by;
	bpf_map_delete_elem(&carriers, future);
	if (cause && cause == c->cause)
		return;
	free = !c->cause || is_over(c);
	/* Who was woken by an answer before, and acts for nobody else, reads answers for others. */
	reader = by == CARRIED_BY_ANSWER && c->place == ASYNCIO_READER;
	if (by == CARRIED_BY_REQUEST && (is_provisional(c->cause) || socket_of(cause) == socket_of(c->cause)))
		free = true;
	if (!free && !reader)
		return;
	worker = by == CARRIED_BY_ANSWER && c->place == ASYNCIO_WORKER;
	take(c, cause, cause ? WS_EV_COROUTINE : WS_EV_INFERRED);
	if (is_provisional(cause))
		c->state = ACTS_LENT;
	if (by == CARRIED_BY_ANSWER)
		c->place = cause ? ASYNCIO_READER : worker ? ASYNCIO_WORKER : 0;
	/* It was made to read the request only. */
	other = by == CARRIED_BY_REQUEST ? asyncio_superior(&key, task->id) : NULL;
	if (other && other != c && (!other->cause || is_over(other)))
		take(other, cause, WS_EV_COROUTINE);
}

static __always_inline void asyncio_reads(struct task_struct *task, struct task_state *t, __u64 stream)
{
	__u64 made = t->born, inode, sk;
	__u32 fd = 0;

	if (!made || t->runs || bpf_probe_read_user(&fd, sizeof(fd), (void *)(stream + UV_STREAM_FD)))
		return;
	sk = (__u64)sock_of_fd(task, fd, &inode);
	if (sk)
		remember(&first_tasks, &sk, &made);
}

SEC("uprobe.multi")
int asyncio(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid };
	struct carrier_key future = { .pid = task->tgid };
	struct attribution *c;
	bool known;
	__u64 point = bpf_get_attach_cookie(ctx);

	if (!t)
		return 0;
	if (point == ASYNCIO_CALLBACK) {
		t->callbacks = 1;
		if (!t->runs)
			t->fresh = t->born = 0;
		return 0;
	}
	if (!t->callbacks && point != ASYNCIO_BORN) /* the other half was not found */
		return 0;
	switch (point) {
	case ASYNCIO_BORN:
		asyncio_born(t, &key, WS_FN_ARG1(ctx));
		return 0;
	case ASYNCIO_SETTLED:
		asyncio_settled(t, &key, WS_FN_ARG1(ctx));
		return 0;
	case ASYNCIO_END:
		t->runs = 0;
		return 0;
	case ASYNCIO_READS:
		asyncio_reads(task, t, WS_FN_ARG1(ctx));
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
	c = bpf_map_lookup_elem(&actors, &key);
	known = c;
	if (!c && point == ASYNCIO_WAKE)
		c = asyncio_found(&key);
	if (c && future.object)
		asyncio_woken(&key, c, &future);
	/* One that nothing was known of stands for its thread this time. */
	t->runs = c && (known || c->cause) ? key.id : 0;
	return 0;
}

#endif

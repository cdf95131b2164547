/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Several requests share one connection of tokio. Here each task that is made gets the name of its own request, and it
 * is told which task was woken by which answer.
 */
#ifndef WS_TOKIO_SHARED_H
#define WS_TOKIO_SHARED_H

/* The cause of a task that `from` makes: the next one of the requests that it has read from a shared connection. */
static __always_inline __u64 tokio_next_request(struct attribution *from)
{
	__u64 cause;

	if (!from->serves_many || from->cause || !from->guess || from->births == 255)
		return 0;
	from->births++;
	cause = by_order(from->guess, from->births);
	if (cause)
		tell_alias(cause, from->guess, WS_ALIAS_BORN);
	return cause;
}

/* The running task wakes another one, maybe with an answer that it has read for that one (cause/answer.h). */
__noinline int tokio_brings(struct task_state *t, __u64 to)
{
	struct actor_key key = { .kind = WS_TOKIO_TASK, .pid = bpf_get_current_task_btf()->tgid };
	struct answer brings = {};
	const struct attribution *c;

	if (!t || !t->runs || t->runs == to)
		return 0;
	key.id = t->runs;
	if (!answer_of(t, &key, t->actor == t->runs, &brings))
		return 0;
	key.id = to;
	c = actor_find(&key);
	return bring_answer(&key, &brings, c && c->takes_work ? BROUGHT_TO_READER : BROUGHT_TO_CHILD);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Node: after each message, updates the order of its turns, and whether it acts for a single frame.
 *
 * Timers run after what was read in the same turn of the loop, and any request may have set them. Node keeps all timers
 * behind one of the loop, so that nothing says which request it was.
 */
#ifndef WS_NODE_H
#define WS_NODE_H

#include "turns.h"
#include "http2.h"

static __always_inline void node_after_message(struct task_struct *task, struct task_state *t, struct sock_state *s,
					       struct attribution *a, const struct cause *c, __u32 bits)
{
	struct node_thread *n = bpf_task_storage_get(&node_threads, task, 0, 0);
	bool sent = bits & MESSAGE_SENT;

	if (!n)
		return;
	if (n->turn && (!sent || bits & MESSAGE_FIRST))
		node_message(n, s, c->exchange, sent);
	/* If frames are delivered one at a time, treat a read of a plain socket the same way. */
	if (!sent && n->frames && a == &t->acts)
		a->framed = a->cause != 0;
}

/* Environment::RunTimers(handle) */
SEC("uprobe.multi")
int WS_UPROBE(node_timer)
{
	struct task_state *t = target_task(bpf_get_current_task_btf());

	if (t && t->acts.state <= ACTS_ANSWERED && !t->acts.authoritative)
		take_guess(&t->acts, by_rule(&t->acts) ? by_rule(&t->acts) : t->acts.guess);
	return 0;
}

#endif

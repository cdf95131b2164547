/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Who started a virtual thread of Java, which the machine keeps nowhere: who has made its object (allocation.h).
 *
 * A virtual thread that is about to wait (its read finds nothing, it connects), and a carrier that is woken, end what is known.
 * Who waits for a lock, and who goes on after that, is not seen: that is why the link counts as that of a child, which
 * the traces put on trial.
 */
#ifndef WS_VIRTUAL_BIRTH_H
#define WS_VIRTUAL_BIRTH_H

/* For which request the virtual thread that the current thread has mounted was made; 0 if that is not known. */
__noinline __u64 made_for(struct task_state *t)
{
	struct java_search *s = java_search();

	if (!t || !s || !t->facts.java.collections)
		return 0;
	s->object = user_word(user_word(t->java_thread + t->facts.java.current));
	return find_mark(t, s) ? s->found.cause : 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The creator of a virtual thread of Java, which the machine keeps nowhere: the thread that has made its object
 * (allocation.h).
 *
 * A virtual thread that is about to wait (its read finds nothing, it connects), and a carrier that is woken, end what
 * is known. A wait for a lock, and what goes on after it, are not seen: so the link counts as that of a child, which
 * the traces put on trial.
 */
#ifndef WS_VIRTUAL_BIRTH_H
#define WS_VIRTUAL_BIRTH_H

/* For which request the virtual thread that the current thread has mounted was made; 0 if that is not known. */
static __always_inline __u64 made_for(struct java_thread *j)
{
	struct java_search *s = java_search();

	if (!j || !s || !j->facts.collections)
		return 0;
	s->object = user_word(user_word(j->thread + j->facts.current));
	return find_mark(j, s) ? s->found.cause : 0;
}

#endif

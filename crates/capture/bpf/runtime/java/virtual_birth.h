/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The creator of a virtual thread of Java. The machine does not keep it; it is the thread that has made the object of
 * the virtual thread (allocation.h).
 *
 * The cause of a carrier's allocations is unknown after its virtual thread begins to wait (an empty read, a connect),
 * and after the carrier is woken. A wait for a lock is not seen, so the carrier may run another virtual thread
 * afterwards. Therefore the link counts as that of a child, which the solver puts on trial.
 */
#ifndef WS_VIRTUAL_BIRTH_H
#define WS_VIRTUAL_BIRTH_H

/*
 * The cause for which the mounted virtual thread of the current thread was made; 0 if it is not known. A loop starts
 * virtual threads for many requests, so what it has dealt with last says nothing.
 */
static __always_inline __u64 made_for(struct java_thread *j)
{
	struct java_search *s = java_search();

	if (!j || !s || !j->facts.collections)
		return 0;
	s->object = user_word(user_word(j->thread + j->facts.current));
	return find_mark(j, s) && !(s->found.bytes & WS_MARK_LOOP) ? s->found.cause : 0;
}

#endif

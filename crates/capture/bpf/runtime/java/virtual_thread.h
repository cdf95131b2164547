/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Java: a virtual thread acts for a request, not the thread that carries it. The machine's JavaThread shows the virtual
 * thread that a carrier has mounted. The C library keeps the JavaThread as a thread-local value; src/runtime/java/
 * learns its place. It is trusted only if that JavaThread refers back to this very thread.
 *
 * The collector may move objects, and update references one by one, while a thread is in a system call:
 *  - From Java 24 on, no object is read, because the id is in JavaThread. The two references (own thread, current
 *    thread) are only compared. Even that is not needed once the id of the platform thread is known; the id is noted
 *    only while the collector stops no threads.
 *  - Before Java 24, the id is read from the object. It is trusted if the collector stopped no threads before and after
 *    the read, and the reference is still the same. A concurrent collector keeps the old copy of an object until all
 *    references to it are updated.
 */
#ifndef WS_VIRTUAL_THREAD_H
#define WS_VIRTUAL_THREAD_H

#define VIRTUAL_UNKNOWN (~0ULL)

/* Whether the collector has stopped all threads. A thread in a system call cannot notice that by itself. */
static __always_inline bool is_collecting(const struct java_facts *m)
{
	__u8 byte;

	return bpf_probe_read_user(&byte, sizeof(byte), (void *)m->collecting) || byte;
}

/*
 * The id of the virtual thread that the current thread has mounted; 0 if there is none, VIRTUAL_UNKNOWN if it cannot be
 * read now.
 */
__noinline __u64 virtual_thread(struct java_thread *j)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 self, thread, slot, object, own, id = 0;
	const struct java_facts *m;

	if (!j)
		return 0;
	m = &j->facts;
	self = WS_THREAD_SELF(task);
	thread = user_word(self + m->thread);
	if (!thread)
		return 0;
	if (thread != j->thread) {
		if (user_word(user_word(thread + m->os_thread) + m->handle) != self)
			return 0;
		j->thread = thread;
		j->own = 0;
		j->allocator = 0;
		j->entry = 0;
		j->slot = j->root = 0;
	}
	if (!m->current)
		return 0;
	if (m->id) {
		id = user_word(thread + m->id);
		if (j->own)
			return id == j->own ? 0 : id;
	} else if (is_collecting(m)) {
		return VIRTUAL_UNKNOWN;
	}
	slot = user_word(thread + m->current);
	object = user_word(slot);
	own = user_word(user_word(thread + m->platform));
	if (m->id) {
		if (object != own)
			return id;
		if (!is_collecting(m))
			j->own = id;
		return 0;
	}
	id = user_word(object + m->id_in_object);
	if (is_collecting(m) || user_word(slot) != object)
		return VIRTUAL_UNKNOWN;
	return object == own ? 0 : id;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Java: a virtual thread, not the thread that carries it, acts for a request. Which one a carrier has mounted stands in the
 * machine's own JavaThread, which the C library keeps as a value of the thread; src/tls/java.rs learns where. It is believed
 * only if that JavaThread knows this very thread.
 *
 * A thread in a system call does not keep the collector from moving objects, and from updating the references to them one by
 * one. From Java 24 on nothing is read of an object: the id stands in JavaThread. Of the two references it matters only whether
 * they are equal, and not even that once a thread of the platform is known by its id, which is noted only while nothing
 * is stopped for the collector. Before Java 24, the id is read in the object, and believed if nothing was stopped before and
 * afterwards, and the reference was the same: where the collector works beside the program, it keeps what it has moved until
 * all references to it are updated.
 */
#ifndef WS_VIRTUAL_THREAD_H
#define WS_VIRTUAL_THREAD_H

#define VIRTUAL_UNKNOWN (~0ULL)

static __always_inline __u64 user_word(__u64 at)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)at);
	return word;
}

/* Whether the collector has stopped all threads; one that is in a system call is not seen to stop. */
static __always_inline bool is_collecting(const struct java_machine *j)
{
	__u8 byte;

	return bpf_probe_read_user(&byte, sizeof(byte), (void *)j->collecting) || byte;
}

/* The id of the virtual thread that the current thread has mounted; 0 if none, VIRTUAL_UNKNOWN if it cannot be told now. */
__noinline __u64 virtual_thread(struct task_state *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 self, thread, slot, object, own, id = 0;
	const struct java_machine *j;

	if (!t)
		return 0;
	j = &t->facts.java;
	self = WS_THREAD_SELF(task);
	thread = user_word(self + j->thread);
	if (!thread)
		return 0;
	if (thread != t->java_thread) {
		if (user_word(user_word(thread + j->os_thread) + j->handle) != self)
			return 0;
		t->java_thread = thread;
		t->java_own = 0;
		t->java_allocator = 0;
		t->java_entry = 0;
		t->java_slot = t->java_root = 0;
	}
	if (!j->current)
		return 0;
	if (j->id) {
		id = user_word(thread + j->id);
		if (t->java_own)
			return id == t->java_own ? 0 : id;
	} else if (is_collecting(j)) {
		return VIRTUAL_UNKNOWN;
	}
	slot = user_word(thread + j->current);
	object = user_word(slot);
	own = user_word(user_word(thread + j->platform));
	if (j->id) {
		if (object != own)
			return id;
		if (!is_collecting(j))
			t->java_own = id;
		return 0;
	}
	id = user_word(object + j->id_in_object);
	if (is_collecting(j) || user_word(slot) != object)
		return VIRTUAL_UNKNOWN;
	return object == own ? 0 : id;
}

#endif

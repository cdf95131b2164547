/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The place of a task on the stack of a Java thread. A task is made by the thread that hands it over, whichever thread
 * takes it from a queue. So its address shows the cause (allocation.h). A thread that runs tasks does so in a loop
 * among its first frames, so the place on the stack is the same for each task.
 *
 * The place is learnt. The candidates are words that are addresses of objects made by another thread since this thread
 * was born; the newest object is the task. Objects made for the thread itself are older, and so are queues.
 */
#ifndef WS_JAVA_PLACE_H
#define WS_JAVA_PLACE_H

#define JAVA_STACK_BYTES 8192 /* searched once for the first frame of Java, behind data of the C library */
#define JAVA_NO_ENTRY 1
#define JAVA_LOOKED_AT 10  /* addresses that are looked at in a piece of JAVA_FIRST_FRAMES bytes */
#define JAVA_LOOP_PIECES 3 /* an event loop has more frames before that of its task */
#define JAVA_PAUSE 32	   /* longest pause between searches that find nothing, in sends */
#define JAVA_LOOP_PAUSE 8  /* longest pause of a loop, whose searches are cheap: they look at few marks */
#define JAVA_LATEST 256	   /* marks that are searched for a loop: its tasks were made shortly before */

/* Finds where the first frame of Java begins on the stack. The machine enters that frame by a stub of its own. */
__noinline int find_entry(struct java_thread *j)
{
	struct java_search *s = java_search();
	__u64 base, at;
	int i;

	if (!j || !s)
		return 0;
	j->entry = JAVA_NO_ENTRY;
	base = user_word(j->thread + j->facts.stack);
	for (int piece = 1; piece <= JAVA_STACK_BYTES / JAVA_FIRST_FRAMES; piece++) {
		at = base - piece * JAVA_FIRST_FRAMES;
		if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)at))
			return 0;
		i = last_word(s, j->facts.entry);
		if (i >= 0) {
			j->entry = at + 8 * i;
			return 0;
		}
	}
	return 0;
}

/* Whether there is a mark for this object, made since the thread was born. */
static __always_inline bool is_made(struct java_thread *j, struct java_search *s, __u64 object)
{
	if (!in_heap(j, object) || object & 7)
		return false;
	s->object = object;
	return find_mark(j, s) && (__s32)(s->found.tick - j->born) > 0;
}

/*
 * Whether a mark shows the cause of a task. What a loop makes when it has read an answer is for the request of that
 * call. If a worker sends the calls, the worker's last task has told which request that is: one wrong task would be the
 * cause of all that follow.
 */
static __always_inline bool shows_cause(const struct java_thread *j, const struct allocation *mark)
{
	return mark->cause && mark->bytes & WS_MARK_OWN && (j->loop || !(mark->bytes & WS_MARK_ANSWERS));
}

/* Whether a thread has made this object since then, for a request that it had read. */
static __always_inline bool is_task(struct java_thread *j, struct java_search *s, __u64 object)
{
	return is_made(j, s, object) && shows_cause(j, &s->found);
}

/* The same as is_made() for a task that the collector has moved. `all` belongs to its process. */
static __always_inline bool has_moved(struct java_thread *j, struct allocations *all, struct java_search *s)
{
	if (!in_heap(j, j->task))
		return false;
	s->object = j->task;
	return find_moved(j, all) && (__s32)(s->found.tick - j->born) > 0;
}

/*
 * The address of an object in word `i` of a piece of a stack; 0 if the word is none, or repeats the last address. At
 * most `most` addresses of each piece are looked at.
 */
static __always_inline __u64 next_object(struct java_thread *j, struct java_search *s, __u32 i, __u32 most)
{
	__u64 word;

	if (i >= JAVA_WORDS || s->looked_at >= most)
		return 0;
	word = s->words[i];
	if (word == s->last || !in_heap(j, word))
		return 0;
	s->last = word;
	s->looked_at++;
	return word;
}

/* Nothing was found. Doubles the pause before the next search. */
static __always_inline void look_later(__u8 *pause, __u8 *wait, __u32 most)
{
	if (*pause < most)
		*pause = 2 * *pause + 1;
	*wait = *pause;
}

/*
 * Takes the object in this word of the stack as the task if it is newer than the best one so far. It is a function for
 * one word, and the loop that calls it has no early exit: Linux 6.1 accepts no other form.
 */
__noinline int look_at_word(struct java_thread *j, struct java_search *s, __u32 i)
{
	__u64 word;

	if (!j || !s)
		return 0;
	word = next_object(j, s, i, JAVA_LOOKED_AT);
	if (!word || !is_made(j, s, word))
		return 0;
	if (j->loop ? s->found.buffer != j->thread && (!s->slot || s->age < s->best_age)
		    : shows_cause(j, &s->found) && (!s->slot || (__s32)(s->found.tick - s->best.tick) > 0)) {
		s->best = s->found;
		s->best_age = s->age;
		j->task = word;
		s->slot = s->above + JAVA_FIRST_FRAMES - 8 * i;
	}
	return 0;
}

/* Searches the stack for the place of the task. Returns it, or 0. */
__noinline int find_slot(struct java_thread *j, struct java_search *s)
{
	__u32 most = JAVA_PAUSE, pieces = 1;

	if (!j || !s)
		return 0;
	s->slot = 0;
	if (j->wait) {
		j->wait--;
		return 0;
	}
	if (j->loop) {
		most = JAVA_LOOP_PAUSE;
		pieces = JAVA_LOOP_PIECES;
		s->most = JAVA_LATEST;
	}
	for (__u32 piece = 0; piece < JAVA_LOOP_PIECES && piece < pieces; piece++) {
		s->above = piece * JAVA_FIRST_FRAMES;
		s->last = s->looked_at = 0;
		if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)(j->entry - s->above - JAVA_FIRST_FRAMES)))
			break;
		for (int i = JAVA_WORDS - 1; i >= 0; i--)
			look_at_word(j, s, i);
	}
	s->most = 0;
	if (s->slot) {
		j->pause = 0;
		return s->slot;
	}
	look_later(&j->pause, &j->wait, most);
	return 0;
}

/* Whether the thread still runs the task that it ran at the last look. */
static __always_inline bool same_task(struct java_thread *j)
{
	if (!j->task || user_word(j->entry - j->slot) != j->task)
		return false;
	return collections_now(&j->facts) == j->collections;
}

/* The thread acts for the cause of its task from now on; 0: not known. `by` has the flags of the mark that shows it. */
static __always_inline void take_task(struct java_thread *j, __u64 cause, __u32 by)
{
	j->task_for = cause;
	j->task_by = by;
	take(&j->job, cause, !cause ? WS_EV_INFERRED : j->loop || by & WS_MARK_LOOP ? WS_EV_CHILD : WS_EV_COROUTINE);
	j->job.state = cause ? ACTS_LENT : ACTS_OWN;
	j->job.authoritative = 1;
}

#endif

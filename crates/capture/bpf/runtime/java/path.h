/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The cause of a worker whose task was made by an event loop. The task itself shows no request, but an object to which
 * it refers indirectly does. An example is the JDK's HTTP client: its loop lets a worker ask the object of a connection
 * for more to send, and that object refers to what the thread of the request has put there.
 *
 * A path is two fields: one of the task, which leads to the object in between, and one of that object, which leads to
 * an object made for the request. It is learnt for each class of tasks: it leads to the newest object that a thread has
 * made for a request which it had read. Unlike a place on the stack, a path does not change when methods are compiled.
 */
#ifndef WS_JAVA_PATH_H
#define WS_JAVA_PATH_H

#define JAVA_PATH_PAUSE 255  /* longest pause between searches that find nothing, in sends */
#define JAVA_PATH_EARLY 8192 /* number of marks up to which a process counts as young */
#define JAVA_EARLY_PAUSE 7   /* longest pause in a young process */
#define JAVA_PATH_MARKS 2048 /* marks that are searched: the object was made shortly before it is sent */

enum work { WORK_IS_ELSEWHERE, WORK_FOUND, WORK_MAY_HAVE_MOVED };

/*
 * Path of a class of tasks. `first` and `second` are numbers of fields behind the word of the class. `other` is the
 * next best choice for `second`. `seen` counts hits less misses.
 */
struct java_path {
	__u8 first;
	__u8 second;
	__u8 other;
	__u8 seen;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct java_class_key);
	__type(value, struct java_path);
} java_paths SEC(".maps");

/* Whether a thread has made this object for a request that it had read. */
static __always_inline bool is_work(struct java_thread *j, struct java_search *s, __u64 object)
{
	if (!in_heap(j, object) || object & 7)
		return false;
	s->object = object;
	return find_mark(j, s) && s->found.cause && (s->found.bytes & WS_MARK_FLAGS) == WS_MARK_OWN;
}

/* The object to which a field refers. References have four bytes, and are shifted if the heap is large. */
static __always_inline __u64 reference(const struct java_thread *j, __u64 object, __u32 field)
{
	__u64 narrow = (__u32)user_word(object + JAVA_CLASS + 4 + 4 * field);

	return narrow << (j->facts.heap_to > 1ULL << 32 ? 3 : 0);
}

/*
 * Finds the newest object on the stack that a loop has made; of two with the same age, the one in the later frame. It
 * is a function for one word, and the loop that calls it has no early exit: Linux 6.1 accepts no other form.
 */
__noinline int look_at_root(struct java_thread *j, struct java_search *s, __u32 i)
{
	__u64 word;

	if (!j || !s)
		return 0;
	word = next_object(j, s, i, JAVA_LOOKED_AT);
	if (!word || word & 7)
		return 0;
	s->object = word;
	if (!find_mark(j, s) || !(s->found.bytes & WS_MARK_LOOP) || (s->slot && s->age > s->best_age))
		return 0;
	s->best_age = s->age;
	s->root = word;
	s->slot = JAVA_FIRST_FRAMES - 8 * i;
	return 0;
}

/*
 * Follows field `field` of the object s->root, and finds the fields of that object which lead to objects made for a
 * request. Returns the number, from 1, of the field with the newest object; in the upper half that of another such
 * field. Of objects behind the same mark, the one with the highest address is the newest.
 */
__noinline int look_behind(struct java_thread *j, struct java_search *s, __u32 field)
{
	__u32 shift = j && j->facts.heap_to > 1ULL << 32 ? 3 : 0, second = 0, other = 0;
	__u64 object;

	if (!j || !s)
		return 0;
	object = reference(j, s->root, field);
	if (!in_heap(j, object) || bpf_probe_read_user(s->fields, sizeof(s->fields), (void *)(object + JAVA_CLASS + 4)))
		return 0;
	for (int i = 0; i < (int)(sizeof(s->fields) / sizeof(s->fields[0])); i++) {
		object = (__u64)s->fields[i] << shift;
		if (!is_work(j, s, object))
			continue;
		if (second && (s->age > s->best_age || (s->age == s->best_age && object < s->last))) {
			other = i + 1;
			continue;
		}
		other = second;
		second = i + 1;
		s->best_age = s->age;
		s->last = object;
	}
	return second | other << 16;
}

static __always_inline void learn_path(struct java_thread *j, struct java_search *s, const struct java_path *new)
{
	struct java_class_key class = class_of(s->root);
	struct java_path *path = bpf_map_lookup_elem(&java_paths, &class);
	struct allocations *all;
	bool same = path && path->first == new->first && (path->second == new->second || path->second == new->other);

	if (!path || (!path->seen && !same)) {
		bpf_map_update_elem(&java_paths, &class, new, BPF_ANY);
	} else if (!same) {
		path->seen--;
	} else {
		path->other = path->second == new->second ? new->other : new->second;
		if (path->seen < JAVA_SURE && ++path->seen == JAVA_SURE) {
			all = allocations_of(class.pid, 0);
			if (all)
				all->sent_by_others = 1;
		}
	}
}

/* Learns a path from the first frames of a worker that is about to send. */
__noinline int find_path(struct java_thread *j, struct java_search *s)
{
	struct java_path new = { .seen = 1 };
	__u32 second = 0, first;

	if (!j || !s)
		return 0;
	if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)(j->entry - JAVA_FIRST_FRAMES)))
		return 0;
	s->slot = s->above = s->last = s->looked_at = 0;
	s->most = JAVA_LATEST;
	for (int i = JAVA_WORDS - 1; i >= 0; i--)
		look_at_root(j, s, i);
	s->most = JAVA_PATH_MARKS;
	for (first = 0; s->slot && first < sizeof(s->fields) / sizeof(s->fields[0]) && !second; first++)
		second = look_behind(j, s, first);
	s->most = 0;
	if (!second)
		return 0;
	new.first = first - 1;
	new.second = (second & 0xffff) - 1;
	new.other = second >> 16 ? (second >> 16) - 1 : new.second;
	learn_path(j, s, &new);
	return 1;
}

/*
 * Follows the path of this object, if its class has one. Returns enum work, and the mark of the object at its end in
 * s->found. If that object has often no known cause, or was sent before, the path is wrong. This is no longer tested
 * once the path was right often enough.
 */
__noinline int follow_path(struct java_thread *j, struct java_search *s, __u64 root)
{
	struct java_class_key class;
	struct java_path *path;
	__u64 object;

	if (!j || !s || !in_heap(j, root) || root & 7)
		return 0;
	class = class_of(root);
	path = bpf_map_lookup_elem(&java_paths, &class);
	if (!path || path->seen < JAVA_SURE)
		return WORK_IS_ELSEWHERE;
	root = reference(j, root, path->first);
	object = reference(j, root, path->second);
	s->object = object;
	if (!is_work(j, s, object)) {
		object = reference(j, root, path->other);
		if (path->other == path->second || !is_work(j, s, object)) {
			path->seen--;
			return WORK_MAY_HAVE_MOVED;
		}
	}
	if (path->seen < JAVA_SURER && !is_first_run(j, object)) {
		path->seen--;
		return WORK_MAY_HAVE_MOVED;
	}
	path->seen += path->seen < JAVA_SURER;
	return WORK_FOUND;
}

/* The same for a word of the stack, if no path was found yet. A function for one word, as look_at_root(). */
__noinline int try_path(struct java_thread *j, struct java_search *s, __u32 i)
{
	__u64 word;
	int found;

	if (!j || !s || s->slot)
		return 0;
	word = next_object(j, s, i, JAVA_LOOKED_AT);
	if (!word)
		return 0;
	found = follow_path(j, s, word);
	if (found) {
		j->root = s->slot = JAVA_FIRST_FRAMES - 8 * i;
		s->work = found;
	}
	return 0;
}

/* Looks for a path in the first frames: first in the place where one began before, then anywhere. Returns enum work. */
__noinline int look_at_paths(struct java_thread *j)
{
	struct java_search *s = java_search();
	int found;

	if (!j || !s)
		return 0;
	found = j->root ? follow_path(j, s, user_word(j->entry - j->root)) : WORK_IS_ELSEWHERE;
	if (found)
		return found;
	s->slot = s->work = s->last = s->looked_at = 0;
	if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)(j->entry - JAVA_FIRST_FRAMES)))
		return 0;
	for (int i = JAVA_WORDS - 1; i >= 0; i--)
		try_path(j, s, i);
	return s->work;
}

#endif

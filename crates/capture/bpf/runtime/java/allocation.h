/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Finds the cause for which a Java object was made, by the address of the object.
 *
 * A thread allocates objects from a buffer of its own, at rising addresses. Each message of the thread makes a mark:
 * the cause of the thread from now on, and the current address in the buffer. The newest mark below an object in the
 * same buffer names the cause of the object. If the buffer is newer than the last mark of its thread, that mark applies
 * to the whole buffer.
 *
 * The collector moves objects and reuses addresses, so marks are valid until the next collection. A copying collector
 * leaves a forwarding pointer in each object until the place is used again. On a miss, the objects behind the last
 * marks are searched for such pointers, once per collection, and the causes of the moved objects are noted.
 *
 * Long because marks, and the objects that have moved since they were made, are one search.
 */
#ifndef WS_ALLOCATION_H
#define WS_ALLOCATION_H

#define WS_ALLOCATORS \
	256 /* known threads of a process that read requests or carry virtual threads: new ones replace old ones */
#define WS_MARKS 1024
#define WS_MARK_OWN 1  /* the thread has read the request itself (lengths are of whole words, so low bits are free) */
#define WS_MARK_LOOP 2 /* the thread is a loop of events */
#define WS_MARK_ANSWERS 4 /* it is a loop that reads only answers to calls */
#define WS_MARK_FLAGS 7U

struct allocation {
	__u64 from;
	__u64 cause; /* 0: not known */
	__u32 bytes; /* bytes to the end of the buffer, and WS_MARK_* */
	__u32 tick;
	__u64 buffer; /* in the entry of a thread: start of its buffer; in a mark: JavaThread that owns the buffer */
};

/*
 * Marks of a process, in chunks from number 1 on. Chunk 0 has an entry for each thread instead: its JavaThread (`from`)
 * and its last mark.
 */
struct allocations {
	__u32 collections; /* number of collections; this field and the next ones are used in chunk 0 only */
	__u32 first;	   /* number of the first mark since the last collection */
	__u32 next;
	__u32 allocators;
	__u32 task_slot;      /* place of the task on the stacks of workers; 0: not known */
	__u32 loop_slot;      /* place of the task on the stacks of event loops; 0: not known */
	__u32 moved;	      /* number of marks before `first` that are still to be searched for moved objects */
	__u32 asked;	      /* not 0 once an object was looked up */
	__u32 sent_by_others; /* not 0 once a path (path.h) is trusted */
	__u8 loops;	      /* event loops allocate, too */
	__u8 path_pause;      /* length of the pause after the next search for a path that fails */
	__u8 path_wait;	      /* searches that are still left out */
	struct allocation marks[WS_MARKS];
};

/* User space removes processes that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct allocations_key);
	__type(value, struct allocations);
} java_allocations SEC(".maps");

struct allocations no_allocations; /* too large for the stack */

static __always_inline struct allocations *allocations_of(__u32 pid, __u32 chunk)
{
	struct allocations_key key = { .pid = pid, .chunk = chunk };

	return bpf_map_lookup_elem(&java_allocations, &key);
}

/* Called only within a message: before Linux 6.1, a program of a wake-up may not allocate map entries. */
static __noinline int make_allocations(struct java_thread *j, __u32 pid)
{
	struct allocations *all;

	for (__u32 chunk = 0; chunk <= WS_MARK_CHUNKS; chunk++) {
		struct allocations_key key = { .pid = pid, .chunk = chunk };

		bpf_map_update_elem(&java_allocations, &key, &no_allocations, BPF_NOEXIST);
	}
	all = allocations_of(pid, 0);
	if (all)
		j->allocator = 1 + __sync_fetch_and_add(&all->allocators, 1) % WS_ALLOCATORS;
	return 0;
}

static __always_inline void add_mark(struct allocations *all, __u32 pid, const struct allocation *new, __u64 to)
{
	__u32 at = __sync_fetch_and_add(&all->next, 1);
	struct allocations *chunk = allocations_of(pid, 1 + at / WS_MARKS % WS_MARK_CHUNKS);
	struct allocation *mark;

	if (!chunk)
		return;
	mark = &chunk->marks[at % WS_MARKS];
	*(volatile __u32 *)&mark->bytes = 0; /* so that a look-up meanwhile does not match this mark */
	mark->from = new->from;
	mark->cause = new->cause;
	mark->tick = new->tick;
	mark->buffer = new->buffer;
	*(volatile __u32 *)&mark->bytes = ((__u32)(to - new->from) & ~WS_MARK_FLAGS) | (new->bytes &WS_MARK_FLAGS);
}

static __always_inline void follow_collections(struct allocations *all, __u32 collections)
{
	__u32 next = all->next;

	if (all->collections == collections)
		return;
	/* After a second collection, the forwarding pointers of the first one are gone. */
	all->moved = collections - all->collections == 1 ? next - all->first : 0;
	all->first = next;
	all->collections = collections;
}

static __always_inline bool in_heap(const struct java_thread *j, __u64 address)
{
	return address >= j->facts.heap_from && address < j->facts.heap_to;
}

/*
 * Whether marks are made in vain. If each thread handles its own requests, no object is ever looked up. Then no more
 * marks are made until one is. Objects made in between are unknown, because the last marks would name a wrong cause.
 */
static __always_inline bool is_in_vain(const struct allocations *all)
{
	return !all->asked && all->next >= WS_MARKS;
}

static __always_inline void ask(struct allocations *all)
{
	if (is_in_vain(all)) {
		all->first = all->next;
		all->moved = 0;
		for (int i = 0; i < WS_ALLOCATORS; i++)
			all->marks[i].from = 0;
	}
	all->asked = 1;
}

/* This thread of the current process allocates for this cause from now on; 0: the cause is not known. */
__noinline int allocates_for(struct java_thread *j, __u64 cause, __u32 own)
{
	__u32 pid = bpf_get_current_task_btf()->tgid, collections, at;
	const struct java_facts *m;
	struct allocations *all;
	struct allocation *thread, mark = {};
	__u64 buffer, start, to;

	if (!j || !j->thread || !j->facts.collections)
		return 0;
	m = &j->facts;
	if (!j->allocator)
		make_allocations(j, pid);
	all = allocations_of(pid, 0);
	if (!all || !j->allocator || is_in_vain(all))
		return 0;
	buffer = j->thread + m->buffer;
	start = user_word(buffer + m->buffer_start);
	mark.from = user_word(buffer + m->buffer_top);
	to = user_word(buffer + m->buffer_end);
	if (bpf_probe_read_user(&collections, sizeof(collections), (void *)m->collections))
		return 0;
	follow_collections(all, collections);
	/* A collection begins by taking the buffers away, one field after the other. */
	if (is_collecting(m) || mark.from < start || to < mark.from)
		start = mark.from = 0;
	at = (j->allocator - 1) % WS_ALLOCATORS;
	thread = &all->marks[at];
	if (start && thread->from == j->thread && thread->buffer != start) {
		struct allocation before = { .from = start,
					     .cause = thread->cause,
					     .bytes = thread->bytes,
					     .tick = thread->tick,
					     .buffer = j->thread };

		add_mark(all, pid, &before, to);
	}
	all->loops |= j->loop;
	mark.cause = cause;
	mark.bytes =
		(own ? WS_MARK_OWN : 0) | (j->loop ? WS_MARK_LOOP : 0) | (j->loop && !j->serves ? WS_MARK_ANSWERS : 0);
	mark.buffer = j->thread;
	mark.tick = bpf_ktime_get_ns() >> WS_MARK_TICK;
	thread->from = j->thread;
	*(volatile __u64 *)&thread->buffer =
		start; /* written before the cause, because a look-up reads the cause first */
	*(volatile __u64 *)&thread->cause = cause;
	thread->bytes = mark.bytes;
	thread->tick = mark.tick;
	if (mark.from)
		add_mark(all, pid, &mark, to);
	return 0;
}

/* Key of an object that has moved: its new address. */
struct moved_key {
	__u64 object;
	__u32 pid;
	__u32 collections;
};

WS_TABLE(java_moved, struct moved_key, struct allocation);

#define JAVA_MOVED_PIECES 6   /* pieces of nearly JAVA_FIRST_FRAMES bytes that are searched behind a mark */
#define JAVA_FILLER_MORE 1024 /* the memory of a buffer ends at most so many bytes behind the buffer */
#define JAVA_MOVED_MARKS 64   /* marks per round of the search */
#define JAVA_MOVED_ROUNDS 6
#define JAVA_MOVED_MOST 8000 /* objects noted; if the map dropped some, an older mark would claim their addresses */
#define JAVA_HAS_MOVED 3ULL  /* bits in the first word of an object, beside its new address */
#define JAVA_FIRST_FRAMES 640
#define JAVA_WORDS (JAVA_FIRST_FRAMES / 8)

struct java_class_key {
	__u32 pid;
	__u32 class;
};

/* State of a search. It is not on the stack, because the callers of these functions leave little room there. */
struct java_search {
	__u64 object;
	__u32 start_at;		 /* offset in JavaThread of the start of its buffer */
	__u32 end_at;		 /* offset in JavaThread of the end of its buffer */
	struct allocation found; /* the mark that names the cause of the object */
	__u32 most;		 /* number of marks to search; 0: all */
	__u32 age;		 /* number of marks made since that mark */
	__u32 best_age;
	struct allocation best; /* search of a stack (place.h): the mark of the newest object */
	__u64 root;		/* search for a path (path.h): the object at which it begins */
	__u32 work;		/* search for a path: enum work */
	__u64 last;
	__u32 above;
	__u32 looked_at;
	__u32 slot; /* place on the stack of the object found; 0: none */
	__u32 inner;
	struct moved_key moved;
	__u32 end;
	__u32 count;
	__u32 piece;
	__u32 noted;
	__u64 words[JAVA_WORDS];
	__u32 fields[8]; /* the first fields of an object */
};

/*
 * Each thread has a search of its own, because sk_msg programs and uprobes search, too, and may be preempted
 * (docs/preemption.md). An interrupt cannot start a second search on the same thread: the programs that it runs search
 * only if the thread is in futex() or writes to a pipe.
 */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct java_search);
} java_searches SEC(".maps");

static __always_inline struct java_search *java_search(void)
{
	return bpf_task_storage_get(&java_searches, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

#define JAVA_MARKS_AT_ONCE 64 /* divides WS_MARKS */

/* The first place of a word among those that were read, or -1. */
__noinline int first_word(struct java_search *s, __u64 word)
{
	if (!s)
		return -1;
	for (int i = 0; i < JAVA_WORDS; i++)
		if (s->words[i] == word)
			return i;
	return -1;
}

/* The last place of a word among those that were read, or -1. */
__noinline int last_word(struct java_search *s, __u64 word)
{
	if (!s)
		return -1;
	for (int i = JAVA_WORDS - 1; i >= 0; i--)
		if (s->words[i] == word)
			return i;
	return -1;
}

/* Finds the newest mark whose part of a buffer contains the object, among the `count` marks before number `end`. */
static __always_inline int nearest_mark(struct allocations *chunk, struct java_search *s, __u32 end, __u32 count)
{
	__u64 object = s->object;

	for (__u32 i = 0; i < JAVA_MARKS_AT_ONCE && i < count; i++) {
		const struct allocation *mark = &chunk->marks[(end - 1 - i) % WS_MARKS];

		if (mark->from <= object && object - mark->from < (mark->bytes & ~WS_MARK_FLAGS)) {
			s->found = *mark;
			s->age += i;
			return 1;
		}
	}
	return 0;
}

/* Whether the buffer of this thread, behind its marks, contains the object. */
__noinline int buffer_holds(struct allocations *all, struct java_search *s, __u32 i)
{
	struct allocation *thread;

	if (!all || !s || i >= WS_ALLOCATORS)
		return 0;
	thread = &all->marks[i];
	if (!thread->from)
		return 0;
	s->found.cause = *(volatile __u64 *)&thread->cause;
	s->found.bytes = thread->bytes;
	s->found.tick = thread->tick;
	s->found.buffer = thread->from;
	s->found.from = user_word(thread->from + s->start_at);
	return s->object >= s->found.from && s->object < user_word(thread->from + s->end_at);
}

/* The same for buffers without a mark: their threads have sent and read nothing since they got the buffer. */
static __always_inline int nearest_buffer(struct allocations *all, struct java_search *s)
{
	for (__u32 i = 0; i < WS_ALLOCATORS && i < all->allocators; i++) {
		struct allocation *thread = &all->marks[i];

		if (!buffer_holds(all, s, i))
			continue;
		/* In the buffer of the thread's last mark, the object is older than the thread's first mark. */
		return *(volatile __u64 *)&thread->buffer != s->found.from &&
		       *(volatile __u64 *)&thread->cause == s->found.cause;
	}
	return 0;
}

static __always_inline __u32 collections_now(const struct java_facts *m)
{
	__u32 collections = 0;

	bpf_probe_read_user(&collections, sizeof(collections), (void *)m->collections);
	return collections;
}

/*
 * Whether this object is the filler: an array with which the collector fills the unused rest of a buffer. The memory
 * behind its header still has old content. The length of the array is in one of three places, depending on how the
 * machine stores classes.
 */
static __always_inline bool is_filler(__u64 at, __u64 end, const __u64 *words)
{
	__u64 left = end - at;

	if ((words[0] & 7) != 1)
		return false;
	return (words[1] >> 32) * 4 + 16 - left <= JAVA_FILLER_MORE ||
	       (words[2] & 0xffffffff) * 4 + 24 - left <= JAVA_FILLER_MORE ||
	       (words[1] & 0xffffffff) * 4 + 12 - left <= JAVA_FILLER_MORE;
}

/*
 * Notes the object at one word behind a mark if it has moved. Stops at the end of the used part of the buffer. A global
 * function, so that the verifier checks it once.
 */
__noinline int note_moved_word(struct java_thread *j, __u32 i)
{
	struct java_search *s = java_search(); /* before Linux 6.2 no key is read where an argument points */

	if (!j || !s || i >= JAVA_WORDS - 2)
		return 0;
	/* Memory behind the buffer belongs to another thread. */
	if (s->piece + 8 * i >= (s->found.bytes & ~WS_MARK_FLAGS) ||
	    is_filler(s->found.from + s->piece + 8 * i, s->found.from + (s->found.bytes & ~WS_MARK_FLAGS),
		      s->words + i)) {
		s->piece = s->found.bytes;
		return 0;
	}
	s->moved.object = s->words[i] - JAVA_HAS_MOVED;
	/* BPF_NOEXIST: a later mark of the same buffer has noted the object already, and is right. */
	if (s->noted < JAVA_MOVED_MOST && !(s->moved.object & 7) && in_heap(j, s->moved.object))
		s->noted += !table_put(&java_moved, &s->moved, &s->found, BPF_NOEXIST);
	return 0;
}

/* Notes the moved objects of one piece of memory behind a mark. */
__noinline int note_moved(struct java_thread *j, struct java_search *s)
{
	if (!j || !s)
		return 0;
	if (s->piece >= s->found.bytes ||
	    bpf_probe_read_user(s->words, sizeof(s->words), (void *)(s->found.from + s->piece)))
		return 0;
	for (int i = 0; i < JAVA_WORDS - 2; i++)
		note_moved_word(j, i);
	s->piece += sizeof(s->words) - 16;
	return 1;
}

/* Notes the moved objects behind the `count` marks before number `end`. */
__noinline int note_moved_of(struct java_thread *j, struct allocations *chunk, struct java_search *s)
{
	if (!j || !chunk || !s)
		return 0;
	for (__u32 i = 0; i < JAVA_MOVED_MARKS && i < s->count; i++) {
		const struct allocation *mark = &chunk->marks[(s->end - 1 - i) % WS_MARKS];

		if (!mark->cause || !(mark->bytes & WS_MARK_OWN))
			continue;
		s->found = *mark;
		s->piece = 0;
		for (int piece = 0; piece < JAVA_MOVED_PIECES; piece++)
			note_moved(j, s);
	}
	return 0;
}

/* Whether the cause of an object that has moved is known (s->found). */
__noinline int find_moved(struct java_thread *j, struct allocations *all)
{
	struct java_search *s = java_search();
	struct allocations *chunk;
	struct allocation *mark;

	if (!j || !all || !s || is_collecting(&j->facts))
		return 0;
	s->moved.pid = bpf_get_current_task_btf()->tgid;
	s->moved.collections = all->collections;
	s->end = all->first;
	s->noted = 0;
	for (__u32 i = 0; i < JAVA_MOVED_ROUNDS && all->moved; i++) {
		s->count = s->end % JAVA_MOVED_MARKS ?: JAVA_MOVED_MARKS;
		if (s->count > all->moved)
			s->count = all->moved;
		chunk = allocations_of(s->moved.pid, 1 + (s->end - 1) / WS_MARKS % WS_MARK_CHUNKS);
		if (!chunk)
			break;
		note_moved_of(j, chunk, s);
		s->end -= s->count;
		all->moved -= s->count;
	}
	all->moved = 0;
	s->moved.object = s->object;
	mark = table_find(&java_moved, &s->moved);
	if (mark)
		s->found = *mark;
	return mark != NULL;
}

/*
 * Looks for the object among the marks before number s->end, of which s->count are left, at most JAVA_MARKS_AT_ONCE.
 * The verifier goes through a loop round by round, so this round of find_mark() is a function of its own.
 */
__noinline int find_next_mark(struct allocations *all, struct java_search *s)
{
	__u32 pid = bpf_get_current_task_btf()->tgid, count;
	struct allocations *chunk;
	int found;

	if (!all || !s)
		return 0;
	count = s->end % JAVA_MARKS_AT_ONCE ?: JAVA_MARKS_AT_ONCE;
	if (count > s->count)
		count = s->count;
	chunk = allocations_of(pid, 1 + (s->end - 1) / WS_MARKS % WS_MARK_CHUNKS);
	if (!chunk) {
		s->count = 0;
		return 0;
	}
	s->age = all->next - s->end;
	found = nearest_mark(chunk, s, s->end, count);
	s->end -= count;
	s->count -= count;
	return found;
}

/* Whether the cause of an object is known (s->found). */
__noinline int find_mark(struct java_thread *j, struct java_search *s)
{
	struct allocations *all = allocations_of(bpf_get_current_task_btf()->tgid, 0);
	int found = 0;

	if (!j || !s || !all)
		return 0;
	follow_collections(all, collections_now(&j->facts));
	if (!all->asked)
		ask(all);
	s->end = all->next;
	s->count = s->end - all->first;
	if (s->most && s->count > s->most)
		s->count = s->most;
	for (__u32 i = 0; i < WS_MARK_CHUNKS * (WS_MARKS / JAVA_MARKS_AT_ONCE) && s->count && !found; i++)
		found = find_next_mark(all, s);
	s->start_at = j->facts.buffer + j->facts.buffer_start;
	s->end_at = j->facts.buffer + j->facts.buffer_end;
	if (!found) {
		s->age = 0;
		found = nearest_buffer(all, s);
	}
	return found && all->collections == collections_now(&j->facts);
}

#endif

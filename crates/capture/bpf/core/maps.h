/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps, and the state that the programs keep in them. */
#ifndef WS_MAPS_H
#define WS_MAPS_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by user space */
} events SEC(".maps");

/* Processes of targets that are born, change their program or end: user space waits for these without polling. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} lives SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WS_C_MAX);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* Targets by process id (thread group id in the root pid namespace). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} target_pids SEC(".maps");

/* Targets by inode of the network namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} target_netns SEC(".maps");

/* Targets by cgroup v2 and its descendants. */
#define WS_MAX_CGROUPS 16
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, WS_MAX_CGROUPS);
	__type(key, __u32);
	__type(value, __u32);
} target_cgroups SEC(".maps");

/*
 * Puts an entry into an LRU map. Once such a map is full, the kernel first drops entries that were never looked up, as
 * new ones are: so the entry is looked up at once.
 */
static __always_inline long remember(void *map, const void *key, const void *value)
{
	long error = bpf_map_update_elem(map, key, value, BPF_ANY);

	if (!error)
		bpf_map_lookup_elem(map, key);
	return error;
}

/* A box for a table of the kind name##_table. */
#define WS_BOX(name)                                      \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); \
		__uint(max_entries, 1);                   \
		__type(key, __u32);                       \
		__array(values, struct name##_table);     \
	} name SEC(".maps")

/*
 * A large table that few hosts need: of a runtime, or of one kind of TLS. It is in a box. The box is empty until user
 * space puts a table into it, before the first probe or fact that needs the table. src/uprobe/tables.rs has the number
 * of entries. NAME_shape is never made: it tells user space the sizes.
 */
#define WS_TABLE(name, key_type, value_type)                                                            \
	struct name##_table {                                                                           \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);                                                    \
		__uint(max_entries, 1);                                                                 \
		__uint(key_size, sizeof(key_type)); /* clang only declares types that are named here */ \
		__uint(value_size, sizeof(value_type));                                                 \
	} name##_shape SEC(".maps");                                                                    \
	WS_BOX(name)

/* An array in a box, with as many entries as user space gives it (boxes::make_array()). User space may map it. */
#define WS_BOXED_ARRAY(name, value_type)                                                             \
	struct name##_table {                                                                        \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                    \
		__uint(max_entries, 1);                                                              \
		__uint(map_flags, BPF_F_INNER_MAP | BPF_F_MMAPABLE);                                 \
		__uint(key_size, sizeof(__u32)); /* clang only declares types that are named here */ \
		__uint(value_size, sizeof(value_type));                                              \
	};                                                                                           \
	WS_BOX(name)

static __always_inline void *table_in(void *box)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(box, &first);
}

static __always_inline void *table_find(void *box, const void *key)
{
	void *table = table_in(box);

	return table ? bpf_map_lookup_elem(table, key) : NULL;
}

static __always_inline long table_put(void *box, const void *key, const void *value, __u64 flags)
{
	void *table = table_in(box);

	return table ? bpf_map_update_elem(table, key, value, flags) : -ENOENT;
}

/* As remember(). */
static __always_inline long table_remember(void *box, const void *key, const void *value)
{
	void *table = table_in(box);

	return table ? remember(table, key, value) : -ENOENT;
}

static __always_inline void table_drop(void *box, const void *key)
{
	void *table = table_in(box);

	if (table)
		bpf_map_delete_elem(table, key);
}

/*
 * A record under construction. Message programs run in process context with preemption off (hold_processor()): one
 * record per processor is enough. A value of a per-CPU array is limited to 32 KiB, so this is an array with one entry
 * per processor.
 */
struct scratch {
	struct ws_data data;
	__u8 payload[2 * WS_MAX_PAYLOAD]; /* twice: the verifier bounds offset and length separately */
#ifdef WS_CHECKED_RECORDS
	__u64 owner; /* mark of the task that builds a record here; 0 if no task does */
#endif
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by user space */
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Set before load. */
const volatile __u32 default_bytes = 0;
const volatile __u32 young_bytes = 0;
#define WS_RUN_BYTES 131072 /* after so many bytes of a run, only the beginning of each further call is copied */
#define WS_CALL_BYTES 4096  /* length of that beginning */
const volatile __u32 cgroup_count = 0;
const volatile __u32 tick_ns = 0; /* of the kernel's coarse clock */
const volatile bool by_netns = false;
const volatile bool everything = false;
const volatile bool by_syscalls = false;
const volatile bool watch_lives = false;
const volatile bool waited_for =
	false; /* messages are not seen, so user space waits for records: the start of a program wakes it */
const volatile bool preemptible = false;	 /* programs of tracepoints may be: docs/preemption.md */
const volatile bool keep_streams = false;	 /* contexts are put into requests of HTTP/2 */
const volatile bool stack_is_shared = false;	 /* …and those of uprobes, whose stack belongs to the processor */
const volatile bool flows_by_syscalls = false;	 /* calls on connections are counted at the end of system calls */
const volatile bool flows_with_messages = false; /* programs of messages count for flows, too */
/* Changed at run time. */
__u32 target_generation; /* 1 before load */
__u32 verdict_epoch;
__u32 hooks_wanted; /* enum ws_hooks: user space attaches them */
__u64 next_socket_id;
__u64 next_provisional;
__u8 waits_on;	 /* waits are asked for */
bool flows_open; /* false until the self-test is over, whose sockets are no flows */

/* Atomic, because a program that is preempted between load and store would undo counts of others. */
static __always_inline void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* The same, but cheaper, for a program that cannot be preempted. */
static __always_inline void count_held(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		(*n)++;
}

#endif

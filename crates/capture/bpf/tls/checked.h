/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The check of core/checked.h for records of plaintext, and the control that gives these to the processor. */
#ifndef WS_TLS_CHECKED_H
#define WS_TLS_CHECKED_H

#ifndef WS_CHECKED_RECORDS

#define take_plaintext(k) ((void)0)
#define release_plaintext(k) ((void)0)
#define sign_plaintext(k, d, payload) ((void)0)

#else

static __always_inline void take_plaintext(struct tls_task *k)
{
	take_record(&k->owner);
}

static __always_inline void release_plaintext(struct tls_task *k)
{
	release_record(&k->owner);
}

/* `d` and `payload`: where the record is emitted from. */
static __always_inline void sign_plaintext(const struct tls_task *k, struct ws_data *d, const __u8 *payload)
{
	seal_record(d, payload);
	sign_record(d, &k->owner);
}

#endif

#ifndef WS_UNGUARDED_RECORDS

/* Where the record of a call is built: with the task. */
#define plaintext_place(k) (k)

#else

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tls_task);
} unguarded_plaintexts SEC(".maps");

/* Scratch of the processor, in a program that may be preempted: the mistake that the check is there to find. */
static __always_inline struct tls_task *plaintext_place(struct tls_task *k)
{
	__u32 first = 0;
	struct tls_task *place = bpf_map_lookup_elem(&unguarded_plaintexts, &first);

	if (!place)
		return k;
	place->buffer = k->buffer;
	return place;
}

#endif

#endif

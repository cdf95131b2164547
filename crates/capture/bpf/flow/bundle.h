/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Adds the due counts of a socket to a bundle. */
#ifndef WS_FLOW_BUNDLE_H
#define WS_FLOW_BUNDLE_H

/* Counts that are due: not in a bundle yet. */
struct flow_due {
	__u64 bytes[2];
	__u64 messages[2];
	__u32 opened;
	__u32 adopted;
	__u32 failed;
	__u32 closed;
	__u32 moved;
	__u32 retransmits;
	__u32 resets_sent;
	__u32 resets_received;
	__u32 zero_windows;
	__u32 out_of_order;
	__u32 listen_overflows;
	__u32 drop_reason;
	__u32 dropped;
	__u32 handshake_us; /* 0: none */
	__u32 srtt_us;	    /* 0: none */
	__u16 client_port;
};

static __always_inline __u32 log2_bucket(__u32 v)
{
	__u32 bucket = 0;

	if (v >= 1 << 16) {
		bucket += 16;
		v >>= 16;
	}
	if (v >= 1 << 8) {
		bucket += 8;
		v >>= 8;
	}
	if (v >= 1 << 4) {
		bucket += 4;
		v >>= 4;
	}
	if (v >= 1 << 2) {
		bucket += 2;
		v >>= 2;
	}
	bucket += v >> 1 & 1;
	return bucket < WS_LOG2_BUCKETS ? bucket : WS_LOG2_BUCKETS - 1;
}

static __always_inline void add_u32(__u32 *to, __u32 n)
{
	if (n)
		__sync_fetch_and_add(to, n);
}

static __always_inline void add_u64(__u64 *to, __u64 n)
{
	if (n)
		__sync_fetch_and_add(to, n);
}

static __always_inline void add_drop(struct ws_flow_counts *c, __u32 reason, __u32 n)
{
	for (int i = 0; i < WS_FLOW_DROPS; i++) {
		if (!c->drops[i].reason)
			__sync_val_compare_and_swap(&c->drops[i].reason, 0, reason);
		if (c->drops[i].reason == reason) {
			__sync_fetch_and_add(&c->drops[i].count, n);
			return;
		}
	}
	__sync_fetch_and_add(&c->other_drops, n);
}

static __always_inline void add_due(struct ws_flow_counts *c, const struct flow_due *d)
{
	for (int i = 0; i < 2; i++) {
		add_u64(&c->bytes[i], d->bytes[i]);
		add_u64(&c->messages[i], d->messages[i]);
	}
	add_u32(&c->opened, d->opened);
	add_u32(&c->adopted, d->adopted);
	add_u32(&c->failed, d->failed);
	add_u32(&c->closed, d->closed);
	add_u32(&c->moved, d->moved);
	add_u32(&c->retransmits, d->retransmits);
	add_u32(&c->resets_sent, d->resets_sent);
	add_u32(&c->resets_received, d->resets_received);
	add_u32(&c->zero_windows, d->zero_windows);
	add_u32(&c->out_of_order, d->out_of_order);
	add_u32(&c->listen_overflows, d->listen_overflows);
	if (d->dropped)
		add_drop(c, d->drop_reason, d->dropped);
	if (d->handshake_us)
		__sync_fetch_and_add(&c->handshake[log2_bucket(d->handshake_us)], 1);
	if (d->srtt_us)
		__sync_fetch_and_add(&c->srtt[log2_bucket(d->srtt_us)], 1);
	if (d->client_port)
		c->client_port = d->client_port;
}

static const struct ws_flow_counts no_counts;

/*
 * Counts a new bundle. Wakes user space when the table is half full, because an early drain is cheaper than bundles
 * that do not fit. A record that is discarded at once wakes the reader, too.
 */
static __always_inline void flow_made_one(void)
{
	struct ws_flow *nothing;

	if (__sync_fetch_and_add(&flow_made, 1) + 1 != flow_many)
		return;
	nothing = bpf_ringbuf_reserve(&flow_spills, sizeof(*nothing), 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

/* A global function, as others here, so that the verifier checks it once and not once per call. */
__noinline int flow_bundle(const struct ws_flow_key *from, const struct flow_owner *owner, const struct flow_due *d)
{
	struct ws_flow_counts *c;
	struct ws_flow *spill;
	struct ws_flow_key key;
	void *bundles;
	__u32 zero = 0;

	if (!from || !owner || !d)
		return 0;
	key = *from; /* before Linux 6.2, a map key cannot be in memory that an argument points to */
	bundles = bpf_map_lookup_elem(&flow_current, &zero);
	if (!bundles)
		return 0;
	c = bpf_map_lookup_elem(bundles, &key);
	if (!c) {
		bpf_map_update_elem(bundles, &key, &no_counts, BPF_NOEXIST);
		c = bpf_map_lookup_elem(bundles, &key);
		if (c) {
			c->cgroup_id = owner->cgroup_id;
			__builtin_memcpy(c->comm, owner->comm, WS_COMM_LEN);
			flow_made_one();
		}
	}
	if (c) {
		add_due(c, d);
		return 0;
	}
	spill = bpf_ringbuf_reserve(&flow_spills, sizeof(*spill), 0);
	if (!spill) {
		count(WS_C_LOST_FLOWS);
		return 0;
	}
	spill->key = key;
	__builtin_memset(&spill->counts, 0, sizeof(spill->counts));
	spill->counts.cgroup_id = owner->cgroup_id;
	__builtin_memcpy(spill->counts.comm, owner->comm, WS_COMM_LEN);
	add_due(&spill->counts, d);
	bpf_ringbuf_submit(spill, 0);
	count(WS_C_FLOWS_SPILLED);
	return 0;
}

#endif

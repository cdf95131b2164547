/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Messages of targets on connections, on kernels where only the address of the socket is known. */
#ifndef WS_FLOW_ADDRESS_H
#define WS_FLOW_ADDRESS_H

/*
 * Before Linux 6.3, a message is seen at the end of its system call, and only the address of the socket is known. State
 * can be found by that address for connections only, so datagrams are not counted.
 */
static __noinline int flow_call_by_address(__u64 address, __u8 direction, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sock *sk = (struct sock *)address;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow_slot *slot = NULL;
	struct flow_tcp now = {};
	struct flow_sock *f;
	__u64 cookie, seen;

	cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
	f = cookie ? flow_listed(cookie, &slot) : NULL;
	if (!f && cookie && flow_unlisted_tcp)
		f = bpf_map_lookup_elem(&flow_by_cookie, &cookie);
	if (!f)
		return 0;
	if (slot) {
		seen = slot->cookie;
		if (seen & FLOW_GOING)
			return 0;
		__sync_fetch_and_add(&slot->calls[direction & 1], 1);
		if (!(seen & FLOW_NEW))
			return 0;
	} else {
		__sync_fetch_and_add(&f->calls[direction & 1], 1);
	}
	if (!f->owned)
		flow_own(f, sk, task);
	if (!f->based || !slot) {
		flow_read_tcp(&now, sk, false);
		now.bytes[WS_EGRESS] += BPF_CORE_READ(tp, write_seq) - BPF_CORE_READ(tp, snd_nxt);
	}
	if (!f->based)
		flow_base_at(f, sk, &now, direction, ret);
	if (!slot) /* no sweep passes it, so each message goes into the bundle at once */
		flow_settle(f, &now, NULL, FLOW_LIVES);
	else if (f->owned && f->based)
		__sync_val_compare_and_swap(&slot->cookie, cookie | FLOW_NEW, cookie);
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Words of the current task's memory; 0 if they cannot be read. */
#ifndef WS_USER_H
#define WS_USER_H

static __always_inline __u64 user_word(__u64 at)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)at);
	return word;
}

static __always_inline __u32 user_int(__u64 at)
{
	__u32 n = 0;

	bpf_probe_read_user(&n, sizeof(n), (void *)at);
	return n;
}

#endif

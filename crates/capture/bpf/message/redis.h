/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Whether a command of Redis asks for elements of a list, a sorted set or a stream, on which its sender works then. The
 * same connection carries other commands, too, so the answer of user space about the connection is not enough, and an
 * answer about a single command would come after its reply was read.
 */
#ifndef WS_REDIS_H
#define WS_REDIS_H

/* The first eight letters of a name. The compiler makes a constant of it. */
#define REDIS_NAME(name) (*(const __u64 *)(name "\0\0\0\0\0\0\0"))
#define REDIS_CAPITALS (~0x2020202020202020ULL)

static __always_inline bool redis_takes(__u64 name)
{
	/* `takes_elements` in crates/model/src/broker.rs has the same names. */
	return name == REDIS_NAME("BLMOVE") || name == REDIS_NAME("BLMPOP") || name == REDIS_NAME("BLPOP") ||
	       name == REDIS_NAME("BRPOP") || name == REDIS_NAME("BRPOPLPU") || name == REDIS_NAME("BZMPOP") ||
	       name == REDIS_NAME("BZPOPMAX") || name == REDIS_NAME("BZPOPMIN") || name == REDIS_NAME("LMOVE") ||
	       name == REDIS_NAME("LMPOP") || name == REDIS_NAME("LPOP") || name == REDIS_NAME("RPOP") ||
	       name == REDIS_NAME("RPOPLPUS") || name == REDIS_NAME("XREAD") || name == REDIS_NAME("XREADGRO") ||
	       name == REDIS_NAME("ZMPOP") || name == REDIS_NAME("ZPOPMAX") || name == REDIS_NAME("ZPOPMIN");
}

/* `at` is the address of a command: `*3 $5 BRPOP …`, with line ends for the spaces. */
__noinline int redis_asks(__u64 at)
{
	__u32 length, name;
	char head[12] = {};

	if (!at || bpf_probe_read_user(head, sizeof(head), (void *)at) || head[0] != '*')
		return 0;
	length = head[4] == '$' ? 4 : head[5] == '$' ? 5 : head[6] == '$' ? 6 : head[7] == '$' ? 7 : 0;
	if (!length || bpf_probe_read_user(head, 6, (void *)(at + length)) || head[0] != '$')
		return 0;
	if (head[2] == '\r' && head[1] >= '1' && head[1] <= '9') {
		name = head[1] - '0';
		length += 4;
	} else if (head[3] == '\r') {
		name = 8;
		length += 5;
	} else {
		return 0;
	}
	return redis_takes(user_word(at + length) & REDIS_CAPITALS & (name < 8 ? (1ULL << name * 8) - 1 : ~0ULL));
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
#ifndef OTHERS_H
#define OTHERS_H

enum kind { RECEIVED = 0, SENT = 1, OPENED = 2 };

struct tuple {
	__u32 local;
	__u32 remote;
	__u16 local_port;
	__u16 remote_port;
	__u32 protocol;
};

struct event {
	struct tuple tuple;
	__u64 bytes;
	__u64 kind;
};

struct counts {
	__u64 opened;
	__u64 bytes[2];
};

#endif

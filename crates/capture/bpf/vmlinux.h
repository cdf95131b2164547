/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The kernel types that wirespan reads, each with only the fields it reads. CO-RE relocates every access, so order
 * and offsets here mean nothing; a field that a kernel lacks is guarded with bpf_core_field_exists() where it is used.
 * Long because all kernel types are listed in one place.
 */
#ifndef WS_VMLINUX_H
#define WS_VMLINUX_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u64 __be64;
typedef _Bool bool;
typedef int pid_t;

#define NULL ((void *)0)
#define true 1
#define false 0

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_SOCKHASH = 18,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_USER_STACK = 1U << 8,
	BPF_F_CLONE = 1U << 9,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_F_INNER_MAP = 1U << 12,
};

enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct netns_ipv4 {
	unsigned int sysctl_tcp_notsent_lowat;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
	struct hlist_head *dev_index_head;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	long counter;
} atomic64_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long counter;
} atomic_long_t;

struct page_counter {
	atomic_long_t usage;
	unsigned long max;
	struct page_counter *parent;
};

struct mem_cgroup {
	struct page_counter memory;
	struct page_counter tcpmem;
};

struct proto {
	atomic_long_t *memory_allocated;
	unsigned long *memory_pressure;
	long *sysctl_mem;
};

struct sock_common {
	struct proto *skc_prot;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned long skc_flags;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct socket;

struct sock {
	struct sock_common __sk_common;
	int sk_err;
	__u8 sk_shutdown;
	__u16 sk_protocol;
	__u16 sk_type;
	__u32 sk_max_ack_backlog;
	__u8 sk_userlocks;
	atomic_t sk_drops;
	int sk_sndbuf;
	int sk_wmem_queued;
	struct socket *sk_socket;
	struct mem_cgroup *sk_memcg;
};

struct inet_connection_sock {
	struct {
		__u32 lrcvtime;
	} icsk_ack;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 snd_wnd;
	__u32 rcv_ooopack;
	__u32 snd_una;
	__u64 tcp_clock_cache;
	__u64 tcp_wstamp_ns;
	__u32 srtt_us;
	__u64 bytes_received;
	__u64 bytes_acked;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 total_retrans;
	__u32 notsent_lowat;
};

struct inet_sock {
	__be16 inet_sport;
};

struct unix_address {
	int len;
};

struct unix_sock {
	struct unix_address *addr;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct Qdisc {
	struct qdisc_skb_head q;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	char name[16];
	int ifindex;
	possible_net_t nd_net;
	struct netdev_queue *_tx;
	struct hlist_node index_hlist;
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned int len;
	unsigned int data_len;
	char cb[48];
	__be16 protocol;
	__u16 queue_mapping;
	__u16 transport_header;
	__u16 network_header;
	__u16 mac_header;
	__u32 tail;
	unsigned char *head;
	unsigned char *data;
	unsigned long _nfct;
	int skb_iif;
};

union nf_inet_addr {
	__u32 all[4];
	__be32 ip;
};

union nf_conntrack_man_proto {
	__be16 all;
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
	__u16 l3num;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
	struct {
		union nf_inet_addr u3;
		union {
			__be16 all;
		} u;
		__u8 protonum;
	} dst;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u16 tcp_gso_segs;
};

enum iter_type { ITER_UBUF, ITER_IOVEC, ITER_BVEC };

struct bio_vec {
	unsigned int bv_offset;
};

struct io_mapped_ubuf {
	__u64 ubuf;
	unsigned int nr_bvecs;
	struct bio_vec bvec[0];
};

struct iovec {
	void *iov_base;
	unsigned long iov_len;
};

struct iov_iter {
	__u8 iter_type;
	unsigned long iov_offset;
	const struct iovec *__iov;
	const struct bio_vec *bvec;
	void *ubuf;
	unsigned long count;
};

struct msghdr {
	struct iov_iter msg_iter;
};

struct io_uring_task;

struct pt_regs {
#if defined(__TARGET_ARCH_x86)
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long cx;
	unsigned long bx;
	unsigned long sp;
	unsigned long bp;
	unsigned long ip;
	unsigned long r14;
	unsigned long ax;
	unsigned long orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	unsigned long long regs[31];
	unsigned long long sp;
	unsigned long long pc;
	int syscallno;
#endif
};

struct thread_info {
	__u32 status;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct nsproxy {
	struct net *net_ns;
};

struct signal_struct {
	atomic_t live;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
	unsigned int f_flags;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct socket {
	struct file *file;
	struct sock *sk;
};

struct list_head {
	struct list_head *next, *prev;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
};
#endif

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
};

struct cfs_bandwidth {
	__u64 throttled_time;
};

struct task_group {
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

struct mm_struct {
	unsigned long start_stack;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
#if defined(__TARGET_ARCH_x86)
	struct thread_struct thread;
#endif
	struct mm_struct *mm;
	pid_t pid;
	__u64 start_time; /* monotonic, in ns */
	pid_t tgid;
	unsigned int flags;
	struct io_uring_task *io_uring;
	struct task_struct *real_parent;
	struct list_head children;
	struct task_struct *group_leader;
	char comm[16];
	struct css_set *cgroups;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct files_struct *files;
	__u64 start_boottime;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_group *sched_task_group;
};

/* Before Linux 5.14. */
struct task_struct___old {
	long state;
};

struct linux_binprm;

#pragma clang attribute pop

struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));

/* Context of a cgroup's address hooks: the verifier's own layout, never relocated. */
struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
};

struct bpf_sock;

/* Context of programs in a socket map: what of it is used, at its place. */
struct sk_msg_md {
	void *data;
	void *data_end;
	__u32 unused[13];
	__u32 size;
	struct bpf_sock *sk;
};

/* Context of sockops programs, likewise. */
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 unused0[16];
	__u32 bpf_sock_ops_cb_flags;
	__u32 unused1[4];
	__u32 snd_nxt;
	__u32 unused2[19];
	struct bpf_sock *sk;
	void *skb_data;
	void *skb_data_end;
	__u32 skb_len;
};

_Static_assert(__builtin_offsetof(struct sk_msg_md, size) == 68, "the kernel's layout");
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, bpf_sock_ops_cb_flags) == 84, "the kernel's layout");
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, snd_nxt) == 104, "the kernel's layout");
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, sk) == 184, "the kernel's layout");

enum { SK_DROP = 0, SK_PASS = 1 };
enum {
	WS_OPS_ACTIVE_ESTABLISHED = 4,
	WS_OPS_PASSIVE_ESTABLISHED = 5,
	WS_OPS_PARSE_HDR = 13,
	WS_OPS_HDR_LEN = 14,
	WS_OPS_WRITE_HDR = 15,
};
enum { WS_OPS_FOR_MSS = 1 }; /* args[0] of HDR_LEN: how long may segments be? */
enum { WS_OPS_PARSE_ALL_FLAG = 1 << 4, WS_OPS_PARSE_UNKNOWN_FLAG = 1 << 5, WS_OPS_WRITE_FLAG = 1 << 6 };

/* User-space layouts of the system-call ABI: fixed, never relocated. */
struct user_iovec {
	__u64 base;
	__u64 len;
};

struct user_msghdr64 {
	__u64 name;
	__s32 namelen;
	__u32 pad0;
	__u64 iov;
	__u64 iovlen;
	__u64 control;
	__u64 controllen;
	__u32 flags;
	__u32 pad1;
};

struct user_mmsghdr64 {
	struct user_msghdr64 hdr;
	__u32 len;
	__u32 pad;
};

#endif

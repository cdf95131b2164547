/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Differences between architectures: system call numbers and argument registers. */
#ifndef WS_COMPAT_H
#define WS_COMPAT_H

#if defined(__TARGET_ARCH_x86)
#define NR_READ 0
#define NR_WRITE 1
#define NR_READV 19
#define NR_WRITEV 20
#define NR_SENDFILE 40
#define NR_SENDTO 44
#define NR_RECVFROM 45
#define NR_SENDMSG 46
#define NR_RECVMSG 47
#define NR_SPLICE 275
#define NR_RECVMMSG 299
#define NR_SENDMMSG 307
#define NR_FUTEX 202
#define NR_POLL 7
#define NR_SELECT 23
#define NR_PPOLL 271
#define NR_PSELECT6 270
#define NR_EPOLL_WAIT 232
#define NR_EPOLL_PWAIT 281
#define NR_EPOLL_PWAIT2 441
#define NR_IO_URING_ENTER 426
#define NR_NANOSLEEP 35
#define NR_CLOCK_NANOSLEEP 230
#define WS_NR(regs) ((int)(regs)->orig_ax)
#define WS_SP(regs) ((regs)->sp)
#define WS_IP(regs) ((regs)->ip)
#define WS_FP(regs) ((regs)->bp)
#define WS_LR(regs) 0
#define WS_ARG1(regs) ((regs)->di)
#define WS_ARG2(regs) ((regs)->si)
#define WS_ARG3(regs) ((regs)->dx)
#define WS_ARG4(regs) ((regs)->r10)
#define WS_ARG5(regs) ((regs)->r8)
#define WS_FN_ARG1(r) ((r)->di)
#define WS_FN_ARG2(r) ((r)->si)
#define WS_FN_ARG3(r) ((r)->dx)
#define WS_FN_ARG4(r) ((r)->cx)
#define WS_FN_ARG5(r) ((r)->r8)
#define WS_FN_ARG6(r) ((r)->r9)
#define WS_FN_RESULT(r) ((r)->ax)
#define WS_FN_RESULT2(r) ((r)->dx)
#define WS_GO_ARG1(r) ((r)->ax)
#define WS_GO_ARG2(r) ((r)->bx)
#define WS_GO_ARG3(r) ((r)->cx)
#define WS_GO_ARG4(r) ((r)->di)
#define WS_GO_G(r) ((r)->r14)
#define WS_COMPAT_TASK(task) ((task)->thread_info.status & 2 /* TS_COMPAT */)
#define WS_THREAD_SELF(task) ((task)->thread.fsbase) /* the C library's structure of the thread; set by clone() */
#elif defined(__TARGET_ARCH_arm64)
#define NR_READ 63
#define NR_WRITE 64
#define NR_READV 65
#define NR_WRITEV 66
#define NR_SENDFILE 71
#define NR_SPLICE 76
#define NR_SENDTO 206
#define NR_RECVFROM 207
#define NR_SENDMSG 211
#define NR_RECVMSG 212
#define NR_RECVMMSG 243
#define NR_SENDMMSG 269
#define NR_FUTEX 98
#define NR_POLL -2 /* does not exist */
#define NR_SELECT -3
#define NR_PPOLL 73
#define NR_PSELECT6 72
#define NR_EPOLL_WAIT -4
#define NR_EPOLL_PWAIT 22
#define NR_EPOLL_PWAIT2 441
#define NR_IO_URING_ENTER 426
#define NR_NANOSLEEP 101
#define NR_CLOCK_NANOSLEEP 115
#define WS_NR(regs) ((regs)->syscallno)
#define WS_SP(regs) ((regs)->sp)
#define WS_IP(regs) ((regs)->pc)
#define WS_FP(regs) ((regs)->regs[29])
#define WS_LR(regs) ((regs)->regs[30])
#define WS_ARG1(regs) ((regs)->regs[0])
#define WS_ARG2(regs) ((regs)->regs[1])
#define WS_ARG3(regs) ((regs)->regs[2])
#define WS_ARG4(regs) ((regs)->regs[3])
#define WS_ARG5(regs) ((regs)->regs[4])
#define WS_FN_ARG1(r) ((r)->regs[0])
#define WS_FN_ARG2(r) ((r)->regs[1])
#define WS_FN_ARG3(r) ((r)->regs[2])
#define WS_FN_ARG4(r) ((r)->regs[3])
#define WS_FN_ARG5(r) ((r)->regs[4])
#define WS_FN_ARG6(r) ((r)->regs[5])
#define WS_FN_RESULT(r) ((r)->regs[0])
#define WS_FN_RESULT2(r) ((r)->regs[1])
#define WS_GO_ARG1(r) ((r)->regs[0])
#define WS_GO_ARG2(r) ((r)->regs[1])
#define WS_GO_ARG3(r) ((r)->regs[2])
#define WS_GO_ARG4(r) ((r)->regs[3])
#define WS_GO_G(r) ((r)->regs[28])
#define WS_COMPAT_TASK(task) 0
#define WS_THREAD_SELF(task) \
	0UL /* not supported: it lies below the register at a distance that the C library chooses */
#else
#error "unsupported architecture"
#endif

#define PF_IO_WORKER 0x10
#define PF_KTHREAD 0x200000

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_SEQPACKET 5
#define MSG_PEEK 2
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_CLOSING 11
#define TCP_LISTEN 10
#define TCP_NEW_SYN_RECV 12
#define ENOENT 2
#define EINTR 4
#define E2BIG 7
#define EAGAIN 11
#define EEXIST 17
#define ECONNRESET 104
#define ERESTARTSYS 512

#endif

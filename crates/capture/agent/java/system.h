/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the kernel, and the instructions of a function that does nothing, by architecture. */
#ifndef AGENT_SYSTEM_H
#define AGENT_SYSTEM_H

#define SYSTEM_INTERRUPTED 4 /* EINTR */
#define OPEN_FLAGS 02004000  /* to read, without waiting for a writer, closed in programs that the process starts */
#define SET_FLAGS 4
#define HERE (-100L) /* AT_FDCWD */

#if defined(__x86_64__)
enum { SYSTEM_READ = 0, SYSTEM_CLOSE = 3, SYSTEM_FCNTL = 72, SYSTEM_OPENAT = 257 };
/* A `nop` of one byte, which every kernel emulates. Before Linux 6.18 it steps over a longer one, in 4 us. */
#define WATCHED_INSTRUCTIONS "nop\n\tret"

static long system_call(long number, long a, long b, long c, long d)
{
	register long fourth __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
enum { SYSTEM_READ = 63, SYSTEM_CLOSE = 57, SYSTEM_FCNTL = 25, SYSTEM_OPENAT = 56 };
#define WATCHED_INSTRUCTIONS "nop\n\tret"

static long system_call(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#else
#error "unsupported architecture"
#endif

/* Each returns a negative `errno` on failure. Reading from what this opens waits. */
static long system_open(const char *path)
{
	long file = system_call(SYSTEM_OPENAT, HERE, (long)path, OPEN_FLAGS, 0);

	if (file >= 0)
		system_call(SYSTEM_FCNTL, file, SET_FLAGS, 0, 0);
	return file;
}

static long system_read(long file, void *to, long n)
{
	return system_call(SYSTEM_READ, file, (long)to, n, 0);
}

static void system_close(long file)
{
	system_call(SYSTEM_CLOSE, file, 0, 0, 0);
}

#endif

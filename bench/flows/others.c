/*
 * The methods to compare bundles with. `others poll|stream|tuples|floor PORT OBJECT` runs until SIGTERM, then prints
 * the connections opened and bytes sent by clients, and the number of their peers.
 *
 * poll: the kernel's list of sockets (/proc/net/tcp, /proc/net/udp) once a second.
 * stream: an event for each connection and message, from a ring that is polled each millisecond.
 * tuples: counts for each five-tuple, drained once a second.
 * floor: programs that do nothing.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/types.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "others.h"

#define SLOTS (1 << 20)

static volatile sig_atomic_t stop;
static unsigned port;
static uint64_t opened, sent, peers, lost, seen;

static void on_term(int s)
{
	stop = 1;
}

/* A set of 64-bit values; true if new. */
static int add(uint64_t *set, uint64_t value)
{
	uint64_t at = value * 0x9e3779b97f4a7c15ull >> 44;

	while (set[at % SLOTS] && set[at % SLOTS] != value)
		at++;
	if (set[at % SLOTS])
		return 0;
	set[at % SLOTS] = value;
	return 1;
}

static uint64_t remotes[SLOTS], sockets[SLOTS];

/* Only the client's side is summed up: the other would count everything twice. */
static void take(const struct tuple *t, uint64_t n, uint64_t bytes)
{
	seen++;
	if (t->remote_port != port)
		return;
	opened += n;
	sent += bytes;
	peers += add(remotes, (uint64_t)t->remote << 16 | t->remote_port);
}

/* What is there before the load (TIME_WAIT of the run before) is only remembered. */
static void snapshot(const char *path, int counts)
{
	FILE *f = fopen(path, "r");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		struct tuple t = {};
		unsigned lp, rp, state;

		if (sscanf(line, " %*d: %x:%x %x:%x %x", &t.local, &lp, &t.remote, &rp, &state) != 5)
			continue;
		t.local_port = lp;
		t.remote_port = rp;
		/* A connection is counted when it is first seen; bytes are not in the list. */
		if (rp == port && add(sockets, (uint64_t)t.remote << 32 ^ (uint64_t)lp << 16 ^ rp) && counts)
			take(&t, 1, 0);
	}
	if (f)
		fclose(f);
}

static int on_event(void *ctx, void *data, size_t size)
{
	const struct event *e = data;

	take(&e->tuple, e->kind == OPENED, e->kind == SENT ? e->bytes : 0);
	return 0;
}

static void drain(int fd)
{
	static struct tuple keys[4096];
	static struct counts values[4096];
	__u32 n, at = 0, first = 1;

	do {
		n = 4096;
		int r = bpf_map_lookup_and_delete_batch(fd, first ? NULL : &at, &at, keys, values, &n, NULL);

		for (__u32 i = 0; i < n; i++)
			take(&keys[i], values[i].opened, values[i].bytes[SENT]);
		first = 0;
		if (r)
			break;
	} while (n);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

int main(int argc, char **argv)
{
	struct sigaction term = { .sa_handler = on_term };
	struct timespec second = { 1, 0 }, millisecond = { 0, 1000000 };
	struct bpf_object *o;
	struct bpf_program *p;
	struct bpf_map *m;
	struct ring_buffer *ring = NULL;
	int stream, table;

	if (argc != 4) {
		fprintf(stderr, "usage: %s poll|stream|tuples|floor PORT OBJECT\n", argv[0]);
		return 2;
	}
	port = atoi(argv[2]);
	sigaction(SIGTERM, &term, NULL);
	if (!strcmp(argv[1], "poll")) {
		snapshot("/proc/net/tcp", 0);
		fprintf(stderr, "tracing\n");
		while (!stop) {
			snapshot("/proc/net/tcp", 1);
			snapshot("/proc/net/udp", 1);
			nanosleep(&second, NULL);
		}
		goto end;
	}
	stream = !strcmp(argv[1], "stream");
	libbpf_set_print(quiet);
	o = bpf_object__open(argv[3]);
	if (!strcmp(argv[1], "floor")) {
		if (!o || bpf_object__load(o))
			return 1;
		bpf_object__for_each_program(p, o) if (!bpf_program__attach(p)) return 1;
		fprintf(stderr, "tracing\n");
		while (!stop)
			nanosleep(&second, NULL);
		goto end;
	}
	m = o ? bpf_object__find_map_by_name(o, ".rodata") : NULL;
	if (!m)
		return 1;
	size_t size;
	char *rodata = bpf_map__initial_value(m, &size);

	/* In the order of the source: port, stream. */
	*(__u16 *)rodata = port;
	rodata[2] = stream;
	if (!stream)
		bpf_map__set_max_entries(bpf_object__find_map_by_name(o, "events"), 4096);
	else
		bpf_map__set_max_entries(bpf_object__find_map_by_name(o, "tuples"), 1);
	if (bpf_object__load(o))
		return 1;
	bpf_object__for_each_program(p, o) if (!bpf_program__attach(p)) return 1;
	table = bpf_object__find_map_fd_by_name(o, "tuples");
	if (stream)
		ring = ring_buffer__new(bpf_object__find_map_fd_by_name(o, "events"), on_event, NULL, NULL);
	fprintf(stderr, "tracing\n");
	while (!stop) {
		if (stream)
			ring_buffer__consume(ring);
		else
			drain(table);
		nanosleep(stream ? &millisecond : &second, NULL);
	}
	if (stream)
		ring_buffer__consume(ring);
	else
		drain(table);
	m = bpf_object__find_map_by_name(o, ".bss");
	if (m)
		memcpy(&lost, bpf_map__initial_value(m, &size), sizeof(lost));
end:
	printf("{\"opened\":%lu,\"sent_bytes\":%lu,\"peers\":%lu,\"lost\":%lu,\"events\":%lu}\n", opened, sent, peers,
	       lost, seen);
	return 0;
}

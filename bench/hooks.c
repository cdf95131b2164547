/*
 * hooks OBJECT [PID]: loads and attaches OBJECT for PID, says so, reads its ring if it has one, and detaches at the end
 * of its input.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ignore(void *context, void *record, size_t length)
{
	return 0;
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc >= 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct ring_buffer *ring = NULL;
	struct bpf_program *program;
	struct bpf_map *map;
	size_t size;

	if (!object)
		return 1;
	map = bpf_object__find_map_by_name(object, ".bss");
	if (argc == 3 && map)
		*(unsigned *)bpf_map__initial_value(map, &size) = atoi(argv[2]);
	if (bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object)
	{
		if (!bpf_program__attach(program))
			return 1;
	}
	map = bpf_object__find_map_by_name(object, "events");
	if (map && !(ring = ring_buffer__new(bpf_map__fd(map), ignore, NULL, NULL)))
		return 1;
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 10) == 0) {
		if (ring)
			ring_buffer__consume(ring);
	}
	return 0;
}

/* Loads and attaches OBJECT, says so, and detaches when its input ends. */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *program;
	char byte;

	if (!object || bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object) {
		if (!bpf_program__attach(program))
			return 1;
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}

// What an SDK publishes for readers outside of its process (OTEP 4947): a thread-local variable with the address of a
// record that says in which span the thread is.
#include <stddef.h>

__attribute__((visibility("default"))) __thread const void *volatile otel_thread_ctx_v1;

__attribute__((visibility("default"))) const void *publish(const void *record)
{
	const void *before = otel_thread_ctx_v1;

	otel_thread_ctx_v1 = record;
	return before;
}

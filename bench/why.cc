// The server of bench/why that has OpenTelemetry's SDK for C++: as `serve` of why.c, a thread for each connection,
// whose requests run for WORK_US and then wait for the thread of a log that runs for half of that. A request has a span
// of the server and one for each of these two.
//
// usage: why-sdk WORK_US [OTLP_URL SHARE]    prints its port
//
// Without OTLP_URL, the calls of the API do nothing. SHARE of the traces is sampled, as in the paper.
#include <arpa/inet.h>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <netinet/tcp.h>
#include <opentelemetry/exporters/otlp/otlp_http_exporter_factory.h>
#include <opentelemetry/exporters/otlp/otlp_http_exporter_options.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/batch_span_processor_factory.h>
#include <opentelemetry/sdk/trace/batch_span_processor_options.h>
#include <opentelemetry/sdk/trace/processor.h>
#include <opentelemetry/sdk/trace/samplers/trace_id_ratio_factory.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/sdk/trace/tracer_provider_factory.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>
#include <queue>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace trace = opentelemetry::trace;
namespace sdk = opentelemetry::sdk;
namespace otlp = opentelemetry::exporter::otlp;

static opentelemetry::nostd::shared_ptr<trace::Tracer> tracer;
static double work_ns, turns_of_ns;

static double now()
{
	timespec at;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return at.tv_sec * 1e9 + at.tv_nsec;
}

// Makes no system call: the clock of a thread is one.
static void __attribute__((noinline)) turn(long count)
{
	for (volatile long i = 0; i < count; i = i + 1)
		;
}

static void spin(double ns)
{
	turn(ns * turns_of_ns);
}

// The best of some tries: others may run meanwhile.
static void calibrate()
{
	const long count = 1000000;

	for (int i = 0; i < 20; i++) {
		double from = now();

		turn(count);
		turns_of_ns = std::max(turns_of_ns, count / (now() - from));
	}
}

// A log that one thread writes.
struct Log {
	std::mutex lock;
	std::condition_variable changed;
	std::queue<bool *> lines;

	void write()
	{
		std::unique_lock<std::mutex> guard(lock);

		for (;;) {
			changed.wait(guard, [&] { return !lines.empty(); });
			bool *is_written = lines.front();

			lines.pop();
			guard.unlock();
			spin(work_ns / 2);
			guard.lock();
			*is_written = true;
			changed.notify_all();
		}
	}

	void add()
	{
		std::unique_lock<std::mutex> guard(lock);
		bool is_written = false;

		lines.push(&is_written);
		changed.notify_all();
		changed.wait(guard, [&] { return is_written; });
	}
};

static Log log_of_all;

static void handle(int from)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	char request[4096];
	int one = 1;

	setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (read(from, request, sizeof(request)) > 0) {
		trace::StartSpanOptions options;

		options.kind = trace::SpanKind::kServer;
		auto span = tracer->StartSpan("GET", {}, options);
		auto active = trace::Scope(span);
		auto convert = tracer->StartSpan("convert");

		spin(work_ns);
		convert->End();
		auto write_line = tracer->StartSpan("log");

		log_of_all.add();
		write_line->End();
		if (write(from, answer, sizeof(answer) - 1) < 0)
			break;
		span->End();
	}
	close(from);
}

static void begin_sdk(const char *url, double share)
{
	otlp::OtlpHttpExporterOptions to;
	sdk::trace::BatchSpanProcessorOptions batches;
	sdk::resource::ResourceAttributes resource = { { "service.name", "currency" },
						       { "process.pid", (int64_t)getpid() } };

	to.url = url;
	batches.max_queue_size = 65536;
	batches.schedule_delay_millis = std::chrono::milliseconds(500);
	auto provider = sdk::trace::TracerProviderFactory::Create(
		sdk::trace::BatchSpanProcessorFactory::Create(otlp::OtlpHttpExporterFactory::Create(to), batches),
		sdk::resource::Resource::Create(resource), sdk::trace::TraceIdRatioBasedSamplerFactory::Create(share));
	std::shared_ptr<trace::TracerProvider> made = std::move(provider);

	trace::Provider::SetTracerProvider(opentelemetry::nostd::shared_ptr<trace::TracerProvider>(made));
}

int main(int count, char **arguments)
{
	sockaddr_in at = {};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (count != 2 && count != 4)
		return 2;
	work_ns = atof(arguments[1]) * 1000;
	calibrate();
	if (count == 4)
		begin_sdk(arguments[2], atof(arguments[3]));
	tracer = trace::Provider::GetTracerProvider()->GetTracer("bench.why");
	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (sockaddr *)&at, sizeof(at)) || listen(listener, 64))
		return 1;
	getsockname(listener, (sockaddr *)&at, &size);
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	std::thread([] { log_of_all.write(); }).detach();
	for (;;) {
		int from = accept(listener, nullptr, nullptr);

		if (from >= 0)
			std::thread(handle, from).detach();
	}
}

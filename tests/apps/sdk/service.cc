// A service with a thread for each request and spans of OpenTelemetry's SDK for C++: the same as `Page` of run.py.
// run.py starts it, asks it, and says what it writes of its spans.
//
// usage: service OTLP_ENDPOINT NAME LEAF_PORT    prints its port; ends when its input ends
#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <future>
#include <map>
#include <mutex>
#include <opentelemetry/context/propagation/global_propagator.h>
#include <opentelemetry/exporters/otlp/otlp_http_exporter_factory.h>
#include <opentelemetry/exporters/otlp/otlp_http_exporter_options.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/batch_span_processor_factory.h>
#include <opentelemetry/sdk/trace/batch_span_processor_options.h>
#include <opentelemetry/sdk/trace/processor.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/sdk/trace/tracer_provider_factory.h>
#include <opentelemetry/trace/propagation/http_trace_context.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace trace = opentelemetry::trace;
namespace propagation = opentelemetry::context::propagation;
using opentelemetry::nostd::shared_ptr;
using opentelemetry::nostd::string_view;
using Headers = std::map<std::string, std::string>;

static const int MS = 20;
static int leaf_port;
static shared_ptr<trace::Tracer> tracer;

static double now(clockid_t clock)
{
	timespec at;

	clock_gettime(clock, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

// What a thread did within a span.
struct Clock {
	std::string which, name;
	double began = now(CLOCK_MONOTONIC), ran = now(CLOCK_THREAD_CPUTIME_ID), slept = 0, called = 0;

	template <typename Do> void timed(double &sum, Do what)
	{
		double from = now(CLOCK_MONOTONIC);

		what();
		sum += now(CLOCK_MONOTONIC) - from;
	}

	void end(trace::Span &span)
	{
		static std::mutex lines;
		char id[16];
		std::lock_guard<std::mutex> guard(lines);

		span.GetContext().span_id().ToLowerBase16(opentelemetry::nostd::span<char, 16>(id, 16));
		printf("{\"case\": \"%s\", \"name\": \"%s\", \"slept\": %.6f, \"called\": %.6f, \"span\": \"%.16s\", "
		       "\"ran\": %.6f, \"took\": %.6f}\n",
		       which.c_str(), name.c_str(), slept, called, id, now(CLOCK_THREAD_CPUTIME_ID) - ran,
		       now(CLOCK_MONOTONIC) - began);
		fflush(stdout);
	}
};

// The headers of a message, by their names in small letters.
struct Carrier : propagation::TextMapCarrier {
	Headers headers;

	explicit Carrier(Headers had = {}) : headers(std::move(had))
	{
	}
	string_view Get(string_view key) const noexcept override
	{
		auto found = headers.find(std::string(key));

		return found == headers.end() ? string_view() : string_view(found->second);
	}
	void Set(string_view key, string_view value) noexcept override
	{
		headers[std::string(key)] = std::string(value);
	}
};

static void spin(double seconds)
{
	double until = now(CLOCK_THREAD_CPUTIME_ID) + seconds;

	while (now(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

// A span within the present one: it sleeps, it runs, or it does both.
static void span_of_work(const std::string &which, const std::string &name, bool tells_thread = false)
{
	Clock clock{ which, name };
	auto span = tracer->StartSpan(name);

	if (tells_thread)
		span->SetAttribute("thread.id", (int64_t)gettid());
	if (name != "spin")
		clock.timed(clock.slept, [] { std::this_thread::sleep_for(std::chrono::milliseconds(MS)); });
	if (name != "sleep")
		spin(MS / 1e3);
	span->End();
	clock.end(*span);
}

static void send_all(int to, const std::string &text)
{
	for (size_t sent = 0; sent < text.size();) {
		ssize_t n = send(to, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		sent += n;
	}
}

static void get(int port, const std::string &path, const Headers &headers = {})
{
	sockaddr_in at = {};
	int to = socket(AF_INET, SOCK_STREAM, 0);
	std::string request = "GET " + path + " HTTP/1.1\r\nHost: leaf\r\n";
	char answer[1024];

	at.sin_family = AF_INET;
	at.sin_port = htons(port);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(to, (sockaddr *)&at, sizeof(at)))
		_exit(1);
	for (auto &header : headers)
		request += header.first + ": " + header.second + "\r\n";
	send_all(to, request + "\r\n");
	while (recv(to, answer, sizeof(answer), 0) > 0)
		;
	close(to);
}

static void call(const std::string &which)
{
	Clock clock{ which, "call" };
	trace::StartSpanOptions options;

	options.kind = trace::SpanKind::kClient;
	auto span = tracer->StartSpan("call", {}, options);
	auto active = trace::Scope(span);
	Carrier carrier;
	auto context = opentelemetry::context::RuntimeContext::GetCurrent();

	propagation::GlobalTextMapPropagator::GetGlobalPropagator()->Inject(carrier, context);
	clock.timed(clock.called, [&] { get(leaf_port, "/leaf/" + std::to_string(MS), carrier.headers); });
	span->End();
	clock.end(*span);
}

// The messages before and after tell where its thread's clocks stood.
static void job(std::future<void> answered)
{
	answered.wait();
	get(leaf_port, "/leaf/0");
	span_of_work("job", "both", true);
	get(leaf_port, "/leaf/0");
}

static void answer(int from)
{
	send_all(from, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

static void serve(const std::string &which, const std::string &path, const Headers &headers, int from)
{
	Clock clock{ which, "request" };
	Carrier carrier(headers);
	auto context = opentelemetry::context::RuntimeContext::GetCurrent();
	trace::StartSpanOptions options;

	options.kind = trace::SpanKind::kServer;
	options.parent = propagation::GlobalTextMapPropagator::GetGlobalPropagator()->Extract(carrier, context);
	auto span = tracer->StartSpan("GET " + path, {}, options);
	auto active = trace::Scope(span);

	for (auto name : { "sleep", "spin", "both" })
		span_of_work(which, name);
	if (which == "called" || which == "warm")
		call(which);
	answer(from);
	span->End();
	clock.end(*span);
}

static void handle(int from, std::mutex &lock, std::vector<std::thread> &jobs)
{
	std::string text;
	char block[1024];
	Headers headers;

	while (text.find("\r\n\r\n") == std::string::npos) {
		ssize_t n = recv(from, block, sizeof(block), 0);

		if (n <= 0)
			return;
		text.append(block, n);
	}
	std::string path = text.substr(4, text.find(' ', 4) - 4);
	std::string which = path.substr(1, path.find('/', 1) - 1);

	for (size_t at = text.find("\r\n") + 2; at < text.size();) {
		size_t end = text.find("\r\n", at), colon = text.find(": ", at);

		if (colon != std::string::npos && colon < end) {
			std::string name = text.substr(at, colon - at);

			std::transform(name.begin(), name.end(), name.begin(), ::tolower);
			headers[name] = text.substr(colon + 2, end - colon - 2);
		}
		at = end + 2;
	}
	if (which == "job") {
		std::promise<void> answered;
		std::lock_guard<std::mutex> guard(lock);

		jobs.emplace_back(job, answered.get_future());
		answer(from);
		answered.set_value();
	} else {
		serve(which, path, headers, from);
	}
	close(from);
}

int main(int, char **arguments)
{
	opentelemetry::exporter::otlp::OtlpHttpExporterOptions to;
	opentelemetry::sdk::trace::BatchSpanProcessorOptions batches;
	opentelemetry::sdk::resource::ResourceAttributes resource = { { "service.name", arguments[2] } };

	to.url = arguments[1];
	batches.schedule_delay_millis = std::chrono::milliseconds(500);
	if (std::string(arguments[2]) != "called")
		resource["process.pid"] = (int64_t)getpid();
	auto provider = opentelemetry::sdk::trace::TracerProviderFactory::Create(
		opentelemetry::sdk::trace::BatchSpanProcessorFactory::Create(
			opentelemetry::exporter::otlp::OtlpHttpExporterFactory::Create(to), batches),
		opentelemetry::sdk::resource::Resource::Create(resource));

	leaf_port = atoi(arguments[3]);
	tracer = provider->GetTracer("tests.apps.sdk");
	propagation::GlobalTextMapPropagator::SetGlobalPropagator(
		shared_ptr<propagation::TextMapPropagator>(new trace::propagation::HttpTraceContext()));

	sockaddr_in at = {};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	std::mutex lock;
	std::vector<std::thread> jobs;

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (sockaddr *)&at, sizeof(at)) || listen(listener, 64))
		return 1;
	getsockname(listener, (sockaddr *)&at, &size);
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	std::thread([&] {
		for (;;) {
			int from = accept(listener, nullptr, nullptr);

			if (from >= 0)
				std::thread(handle, from, std::ref(lock), std::ref(jobs)).detach();
		}
	}).detach();
	while (getchar() != EOF)
		;
	{
		std::lock_guard<std::mutex> guard(lock);

		for (auto &thread : jobs)
			thread.join();
	}
	provider->ForceFlush(std::chrono::seconds(5));
	fflush(stdout);
	// The thread that accepts never ends.
	_exit(0);
}

/*
 * A service of a shape, in C++20; README.md has the environment.
 *
 * HOW says who makes the calls: `thread` the std::thread of the caller's connection, `fanout` one by std::async for
 * each call, all at once, `pool` one of WORKERS threads that take std::packaged_task from a queue, one call after the
 * other. `coroutine` and `coroutine-fanout` do all in one thread: coroutine.hh.
 */
#include "coroutine.hh"
#include "service.hh"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

static const Service service;

static bool make(const Request &request, const Call &what, int &connection)
{
	return call(&connection, &service.upstreams[what.upstream], what.load, service.name.c_str(), request.path) ==
	       200;
}

/* The kept connections of one thread, one to each upstream. */
class Connections
{
	std::vector<int> fds = std::vector<int>(service.upstreams.size(), -1);

      public:
	Connections() = default;
	Connections(const Connections &) = delete;
	~Connections()
	{
		for (int fd : fds)
			if (fd >= 0)
				close(fd);
	}
	int &operator[](size_t upstream)
	{
		return fds[upstream];
	}
};

/* Connections that threads which make one call borrow; the last used is the next. */
class Shared
{
	std::mutex lock;
	std::vector<std::vector<int>> idle{ service.upstreams.size() };

      public:
	int borrow(size_t upstream)
	{
		std::lock_guard held(lock);

		if (idle[upstream].empty())
			return -1;
		int fd = idle[upstream].back();
		idle[upstream].pop_back();
		return fd;
	}
	void give_back(size_t upstream, int fd)
	{
		std::lock_guard held(lock);

		if (fd >= 0)
			idle[upstream].push_back(fd);
	}
};

class Pool
{
	using Job = std::packaged_task<bool(Connections &)>;
	std::mutex lock;
	std::condition_variable filled;
	std::deque<Job> jobs;

	void work()
	{
		Connections own;

		for (;;) {
			std::unique_lock held(lock);
			filled.wait(held, [this] { return !jobs.empty(); });
			Job job = std::move(jobs.front());
			jobs.pop_front();
			held.unlock();
			job(own);
		}
	}

      public:
	explicit Pool(int workers)
	{
		for (int i = 0; i < workers; i++)
			std::thread(&Pool::work, this).detach();
	}
	std::future<bool> submit(Job job)
	{
		std::future<bool> result = job.get_future();

		{
			std::lock_guard held(lock);
			jobs.push_back(std::move(job));
		}
		filled.notify_one();
		return result;
	}
};

static std::unique_ptr<Pool> pool;

/* The calls of one request; false if one failed. */
static bool work(const Request &request, Connections &own)
{
	static Shared shared;
	std::vector<std::future<bool>> under_way;
	bool good = true;

	for (const Call &what : request.calls(service)) {
		if (service.how == "thread") {
			good &= make(request, what, own[what.upstream]);
		} else if (service.how == "pool") {
			auto job = [&](Connections &workers) { return make(request, what, workers[what.upstream]); };
			good &= pool->submit(std::packaged_task<bool(Connections &)>(job)).get();
		} else {
			under_way.push_back(std::async(std::launch::async, [&request, what] {
				int fd = shared.borrow(what.upstream);
				bool done = make(request, what, fd);

				shared.give_back(what.upstream, fd);
				return done;
			}));
		}
	}
	for (std::future<bool> &result : under_way)
		good &= result.get();
	return good;
}

static void serve(int fd)
{
	Connections own;
	char text[HEAD];
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (read_message(fd, text)) {
		auto request = Request::parse(text);
		if (!request)
			break;
		std::string answer = request->answer(service, work(*request, own));
		if (send_all(fd, answer.data(), answer.size()))
			break;
	}
	close(fd);
}

int main()
{
	std::signal(SIGPIPE, SIG_IGN);
	if (service.how.starts_with("coroutine"))
		coroutines::run(service);
	if (service.how == "pool")
		pool = std::make_unique<Pool>(service.workers);
	for (int listener = service.listener(0);;) {
		int fd = accept(listener, nullptr, nullptr);

		if (fd >= 0)
			std::thread(serve, fd).detach();
	}
}

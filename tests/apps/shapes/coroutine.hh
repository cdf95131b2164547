/*
 * A service in one thread that resumes coroutines of C++20: each caller's connection is one, and each call. Everything
 * is tried before it is waited for, and then resumed by what epoll says, up to 64 at a time, as asio does.
 */
#ifndef COROUTINE_HH
#define COROUTINE_HH

#include "service.hh"

#include <cerrno>
#include <coroutine>
#include <exception>
#include <sys/epoll.h>
#include <utility>

namespace coroutines
{

/* Runs until it first waits. The coroutine that awaits it goes on when it is done. */
class Task
{
      public:
	struct promise_type {
		int value = 0;
		std::coroutine_handle<> after = std::noop_coroutine();

		struct Next {
			bool await_ready() noexcept
			{
				return false;
			}
			std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept
			{
				return done.promise().after;
			}
			void await_resume() noexcept
			{
			}
		};
		Task get_return_object()
		{
			return Task(std::coroutine_handle<promise_type>::from_promise(*this));
		}
		std::suspend_never initial_suspend() noexcept
		{
			return {};
		}
		Next final_suspend() noexcept
		{
			return {};
		}
		void return_value(int result)
		{
			value = result;
		}
		void unhandled_exception()
		{
			std::terminate();
		}
	};

	Task(Task &&other) noexcept : frame(std::exchange(other.frame, nullptr))
	{
	}
	~Task()
	{
		if (frame)
			frame.destroy();
	}
	bool await_ready() const
	{
		return frame.done();
	}
	void await_suspend(std::coroutine_handle<> who)
	{
		frame.promise().after = who;
	}
	int await_resume() const
	{
		return frame.promise().value;
	}

      private:
	explicit Task(std::coroutine_handle<promise_type> its) : frame(its)
	{
	}
	std::coroutine_handle<promise_type> frame;
};

/* Nobody awaits it. */
struct Detached {
	struct promise_type {
		Detached get_return_object()
		{
			return {};
		}
		std::suspend_never initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_never final_suspend() noexcept
		{
			return {};
		}
		void return_void()
		{
		}
		void unhandled_exception()
		{
			std::terminate();
		}
	};
};

class Loop
{
	const Service &service;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	std::vector<std::coroutine_handle<>> waiting; /* by descriptor */
	std::vector<std::vector<int>> idle;	      /* connections by upstream; the last used is the next */

	struct Event {
		std::coroutine_handle<> &waiter;

		bool await_ready() const
		{
			return false;
		}
		void await_suspend(std::coroutine_handle<> who)
		{
			waiter = who;
		}
		void await_resume() const
		{
		}
	};

	void watch(int fd)
	{
		epoll_event event = {};

		event.events = EPOLLIN | EPOLLOUT | EPOLLET;
		event.data.fd = fd;
		if (waiting.size() <= static_cast<size_t>(fd))
			waiting.resize(fd + 1);
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}

	/* Something may have happened at this descriptor. The coroutine that waits for it tries again. */
	Event event(int fd)
	{
		return { waiting[fd] };
	}

	/* 0 at the end. */
	Task receive(int fd, char *text)
	{
		for (size_t have = 0; have < HEAD - 1;) {
			ssize_t n = recv(fd, text + have, HEAD - 1 - have, 0);

			if (n < 0 && errno == EAGAIN) {
				co_await event(fd);
				continue;
			}
			if (n <= 0)
				break;
			have += n;
			text[have] = 0;
			if (is_whole(text, have))
				co_return 1;
		}
		co_return 0;
	}

	/* The descriptor, or -1. */
	Task connect_to(const sockaddr_in &to)
	{
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

		if (fd < 0)
			co_return -1;
		watch(fd);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		while (connect(fd, reinterpret_cast<const sockaddr *>(&to), sizeof(to)) && errno != EISCONN) {
			if (errno != EINPROGRESS && errno != EALREADY) {
				close(fd);
				co_return -1;
			}
			co_await event(fd);
		}
		co_return fd;
	}

	/*
	 * Whether the answer was 200. Requests and answers are shorter than any buffer, so a send does not wait.
	 */
	Task make(const Request &request, Call what)
	{
		const sockaddr_in &to = service.upstreams[what.upstream];
		std::vector<int> &kept = idle[what.upstream];
		unsigned long long start = now_ns();
		char text[HEAD], path[64];
		int fd, status;

		new_path(path, what.load);
		if (kept.empty()) {
			fd = co_await connect_to(to);
		} else {
			fd = kept.back();
			kept.pop_back();
		}
		if (fd < 0)
			co_return 0;
		int size = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: shapes\r\n\r\n", path);
		if (send_all(fd, text, size) || !co_await receive(fd, text)) {
			close(fd);
			co_return 0;
		}
		kept.push_back(fd);
		status = atoi(text + strlen("HTTP/1.1 "));
		note_call(service.name.c_str(), path, request.path, &to, start, status);
		co_return status == 200;
	}

	Task work(const Request &request)
	{
		bool at_once = service.how == "coroutine-fanout";
		std::vector<Task> under_way;
		int good = 1;

		for (const Call &what : request.calls(service)) {
			if (at_once)
				under_way.push_back(make(request, what));
			else
				good &= co_await make(request, what);
		}
		for (Task &task : under_way)
			good &= co_await task;
		co_return good;
	}

	Detached serve(int fd)
	{
		char text[HEAD];

		while (co_await receive(fd, text)) {
			auto request = Request::parse(text);
			if (!request)
				break;
			std::string answer = request->answer(service, co_await work(*request));
			if (send_all(fd, answer.data(), answer.size()))
				break;
		}
		close(fd);
	}

	Detached accept_all(int listener)
	{
		watch(listener);
		for (;;) {
			int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;

			if (fd < 0) {
				co_await event(listener);
				continue;
			}
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			watch(fd);
			serve(fd);
		}
	}

      public:
	explicit Loop(const Service &of) : service(of), idle(of.upstreams.size())
	{
	}

	[[noreturn]] void run()
	{
		epoll_event events[64];

		accept_all(service.listener(SOCK_NONBLOCK));
		for (;;)
			for (int i = 0, n = epoll_wait(epoll, events, 64, -1); i < n; i++)
				if (auto waiter = std::exchange(waiting[events[i].data.fd], nullptr))
					waiter.resume();
	}
};

[[noreturn]] inline void run(const Service &service)
{
	Loop(service).run();
}

} // namespace coroutines

#endif

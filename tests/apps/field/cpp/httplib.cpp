// cpp-httplib: a thread for each connection of a pool of threads, its client, std::async, workers at a queue.
#include "shop.hpp"

#include <deque>
#include <future>
#include <httplib.h>
#include <thread>

namespace
{
Shop shop;

std::string get(const std::string &base, const std::string &path, int limit_ms = 30000)
{
	httplib::Client client(base);
	client.set_read_timeout(std::chrono::milliseconds(limit_ms));
	auto answer = client.Get(path);
	return answer ? answer->body : httplib::to_string(answer.error());
}

/// Threads that take functions from a queue which all requests share.
class Workers {
	std::mutex mutex;
	std::condition_variable added;
	std::deque<std::packaged_task<std::string()>> tasks;

public:
	explicit Workers(int count)
	{
		for (int i = 0; i < count; i++)
			std::thread([this] { work(); }).detach();
	}

	std::future<std::string> submit(std::function<std::string()> function)
	{
		std::packaged_task<std::string()> task(std::move(function));
		auto result = task.get_future();
		std::lock_guard lock(mutex);
		tasks.push_back(std::move(task));
		added.notify_one();
		return result;
	}

private:
	[[noreturn]] void work()
	{
		for (;;) {
			std::unique_lock lock(mutex);
			added.wait(lock, [this] { return !tasks.empty(); });
			auto task = std::move(tasks.front());
			tasks.pop_front();
			lock.unlock();
			task();
		}
	}
};

Workers *workers;

std::string seq(const std::string &id)
{
	auto cached = shop.cached(id), item = shop.item(id), price = get(LEAF, "/price/" + id);
	shop.keep(id, item);
	return cached + item + price;
}

std::string par(const std::string &id)
{
	auto cached = std::async(std::launch::async, [&] { return shop.cached(id); });
	auto item = std::async(std::launch::async, [&] { return shop.item(id); });
	auto price = std::async(std::launch::async, [&] { return get(LEAF, "/price/" + id); });
	auto stock = get(LEAF, "/stock/" + id);
	return cached.get() + item.get() + price.get() + stock;
}

std::string tx(const std::string &id)
{
	shop.order(id);
	return shop.sell(id) + get(LEAF, "/ship/" + id);
}

std::string nest(const std::string &id)
{
	shop.count(id);
	auto back = std::async(std::launch::async, [&] { return get(BACK, "/seq/" + id); });
	auto price = get(LEAF, "/price/" + id);
	return back.get() + price;
}

std::string work(const std::string &id)
{
	auto print = workers->submit([id] { return get(LEAF, "/print/" + id); });
	auto item = workers->submit([id] { return shop.item(id); });
	auto pack = workers->submit([id] { return get(LEAF, "/pack/" + id); });
	return print.get() + item.get() + pack.get();
}

std::string retry(const std::string &id)
{
	for (const char *attempt : {"/try0/", "/try1/"}) {
		auto answer = get(LEAF, attempt + id, 15);
		if (answer.find("ok") != std::string::npos)
			return answer;
	}
	return get(LEAF, "/last/" + id);
}

std::string later(const std::string &id)
{
	std::thread([id] {
		shop.item(id);
		shop.count(id);
		get(LEAF, "/mail/" + id);
	}).detach();
	return id;
}
} // namespace

int main()
{
	httplib::Server server;
	workers = new Workers(8);
	server.new_task_queue = [] { return new httplib::ThreadPool(64); };
	auto route = [&](const char *pattern, std::string (*handle)(const std::string &)) {
		server.Get(pattern, [handle](const httplib::Request &request, httplib::Response &response) {
			response.set_content(handle(request.matches[1].str()), "text/plain");
		});
	};
	route("/seq/(\\w+)", seq);
	route("/par/(\\w+)", par);
	route("/tx/(\\w+)", tx);
	route("/nest/(\\w+)", nest);
	route("/work/(\\w+)", work);
	route("/retry/(\\w+)", retry);
	route("/later/(\\w+)", later);
	return server.listen("127.0.0.1", std::atoi(env("PORT").c_str())) ? 0 : 1;
}

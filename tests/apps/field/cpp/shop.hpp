// What both services have: pools of connections to PostgreSQL (libpqxx) and Redis (hiredis).
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <hiredis/hiredis.h>
#include <memory>
#include <mutex>
#include <pqxx/pqxx>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

inline std::string env(const char *name)
{
	const char *value = std::getenv(name);
	return value ? value : "";
}

inline const std::string LEAF = env("LEAF_URL"), BACK = env("BACK_URL");

/// Connections that are made when needed, up to a limit. A thread waits if all are in use.
template <class T> class Pool {
	std::mutex mutex;
	std::condition_variable freed;
	std::vector<std::unique_ptr<T>> free;
	std::function<std::unique_ptr<T>()> make;
	int left;

public:
	Pool(int limit, std::function<std::unique_ptr<T>()> make) : make(std::move(make)), left(limit)
	{
	}

	template <class F> auto with(F use)
	{
		auto back = [this](T *one) {
			std::lock_guard lock(mutex);
			free.emplace_back(one);
			freed.notify_one();
		};
		std::unique_ptr<T, decltype(back)> one(take().release(), back);
		return use(*one);
	}

private:
	std::unique_ptr<T> take()
	{
		std::unique_lock lock(mutex);
		freed.wait(lock, [this] { return !free.empty() || left; });
		if (!free.empty()) {
			auto one = std::move(free.back());
			free.pop_back();
			return one;
		}
		left--;
		lock.unlock();
		return make();
	}
};

struct Redis {
	redisContext *context = redisConnect("127.0.0.1", std::atoi(env("REDIS_PORT").c_str()));

	~Redis()
	{
		redisFree(context);
	}

	std::string said()
	{
		void *got = nullptr;
		if (redisGetReply(context, &got) != REDIS_OK)
			throw std::runtime_error(context->errstr);
		auto *reply = static_cast<redisReply *>(got);
		std::string text = reply->str ? reply->str : std::to_string(reply->integer);
		freeReplyObject(reply);
		return text;
	}

	template <class... Words> std::string command(const char *format, Words... words)
	{
		redisAppendCommand(context, format, words...);
		return said();
	}
};

struct Shop {
	Pool<Redis> redis{16, [] { return std::make_unique<Redis>(); }};
	Pool<pqxx::connection> database{10, [] {
						auto made = std::make_unique<pqxx::connection>(env("DATABASE_URL"));
						made->prepare("item", "SELECT name FROM items WHERE id = $1");
						return made;
					}};

	std::string cached(const std::string &id)
	{
		return redis.with([&](Redis &r) { return r.command("GET item:%s", id.c_str()); });
	}

	std::string keep(const std::string &id, const std::string &value)
	{
		return redis.with(
			[&](Redis &r) { return r.command("SET item:%s %s EX 60", id.c_str(), value.c_str()); });
	}

	std::string count(const std::string &id)
	{
		return redis.with([&](Redis &r) { return r.command("INCR seen:%s", id.c_str()); });
	}

	/// Two commands in one write.
	std::string sell(const std::string &id)
	{
		return redis.with([&](Redis &r) {
			redisAppendCommand(r.context, "DEL item:%s", id.c_str());
			redisAppendCommand(r.context, "INCR sold:%s", id.c_str());
			return r.said() + r.said();
		});
	}

	std::string item(const std::string &id)
	{
		return database.with([&](pqxx::connection &connection) {
			pqxx::nontransaction work(connection);
			auto rows = work.exec_prepared("item", id);
			return rows.empty() ? std::string("none") : rows[0][0].as<std::string>();
		});
	}

	void order(const std::string &id)
	{
		database.with([&](pqxx::connection &connection) {
			pqxx::work work(connection);
			work.exec_params("INSERT INTO orders (id, item) VALUES ($1, 'book')", id);
			work.exec_params("UPDATE orders SET state = 'paid' WHERE id = $1", id);
			work.commit();
			return 0;
		});
	}
};

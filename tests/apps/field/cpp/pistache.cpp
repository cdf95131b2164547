// Pistache: event loops that call handlers, its client with an event loop of its own, promises; libpqxx, hiredis.
#include "shop.hpp"

#include <future>
#include <pistache/client.h>
#include <pistache/endpoint.h>
#include <pistache/router.h>
#include <thread>

using namespace Pistache;

namespace
{
Shop shop;
Http::Experimental::Client client;

Async::Promise<Http::Response> ask(const std::string &url)
{
	return client.get(url).timeout(std::chrono::seconds(30)).send();
}

/// Waits for an answer in this thread.
std::string get(const std::string &url)
{
	auto promise = ask(url);
	std::string body;
	promise.then([&](Http::Response answer) { body = answer.body(); }, Async::Throw);
	Async::Barrier<Http::Response> barrier(promise);
	barrier.wait();
	return body;
}

std::string seq(const std::string &id)
{
	auto cached = shop.cached(id), item = shop.item(id), price = get(LEAF + "/price/" + id);
	shop.keep(id, item);
	return cached + item + price;
}

/// Two calls of the client are under way while this thread and another ask the database and Redis.
std::string par(const std::string &id)
{
	auto price = ask(LEAF + "/price/" + id), stock = ask(LEAF + "/stock/" + id);
	auto cached = std::async(std::launch::async, [&] { return shop.cached(id); });
	auto item = shop.item(id);
	auto both = Async::whenAll(price, stock);
	Async::Barrier<std::tuple<Http::Response, Http::Response>> barrier(both);
	barrier.wait();
	return cached.get() + item;
}

std::string tx(const std::string &id)
{
	shop.order(id);
	return shop.sell(id) + get(LEAF + "/ship/" + id);
}

std::string later(const std::string &id)
{
	std::thread([id] {
		shop.item(id);
		shop.count(id);
		get(LEAF + "/mail/" + id);
	}).detach();
	return id;
}

/// The client's thread sends the answer.
void nest(const Rest::Request &request, Http::ResponseWriter writer)
{
	auto id = request.param(":id").as<std::string>();
	auto response = std::make_shared<Http::ResponseWriter>(std::move(writer));
	shop.count(id);
	auto back = ask(BACK + "/seq/" + id), price = ask(LEAF + "/price/" + id);
	Async::whenAll(back, price)
		.then([response](const std::tuple<Http::Response, Http::Response> &
				 answers) { response->send(Http::Code::Ok, std::get<0>(answers).body()); },
		      Async::Throw);
}

/// Each call follows the answer to the one before, in the client's thread.
void async(const Rest::Request &request, Http::ResponseWriter writer)
{
	auto id = request.param(":id").as<std::string>();
	auto response = std::make_shared<Http::ResponseWriter>(std::move(writer));
	ask(LEAF + "/price/" + id)
		.then(
			[response, id](Http::Response) {
				auto cached = shop.cached(id);
				ask(LEAF + "/stock/" + id)
					.then([response, cached](
						      Http::Response) { response->send(Http::Code::Ok, cached); },
					      Async::Throw);
			},
			Async::Throw);
}

void route(Rest::Router &router, const char *path, std::string (*handle)(const std::string &))
{
	Rest::Routes::Get(router, path, [handle](const Rest::Request &request, Http::ResponseWriter response) {
		response.send(Http::Code::Ok, handle(request.param(":id").as<std::string>()));
		return Rest::Route::Result::Ok;
	});
}

void route(Rest::Router &router, const char *path, void (*handle)(const Rest::Request &, Http::ResponseWriter))
{
	Rest::Routes::Get(router, path, [handle](const Rest::Request &request, Http::ResponseWriter response) {
		handle(request, std::move(response));
		return Rest::Route::Result::Ok;
	});
}
} // namespace

int main()
{
	client.init(Http::Experimental::Client::options().threads(2).keepAlive(true).maxConnectionsPerHost(64));
	Rest::Router router;
	route(router, "/seq/:id", seq);
	route(router, "/par/:id", par);
	route(router, "/tx/:id", tx);
	route(router, "/nest/:id", nest);
	route(router, "/async/:id", async);
	route(router, "/later/:id", later);
	Http::Endpoint endpoint(Address("127.0.0.1", Port(std::atoi(env("PORT").c_str()))));
	endpoint.init(Http::Endpoint::options().threads(16));
	endpoint.setHandler(router.handler());
	endpoint.serve();
}

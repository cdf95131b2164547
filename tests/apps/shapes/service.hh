/* What the C++ services of shapes share: the environment, and what a request makes them call. */
#ifndef SERVICE_HH
#define SERVICE_HH

#include "http.h"

#include <optional>
#include <sstream>
#include <string>
#include <vector>

struct Service {
	std::string name, how;
	sockaddr_in address;
	std::vector<sockaddr_in> upstreams;
	int workers;

	static std::string environment(const char *variable)
	{
		const char *value = getenv(variable);

		return value ? value : "";
	}

	Service() : name(environment("SERVICE")), how(environment("HOW")), address(parse_address(getenv("LISTEN")))
	{
		std::istringstream calls(environment("CALLS"));

		for (std::string upstream; std::getline(calls, upstream, ',');)
			upstreams.push_back(parse_address(upstream.c_str()));
		workers = atoi(environment("WORKERS").c_str());
		truth_open(name.c_str());
	}

	int listener(int flags) const
	{
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), one = 1;

		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) || listen(fd, 1024)) {
			perror("service: listen");
			exit(1);
		}
		return fd;
	}
};

struct Call {
	size_t upstream;
	unsigned load;
};

struct Request {
	char path[64];
	unsigned load;
	unsigned long long start = now_ns();

	static std::optional<Request> parse(const char *text)
	{
		Request request;

		if (sscanf(text, "GET %63s", request.path) != 1 ||
		    sscanf(request.path, "/work/%u/", &request.load) != 1)
			return {};
		return request;
	}

	/* By its path alone: README.md has the rule. */
	std::vector<Call> calls(const Service &service) const
	{
		std::vector<Call> all;

		for (size_t u = 0; u < service.upstreams.size(); u++)
			for (unsigned i = 0; i <= (load >> u & 1); i++)
				all.push_back({ u, load + i + 1 });
		return all;
	}

	/* Its record, and what is sent. */
	std::string answer(const Service &service, bool good) const
	{
		note_served(service.name.c_str(), path, start, good ? 200 : 502);
		return std::string("HTTP/1.1 ") + (good ? "200 OK" : "502 Bad Gateway") +
		       "\r\nContent-Length: 2\r\n\r\nok";
	}
};

#endif

// A server of whose functions the compiler puts some into their callers: each must be told all the same.
//
// usage: inlined PORT      answers GET /sleep/MS: `Shop::sleep<int>` ← `Shop::price` ← `checkout` ← `handle`, of which
// the compiler keeps `handle` only
#define TURNS 1000
#include "serve.h"
#include <cstdio>
#include <unistd.h>

#define PUT_IN inline __attribute__((always_inline))

namespace shop
{
struct Shop {
	long sum = 0;

	template <typename Number> PUT_IN long sleep(Number ms)
	{
		struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

		nanosleep(&time, nullptr);
		return ++sum;
	}

	PUT_IN long price(int ms)
	{
		return sleep(ms) + ++sum;
	}
};

static PUT_IN long checkout(int ms)
{
	Shop shop;

	return shop.price(ms) + ++done;
}
} // namespace shop

KEPT static void *handle(void *arg)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	int connection = (int)(long)arg, ms;
	char text[1024];
	ssize_t length;

	while ((length = read(connection, text, sizeof(text) - 1)) > 0) {
		text[length] = 0;
		if (sscanf(text, "GET /sleep/%d", &ms) == 1)
			done = shop::checkout(ms);
		if (write(connection, answer, sizeof(answer) - 1) < 0)
			break;
	}
	close(connection);
	return nullptr;
}

int main(int argc, char **argv)
{
	return serve(argc > 1 ? atoi(argv[1]) : 0, handle);
}

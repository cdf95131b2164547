/*
 * The service that every application of the field suite calls over HTTP/1.1. `GET /anything/ID` is answered after a
 * pause that depends on ID and path, so that answers come in another order than questions.
 *
 * LISTEN: host:port. PAUSE_US: the mean pause. GROUND_TRUTH_DIR gets leaf.jsonl: of each call the path, and the
 * caller's port.
 */
#define _GNU_SOURCE
#include "../shapes/http.h"

#include <pthread.h>

static double pause_us;

static void rest(const char *path)
{
	unsigned long long hash = 14695981039346656037ULL;
	struct timespec t;
	double us;

	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * 1099511628211ULL;
	us = pause_us * (0.1 + 1.8 * (double)(hash >> 40) / (1 << 24));
	t.tv_sec = us / 1e6;
	t.tv_nsec = (us - t.tv_sec * 1e6) * 1e3;
	nanosleep(&t, NULL);
}

static void *serve(void *arg)
{
	int fd = (int)(long)arg, one = 1;
	char text[HEAD], path[128];
	struct sockaddr_in peer;
	socklen_t size = sizeof(peer);

	getpeername(fd, (struct sockaddr *)&peer, &size);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (read_message(fd, text)) {
		if (sscanf(text, "GET %127s", path) != 1)
			break;
		rest(path);
		truth_write("{\"path\":\"%s\",\"port\":%d}", path, ntohs(peer.sin_port));
		snprintf(
			text, sizeof(text),
			"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}");
		if (send_all(fd, text, strlen(text)))
			break;
	}
	close(fd);
	return NULL;
}

int main(void)
{
	struct sockaddr_in address = parse_address(getenv("LISTEN"));
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	pthread_attr_t attr;
	pthread_t thread;

	pause_us = getenv("PAUSE_US") ? atof(getenv("PAUSE_US")) : 1000;
	truth_open("leaf");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1024)) {
		perror("leaf");
		return 1;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && pthread_create(&thread, &attr, serve, (void *)(long)fd))
			close(fd);
	}
}

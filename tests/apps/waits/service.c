// A service whose requests wait in known ways, with a thread for each connection. It says how long each wait was: one
// JSON line for each request on standard output.
//
// usage: service PORT LEAF_PORT DIR
//
// Paths are /WHAT/MS/ID, as of service.py; `event` waits for a condition that another thread signals, `pool` asks the
// leaf by the only connection that there is, `dns` looks the name wMS.test up, which is answered after MS.
#define _GNU_SOURCE
#include <fcntl.h>
#include <netdb.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 1000
#define LINGER_MS 1000
#include "../stacks/serve.h"

extern char **environ;

struct later {
	long ms;
	int write_to;
	pthread_cond_t *signal;
	int *is_set;
};

struct request {
	long ms;
	char waits[1024]; // JSON
	pthread_t helper;
	struct later later;
};

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER, happened = PTHREAD_MUTEX_INITIALIZER;
static int leaf_port, log_file;

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

// How long this thread has been ready without a processor.
static double queued(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	long long ran = 0, waited = 0;

	if (file) {
		if (fscanf(file, "%lld %lld", &ran, &waited) != 2)
			waited = 0;
		fclose(file);
	}
	return waited / 1e9;
}

static double since(double began)
{
	return now(CLOCK_MONOTONIC) - began;
}

// Notes a wait: its kind, what ended it, and what that thread did meanwhile.
static void waited(struct request *r, const char *kind, const char *by, const char *held, double took)
{
	size_t at = strlen(r->waits);

	snprintf(r->waits + at, sizeof(r->waits) - at,
		 "%s{\"kind\": \"%s\", \"by\": \"%s\", \"held\": \"%s\", \"took\": %.6f}", at ? ", " : "", kind, by,
		 held, took);
}

static void spin(long ms)
{
	double until = now(CLOCK_THREAD_CPUTIME_ID) + ms / 1e3;

	while (now(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

static void pause_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int connect_to_leaf(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(leaf_port) };
	int leaf = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(leaf, (struct sockaddr *)&at, sizeof(at)))
		perror("connect");
	return leaf;
}

static void ask(struct request *r, int leaf)
{
	char buffer[256];
	int length = snprintf(buffer, sizeof(buffer), "GET /sleep/%ld/leaf HTTP/1.1\r\nHost: leaf\r\n\r\n", r->ms);
	double began = now(CLOCK_MONOTONIC);

	if (write(leaf, buffer, length) != length || read(leaf, buffer, sizeof(buffer)) <= 0)
		perror("leaf");
	waited(r, "socket", "network", "", since(began));
}

static void call(struct request *r)
{
	int leaf = connect_to_leaf();

	ask(r, leaf);
	close(leaf);
}

static void call_by_pool(struct request *r)
{
	static int only;
	double began = now(CLOCK_MONOTONIC);

	pthread_setname_np(pthread_self(), "user");
	if (pthread_mutex_trylock(&pool)) {
		pthread_mutex_lock(&pool);
		waited(r, "lock", "thread user", "socket read", since(began));
	}
	if (!only)
		only = connect_to_leaf();
	ask(r, only);
	pthread_mutex_unlock(&pool);
}

static void sync_until(struct request *r)
{
	static char bytes[1 << 20];
	double end = now(CLOCK_MONOTONIC) + r->ms / 1e3, all = 0;

	do {
		double began;

		if (pwrite(log_file, bytes, sizeof(bytes), 0) != sizeof(bytes))
			perror("write");
		began = now(CLOCK_MONOTONIC);
		fsync(log_file);
		all += since(began);
	} while (now(CLOCK_MONOTONIC) < end);
	waited(r, "disk", "disk", "", all);
}

// What a thread that ended did cannot be asked for, so it stays for a while.
static void *do_later(void *argument)
{
	struct later *later = argument;

	pthread_setname_np(pthread_self(), "helper");
	pause_ms(later->ms);
	if (later->signal) {
		pthread_mutex_lock(&happened);
		*later->is_set = 1;
		pthread_cond_signal(later->signal);
		pthread_mutex_unlock(&happened);
	} else if (write(later->write_to, "x", 1) != 1) {
		perror("write");
	}
	pause_ms(LINGER_MS);
	return NULL;
}

static double help(struct request *r, struct later later)
{
	later.ms = r->ms;
	r->later = later;
	if (pthread_create(&r->helper, NULL, do_later, &r->later))
		perror("thread");
	return now(CLOCK_MONOTONIC);
}

static void receive(struct request *r, int ends[2], const char *kind)
{
	double began = help(r, (struct later){ .write_to = ends[1] });
	char byte;

	if (read(ends[0], &byte, 1) != 1)
		perror("read");
	waited(r, kind, "thread helper", "sleep clock_nanosleep", since(began));
	close(ends[0]);
	close(ends[1]);
}

static void receive_event(struct request *r)
{
	pthread_cond_t signal = PTHREAD_COND_INITIALIZER;
	int is_set = 0;
	double began = help(r, (struct later){ .signal = &signal, .is_set = &is_set });

	pthread_mutex_lock(&happened);
	while (!is_set)
		pthread_cond_wait(&signal, &happened);
	pthread_mutex_unlock(&happened);
	waited(r, "lock", "thread helper", "sleep clock_nanosleep", since(began));
}

static void look_up(struct request *r)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found = NULL;
	double began = now(CLOCK_MONOTONIC);
	char name[32];

	snprintf(name, sizeof(name), "w%ld.test", r->ms);
	if (getaddrinfo(name, NULL, &hints, &found))
		fprintf(stderr, "%s is not found\n", name);
	waited(r, "socket", "network", "", since(began));
	if (found)
		freeaddrinfo(found);
}

static void run_child(struct request *r)
{
	char seconds[16], *arguments[] = { "sleep", seconds, NULL };
	double began = now(CLOCK_MONOTONIC);
	pid_t child;

	snprintf(seconds, sizeof(seconds), "%.3f", r->ms / 1e3);
	if (!posix_spawnp(&child, "sleep", NULL, NULL, arguments, environ))
		waitpid(child, NULL, 0);
	waited(r, "process", "service sleep", "", since(began));
}

static void keep_lock(struct request *r)
{
	pthread_setname_np(pthread_self(), "keeper");
	pthread_mutex_lock(&first);
	sync_until(r);
	pthread_mutex_unlock(&first);
}

static void wait_for_keeper(struct request *r)
{
	double began;

	pthread_setname_np(pthread_self(), "middle");
	pthread_mutex_lock(&second);
	began = now(CLOCK_MONOTONIC);
	pthread_mutex_lock(&first);
	waited(r, "lock", "thread keeper", "disk fsync", since(began));
	pthread_mutex_unlock(&first);
	pthread_mutex_unlock(&second);
}

static void wait_for_middle(struct request *r)
{
	double began = now(CLOCK_MONOTONIC);

	pthread_mutex_lock(&second);
	waited(r, "lock", "thread middle", "thread keeper", since(began));
	pthread_mutex_unlock(&second);
}

static void work(struct request *r, const char *what)
{
	int ends[2];

	if (!strcmp(what, "spin"))
		spin(r->ms);
	if (!strcmp(what, "sleep")) {
		double began = now(CLOCK_MONOTONIC);

		pause_ms(r->ms);
		waited(r, "sleep", "timer", "", since(began));
	}
	if (!strcmp(what, "call"))
		call(r);
	if (!strcmp(what, "pool"))
		call_by_pool(r);
	if (!strcmp(what, "disk"))
		sync_until(r);
	if (!strcmp(what, "pipe") && !pipe(ends))
		receive(r, ends, "pipe");
	if (!strcmp(what, "pair") && !socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		receive(r, ends, "socket");
	if (!strcmp(what, "event"))
		receive_event(r);
	if (!strcmp(what, "dns"))
		look_up(r);
	if (!strcmp(what, "child"))
		run_child(r);
	if (!strcmp(what, "keep"))
		keep_lock(r);
	if (!strcmp(what, "convoy"))
		wait_for_keeper(r);
	if (!strcmp(what, "end"))
		wait_for_middle(r);
}

static void *handle(void *argument)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	int connection = (long)argument;
	char text[1024], path[128], what[32];
	ssize_t length;

	while ((length = read(connection, text, sizeof(text) - 1)) > 0) {
		struct request r = { 0 };
		double began = now(CLOCK_MONOTONIC), ran = now(CLOCK_THREAD_CPUTIME_ID), ready = queued();

		text[length] = 0;
		if (sscanf(text, "GET %127s", path) != 1 || sscanf(path, "/%31[^/]/%ld", what, &r.ms) != 2)
			break;
		work(&r, what);
		ran = now(CLOCK_THREAD_CPUTIME_ID) - ran;
		ready = queued() - ready;
		printf("{\"path\": \"%s\", \"ran\": %.6f, \"queued\": %.6f, \"took\": %.6f, \"waits\": [%s]}\n", path,
		       ran, ready, since(began), r.waits);
		fflush(stdout);
		if (write(connection, answer, sizeof(answer) - 1) < 0)
			break;
		if (r.helper)
			pthread_join(r.helper, NULL);
	}
	close(connection);
	return NULL;
}

int main(int count, char **arguments)
{
	char path[512];

	if (count != 4)
		return 2;
	leaf_port = atoi(arguments[2]);
	snprintf(path, sizeof(path), "%s/app.log", arguments[3]);
	log_file = open(path, O_CREAT | O_WRONLY, 0600);
	return log_file < 0 ? 1 : serve(atoi(arguments[1]), handle);
}

/*
 * A service of a shape, in C: one blocking thread per caller's connection reads and answers; README.md has the
 * environment.
 *
 * HOW says who makes the calls: `thread` that thread, `spawn` a new thread each, `fork` a new process each, `fanout` a
 * new thread each, all at once, `pool` one of WORKERS threads behind a queue with a condition variable.
 */
#define _GNU_SOURCE
#include "http.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define MAX_UPSTREAMS 16
#define MAX_CALLS (MAX_UPSTREAMS + 2)

static const char *service, *how;
static double slower = 1;
static struct sockaddr_in upstreams[MAX_UPSTREAMS];
static int upstream_count;

struct job {
	const char *in;
	int upstream;
	unsigned load;
	int *connections; /* of who makes the call; NULL: one of its own */
	int failed, done;
	pthread_cond_t finished;
	struct job *next;
};

static void make(struct job *job)
{
	int own = -1, *fd = job->connections ? &job->connections[job->upstream] : &own;

	job->failed = call(fd, &upstreams[job->upstream], job->load, service, job->in) != 200;
	if (own >= 0)
		close(own);
}

static void *make_in_thread(void *job)
{
	make(job);
	return NULL;
}

static void make_in_process(struct job *job)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		make(job);
		_exit(job->failed);
	}
	job->failed = pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

/*
 * --- the pool ------------------------------------------------------------------------------------------------------
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct job *head, **tail = &head;

static void *worker(void *arg)
{
	int connections[MAX_UPSTREAMS];

	(void)arg;
	for (int i = 0; i < MAX_UPSTREAMS; i++)
		connections[i] = -1;
	for (;;) {
		struct job *job;

		pthread_mutex_lock(&lock);
		while (!head)
			pthread_cond_wait(&filled, &lock);
		job = head;
		head = job->next;
		if (!head)
			tail = &head;
		pthread_mutex_unlock(&lock);
		job->connections = connections;
		make(job);
		pthread_mutex_lock(&lock);
		job->done = 1;
		pthread_cond_signal(&job->finished);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void make_in_pool(struct job *job)
{
	job->done = 0;
	job->next = NULL;
	pthread_cond_init(&job->finished, NULL);
	pthread_mutex_lock(&lock);
	*tail = job;
	tail = &job->next;
	pthread_cond_signal(&filled);
	while (!job->done)
		pthread_cond_wait(&job->finished, &lock);
	pthread_mutex_unlock(&lock);
}

/*
 * --- requests ------------------------------------------------------------------------------------------------------
 */

/* The calls of one request, by its path alone: README.md has the rule. False if one failed. */
static int work(const char *path, unsigned load, int *connections)
{
	struct job jobs[MAX_CALLS];
	pthread_t threads[MAX_CALLS];
	int n = 0, failed = 0;

	for (int u = 0; u < upstream_count; u++)
		for (unsigned i = 0; i <= (load >> u & 1); i++)
			jobs[n++] = (struct job){
				.in = path, .upstream = u, .load = load + i + 1, .connections = connections
			};
	for (int i = 0; i < n; i++) {
		if (!strcmp(how, "thread")) {
			make(&jobs[i]);
		} else if (!strcmp(how, "fork")) {
			jobs[i].connections = NULL;
			make_in_process(&jobs[i]);
		} else if (!strcmp(how, "pool")) {
			make_in_pool(&jobs[i]);
		} else {
			if (!strcmp(how, "fanout"))
				jobs[i].connections = NULL;
			if (pthread_create(&threads[i], NULL, make_in_thread, &jobs[i]))
				exit(1);
			if (!strcmp(how, "spawn"))
				pthread_join(threads[i], NULL);
		}
	}
	for (int i = 0; i < n; i++) {
		if (!strcmp(how, "fanout"))
			pthread_join(threads[i], NULL);
		failed |= jobs[i].failed;
	}
	return !failed;
}

static void pause_us(double us)
{
	struct timespec t = { .tv_sec = us / 1e6 };

	t.tv_nsec = (us - t.tv_sec * 1e6) * 1e3;
	nanosleep(&t, NULL);
}

static void *serve(void *arg)
{
	int fd = (int)(long)arg, one = 1, connections[MAX_UPSTREAMS];
	char text[HEAD], path[64];

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (int i = 0; i < MAX_UPSTREAMS; i++)
		connections[i] = -1;
	while (read_message(fd, text)) {
		unsigned long long start = now_ns(), number;
		unsigned load;
		int good;

		if (sscanf(text, "GET %63s", path) != 1 || sscanf(path, "/work/%u/%llx", &load, &number) != 2)
			break;
		if (!upstream_count)
			pause_us((100 + number % 1400) * slower); /* answers come in another order than questions */
		good = work(path, load, connections);
		note_served(service, path, start, good ? 200 : 502);
		snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok",
			 good ? "200 OK" : "502 Bad Gateway");
		if (send_all(fd, text, strlen(text)))
			break;
	}
	close(fd);
	for (int i = 0; i < MAX_UPSTREAMS; i++)
		if (connections[i] >= 0)
			close(connections[i]);
	return NULL;
}

int main(void)
{
	struct sockaddr_in address = parse_address(getenv("LISTEN"));
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	char *calls = getenv("CALLS"), *workers = getenv("WORKERS");
	pthread_attr_t attr;
	pthread_t thread;

	service = getenv("SERVICE");
	how = getenv("HOW");
	if (getenv("SLOWER"))
		slower = atof(getenv("SLOWER"));
	if (!service || !how) {
		fprintf(stderr, "service: SERVICE and HOW are needed\n");
		return 2;
	}
	for (char *at = strtok(calls ? calls : "", ","); at && upstream_count < MAX_UPSTREAMS; at = strtok(NULL, ","))
		upstreams[upstream_count++] = parse_address(at);
	truth_open(service);
	signal(SIGPIPE, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1024)) {
		perror("service: listen");
		return 1;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	for (int i = 0; !strcmp(how, "pool") && i < (workers ? atoi(workers) : 8); i++)
		pthread_create(&thread, &attr, worker, NULL);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd >= 0 && pthread_create(&thread, &attr, serve, (void *)(long)fd))
			close(fd);
	}
}

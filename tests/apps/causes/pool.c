/*
 * A server whose handlers have their calls made by four workers. `pool condvar|pipe BACK`: handlers queue a job and
 * wait for its end on a condition variable of their own; the workers wait on a condition variable, or read jobs from a
 * pipe. Each worker keeps one connection to the back end. Prints `listening PORT`.
 */
#include "serve.h"
#include <string.h>
#include <unistd.h>

#define WORKERS 4
#define DEPTH 256

struct job {
	int number, done;
	pthread_mutex_t lock;
	pthread_cond_t ended;
};

static struct job *queue[DEPTH];
static unsigned head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int by_pipe, ends[2], back;

static void put(struct job *job)
{
	if (by_pipe) {
		if (write(ends[1], &job, sizeof(job)) != sizeof(job))
			fail("write");
		return;
	}
	pthread_mutex_lock(&lock);
	queue[tail++ % DEPTH] = job;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

static struct job *get(void)
{
	struct job *job;

	if (by_pipe) {
		if (read(ends[0], &job, sizeof(job)) != sizeof(job))
			fail("read");
		return job;
	}
	pthread_mutex_lock(&lock);
	while (head == tail)
		pthread_cond_wait(&filled, &lock);
	job = queue[head++ % DEPTH];
	pthread_mutex_unlock(&lock);
	return job;
}

static void *work(void *unused)
{
	int to = connect_to(back);
	char text[512];

	for (;;) {
		struct job *job = get();
		int n = snprintf(text, sizeof(text), "GET /u/%d HTTP/1.1\r\nHost: b\r\n\r\n", job->number);

		if (send(to, text, n, 0) != n || recv(to, text, sizeof(text), 0) <= 0)
			fail("back end");
		pthread_mutex_lock(&job->lock);
		job->done = 1;
		pthread_cond_signal(&job->ended);
		pthread_mutex_unlock(&job->lock);
	}
	return unused;
}

static void *handle(void *argument)
{
	int from = (int)(long)argument;
	char text[1024];
	ssize_t n;

	while ((n = recv(from, text, sizeof(text) - 1, 0)) > 0) {
		struct job job = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

		text[n] = 0;
		if (sscanf(text, "GET /r/%d ", &job.number) != 1)
			break;
		put(&job);
		pthread_mutex_lock(&job.lock);
		while (!job.done)
			pthread_cond_wait(&job.ended, &job.lock);
		pthread_mutex_unlock(&job.lock);
		send(from, ANSWER, strlen(ANSWER), 0);
	}
	close(from);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3)
		return 2;
	by_pipe = !strcmp(argv[1], "pipe");
	back = atoi(argv[2]);
	if (pipe(ends))
		fail("pipe");
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&thread, NULL, work, NULL);
	serve(handle);
}

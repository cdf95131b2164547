/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the agent changes classes: the places at which work is handed from one thread to another. docs/java-attach.md
 * explains each group.
 */
#ifndef AGENT_POINTS_H
#define AGENT_POINTS_H

/* What is done in a method. "The object" is the argument in slot `slot`; slot 0 is the object of the method itself. */
enum action {
	SUBMITS,   /* at its begin: the object gets the cause that acts now */
	BORN,	   /* at its end: the same; it is a constructor */
	SUSPENDS,  /* at its begin: as SUBMITS for a continuation of a coroutine, whose own cause it stays */
	SUSPENDED, /* at its end: the same; it is a constructor */
	RECEIVES,  /* at its begin: a coroutine without a cause of its own acts for that of the object */
	BEGINS,	   /* at its begin: the cause of the object acts, until an ENDS */
	ENDS,	   /* at its begin: what a BEGINS has begun ends */
	TAKES,	   /* at its begin: a worker runs the object next, until it is idle */
	IDLES,	   /* at its begin: a worker is idle */
	SEALS,	   /* at its begin: a connection of TLS, the object, is about to encrypt something */
	SEALED,	   /* at its begin: a record of TLS is encrypted from a buffer */
	WRITTEN,   /* the same for one that is written to a socket: the object is the connection */
	OPENED,	   /* at its end: a record of TLS was read, and what it holds is the result */
	TURNS,	   /* at its begin: the cause of the object acts until the method around ends */
	STREAMS,   /* as SUBMITS for the number of a stream of HTTP/2 whose request is about to be written */
	WRAPS,	   /* from its begin to its end the cause of the object acts */
	FRAMES,	   /* the same for the number of a stream from which a frame has come */
	CONTINUES, /* the same for a continuation; without a cause of its own, the cause that acted before acts on */
	STARTS,	   /* from its begin to its end a new coroutine acts for the cause that acts now, as its own */
	RUNS,	   /* calls of `Runnable.run()` in it: as WRAPS with the Runnable, which is forgotten then */
	EXECS,	   /* the same for ForkJoinTask.exec() */
	FIRES,	   /* the same for CompletableFuture's Completion.tryFire() */
};

#define ENTRIES RUNS /* actions below this one put something to the begin of a method */

struct point {
	const char *class; /* with a `*` in front: classes whose names end so, as libraries are copied into others */
	const char *method;
	const char *descriptor; /* its begin; with a `*` in front: a part of it */
	uint8_t action;
	uint8_t slot; /* 0 to 3 */
};

#define RUNNABLE "(Ljava/lang/Runnable;"
#define FORK_JOIN_TASK "(Ljava/util/concurrent/ForkJoinTask;"
#define APACHE "*org/apache/hc/core5/"
#define COROUTINES "kotlinx/coroutines/"
#define EXECUTION_FLOW "io/micronaut/core/execution/DelayedExecutionFlowImpl"
#define WRITE_CIPHER "(Lsun/security/ssl/SSLCipher$SSLWriteCipher;"

static const struct point POINTS[] = {
	/* The executors of the JDK */
	{ "java/util/concurrent/ThreadPoolExecutor", "execute", RUNNABLE, SUBMITS, 1 },
	{ "java/util/concurrent/ThreadPoolExecutor", "runWorker", "", RUNS, 0 },
	{ "java/util/concurrent/ThreadPoolExecutor", "beforeExecute", "", TAKES, 2 },
	{ "java/util/concurrent/ThreadPoolExecutor", "getTask", "", IDLES, 0 },
	{ "java/util/concurrent/ScheduledThreadPoolExecutor", "delayedExecute", "", SUBMITS, 1 },
	{ "java/util/concurrent/ForkJoinPool$WorkQueue", "push", FORK_JOIN_TASK, SUBMITS, 1 },
	{ "java/util/concurrent/ForkJoinPool$WorkQueue", "lockedPush", FORK_JOIN_TASK, SUBMITS, 1 },
	{ "java/util/concurrent/ForkJoinTask", "doExec", "", EXECS, 0 },
	{ "java/util/concurrent/CompletableFuture", "unipush", "", SUBMITS, 1 },
	{ "java/util/concurrent/CompletableFuture", "bipush", "", SUBMITS, 2 },
	{ "java/util/concurrent/CompletableFuture", "orpush", "", SUBMITS, 2 },
	{ "java/util/concurrent/CompletableFuture", "postComplete", "", FIRES, 0 },
	{ "java/util/concurrent/CompletableFuture$CoCompletion", "tryFire", "", FIRES, 0 },
	/* Virtual threads: from the thread that starts one to the thread itself */
	{ "java/lang/VirtualThread", "start", "(Ljdk/internal/vm/ThreadContainer;)", SUBMITS, 0 },
	{ "java/lang/VirtualThread", "run", RUNNABLE, WRAPS, 0 },
	/* The JDK's client: events that its selector's thread is to handle */
	{ "jdk/internal/net/http/HttpClientImpl$SelectorManager", "register", "", SUBMITS, 1 },
	{ "jdk/internal/net/http/HttpClientImpl$SelectorManager", "eventUpdated", "", SUBMITS, 1 },
	{ "jdk/internal/net/http/HttpClientImpl$SelectorManager", "handleEvent", "", WRAPS, 1 },
	{ "jdk/internal/net/http/AsyncTriggerEvent", "handle", "", WRAPS, 0 },
	/* TLS of the JDK (tls.h) */
	{ "sun/security/ssl/SSLEngineOutputRecord", "encode", "([Ljava/nio/ByteBuffer;II[", SEALS, 0 },
	{ "sun/security/ssl/OutputRecord", "encrypt", WRITE_CIPHER "BLjava/nio/ByteBuffer;", SEALED, 0 },
	{ "sun/security/ssl/OutputRecord", "encrypt", WRITE_CIPHER "BI)", WRITTEN, 0 },
	{ "sun/security/ssl/SSLTransport", "decode", "(Lsun/security/ssl/TransportContext;", OPENED, 0 },
	/* Executors of servers */
	{ "org/apache/tomcat/util/threads/ThreadPoolExecutor", "executeInternal", RUNNABLE, SUBMITS, 1 },
	{ "org/apache/tomcat/util/threads/ThreadPoolExecutor", "runWorker", "", RUNS, 0 },
	{ "org/apache/tomcat/util/threads/ThreadPoolExecutor", "beforeExecute", "", TAKES, 2 },
	{ "org/apache/tomcat/util/threads/ThreadPoolExecutor", "getTask", "", IDLES, 0 },
	{ "org/eclipse/jetty/util/thread/QueuedThreadPool", "execute", RUNNABLE, SUBMITS, 1 },
	{ "org/eclipse/jetty/util/thread/QueuedThreadPool", "runJob", RUNNABLE, RUNS, 0 },
	{ "org/jboss/threads/EnhancedQueueExecutor", "execute", RUNNABLE, SUBMITS, 1 },
	{ "org/jboss/threads/EnhancedQueueExecutor$Task", "doRunWith", RUNNABLE, WRAPS, 1 },
	{ "org/xnio/nio/WorkerThread", "execute", RUNNABLE, SUBMITS, 1 },
	{ "org/xnio/nio/WorkerThread", "queueTask", RUNNABLE, SUBMITS, 1 },
	{ "org/xnio/nio/WorkerThread", "safeRun", RUNNABLE, RUNS, 0 },
	/* Vert.x: each request has a context of its own, on which all runs that was asked for it */
	{ "io/vertx/core/impl/DuplicatedContext", "<init>", "", BORN, 0 },
	{ "io/vertx/core/impl/VertxImpl", "beginDispatch", "", BEGINS, 1 },
	{ "io/vertx/core/impl/VertxImpl", "endDispatch", "", ENDS, 0 },
	{ "io/vertx/core/impl/TaskQueue", "execute", RUNNABLE, SUBMITS, 1 },
	{ "io/vertx/core/impl/TaskQueue", "run", "", RUNS, 0 },
	/* Netty's loops */
	{ "*io/netty/util/concurrent/SingleThreadEventExecutor", "addTask", RUNNABLE, SUBMITS, 1 },
	{ "*io/netty/util/concurrent/AbstractScheduledEventExecutor", "schedule", "*ScheduledFutureTask;)", SUBMITS,
	  1 },
	{ "*io/netty/util/concurrent/AbstractEventExecutor", "runTask", RUNNABLE, RUNS, 0 },
	{ "*io/netty/util/concurrent/AbstractEventExecutor", "safeExecute", RUNNABLE, RUNS, 0 },
	/*
	 * Kotlin's coroutines. Any thread may resume one, so that each keeps the cause for which it was started, or
	 * for which it has waited. One that has none, such as the loop of a connection, acts for the thread's.
	 */
	{ COROUTINES "AbstractCoroutine", "start", "", STARTS, 0 },
	{ COROUTINES "internal/DispatchedContinuation", "<init>", "", SUSPENDED, 0 },
	{ COROUTINES "CancellableContinuationImpl", "<init>", "", SUSPENDED, 0 },
	{ COROUTINES "CancellableContinuationImpl", "resetStateReusable", "", SUSPENDS, 0 },
	{ COROUTINES "DispatchedTask", "run", "", CONTINUES, 0 },
	{ COROUTINES "DispatchedTaskKt", "resume", "", CONTINUES, 0 },
	{ COROUTINES "internal/DispatchedContinuation", "resumeWith", "", CONTINUES, 0 },
	{ COROUTINES "internal/DispatchedContinuationKt", "resumeCancellableWith", "", CONTINUES, 0 },
	{ COROUTINES "internal/DispatchedContinuationKt", "resumeCancellableWithInternal", "", CONTINUES, 0 },
	{ COROUTINES "internal/LimitedDispatcher", "dispatch", "", SUBMITS, 2 },
	{ COROUTINES "internal/LimitedDispatcher", "dispatchYield", "", SUBMITS, 2 },
	{ COROUTINES "internal/LimitedDispatcher$Worker", "run", "", RUNS, 0 },
	{ COROUTINES "scheduling/CoroutineScheduler", "submitToLocalQueue", "", SUBMITS, 2 },
	{ COROUTINES "scheduling/CoroutineScheduler", "runSafely", "", WRAPS, 1 },
	/* Ktor's channels of bytes: what a connection has brought, for the coroutine that parses it */
	{ "io/ktor/utils/io/ByteChannel", "flushWriteBuffer", "", SUBMITS, 0 },
	{ "io/ktor/utils/io/ByteChannel", "moveFlushToReadBuffer", "", RECEIVES, 0 },
	/* Its loop of a selector serves all, so that whoever has woken the loop is no cause of what it does */
	{ "io/ktor/network/selector/SelectorManagerSupport", "handleSelectedKeys", "", RECEIVES, 0 },
	/* Micronaut's futures: a dependent, when it is registered */
	{ EXECUTION_FLOW, "next", "", SUBMITS, 1 },
	{ EXECUTION_FLOW "$Map", "apply", "", WRAPS, 0 },
	{ EXECUTION_FLOW "$FlatMap", "apply", "", WRAPS, 0 },
	{ EXECUTION_FLOW "$Then", "apply", "", WRAPS, 0 },
	{ EXECUTION_FLOW "$OnErrorResume", "apply", "", WRAPS, 0 },
	{ EXECUTION_FLOW "$OnComplete", "apply", "", WRAPS, 0 },
	{ EXECUTION_FLOW "$OnCompleteToFuture", "apply", "", WRAPS, 0 },
	/* Apache's asynchronous client: those that wait for a connection, and requests for the reactor's thread */
	{ APACHE "concurrent/BasicFuture", "<init>", "", BORN, 0 },
	{ APACHE "concurrent/BasicFuture", "completed", "", WRAPS, 0 },
	{ APACHE "concurrent/BasicFuture", "failed", "", WRAPS, 0 },
	{ APACHE "concurrent/BasicFuture", "cancel", "", WRAPS, 0 },
	{ APACHE "reactor/IOSessionRequest", "<init>", "", BORN, 0 },
	{ APACHE "reactor/SingleCoreIOReactor", "processConnectionRequest", "", WRAPS, 2 },
	{ APACHE "reactor/IOSessionImpl", "enqueue", "", SUBMITS, 1 },
	{ APACHE "http/impl/nio/ClientHttp1StreamDuplexer", "execute", "", WRAPS, 1 },
	{ APACHE "http/impl/nio/ClientHttp1StreamHandler", "<init>", "", BORN, 0 },
	{ APACHE "http/impl/nio/ClientHttp1StreamHandler", "produceOutput", "", WRAPS, 0 },
	/* Streams of Netty's HTTP/2 */
	{ "*io/netty/handler/codec/http2/DefaultHttp2ConnectionEncoder", "writeHeaders0", "", STREAMS, 2 },
	{ "*io/netty/handler/codec/http2/DefaultHttp2ConnectionDecoder$FrameReadListener", "onHeadersRead", "", FRAMES,
	  2 },
	{ "*io/netty/handler/codec/http2/DefaultHttp2ConnectionDecoder$FrameReadListener", "onDataRead", "", FRAMES,
	  2 },
	/* gRPC: the queue of what is written, and the executors of its calls */
	{ "*io/grpc/netty/WriteQueue", "enqueue", "", SUBMITS, 1 },
	{ "*io/grpc/netty/WriteQueue$AbstractQueuedCommand", "run", "", WRAPS, 0 },
	{ "*io/grpc/internal/DelayedStream", "start", "", SUBMITS, 0 },
	{ "*io/grpc/internal/DelayedClientTransport$PendingStream", "createRealStream", "", WRAPS, 0 },
	{ "*io/grpc/internal/DelayedClientCall", "start", "", SUBMITS, 0 },
	{ "*io/grpc/internal/ManagedChannelImpl$RealChannel$PendingCall", "reprocess", "", WRAPS, 0 },
	{ "io/grpc/internal/SerializingExecutor", "execute", RUNNABLE, SUBMITS, 1 },
	{ "io/grpc/internal/SerializingExecutor", "run", "", RUNS, 0 },
	{ "io/grpc/stub/ClientCalls$ThreadlessExecutor", "execute", RUNNABLE, SUBMITS, 1 },
	{ "io/grpc/stub/ClientCalls$ThreadlessExecutor", "runQuietly", RUNNABLE, RUNS, 0 },
	/* Reactive code that waits for a turn: in a pool of connections, or for an answer on a shared connection */
	{ "*reactor/pool/AbstractPool$Borrower", "request", "", SUBMITS, 0 },
	{ "*reactor/pool/AbstractPool$Borrower", "deliver", "", WRAPS, 0 },
	{ "*reactor/pool/AbstractPool$Borrower", "fail", "", WRAPS, 0 },
	{ "*reactor/pool/AbstractPool$Borrower", "cancel", "", WRAPS, 0 },
	{ "*reactor/pool/AbstractPool$Borrower", "run", "", WRAPS, 0 },
	{ "*reactor/pool/AbstractPool$Borrower", "stopPendingCountdown", "", TURNS, 0 },
	{ "*reactor/pool/SimpleDequePool", "drainLoop", "", WRAPS, 0 },
	{ "io/lettuce/core/RedisPublisher$RedisSubscription", "subscribe", "", SUBMITS, 0 },
	{ "io/lettuce/core/RedisPublisher$RedisSubscription", "onNext", "", WRAPS, 0 },
	{ "io/lettuce/core/RedisPublisher$RedisSubscription", "onAllDataRead", "", WRAPS, 0 },
	{ "io/lettuce/core/RedisPublisher$RedisSubscription", "onDataAvailable", "", WRAPS, 0 },
	{ "io/lettuce/core/RedisPublisher$RedisSubscription", "onError", "", WRAPS, 0 },
};

#define POINT_COUNT (sizeof(POINTS) / sizeof(POINTS[0]))

static bool is_class(const struct point *p, const uint8_t *name, size_t n)
{
	const char *wanted = p->class;
	size_t end;

	if (*wanted != '*')
		return same(name, n, wanted);
	end = length(++wanted);
	return n >= end && same(name + n - end, end, wanted);
}

static bool is_method(const struct point *p, const uint8_t *name, size_t n, const uint8_t *descriptor, size_t d)
{
	const char *wanted = p->descriptor;
	size_t part;

	if (!same(name, n, p->method))
		return false;
	if (*wanted != '*')
		return d >= length(wanted) && same(descriptor, length(wanted), wanted);
	part = length(++wanted);
	for (size_t at = 0; at + part <= d; at++)
		if (same(descriptor + at, part, wanted))
			return true;
	return false;
}

/* Whether any point is in this class. */
static bool has_points(const uint8_t *name, size_t n)
{
	for (size_t i = 0; i < POINT_COUNT; i++)
		if (is_class(&POINTS[i], name, n))
			return true;
	return false;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent that `--attach-java` loads into a Java machine. It changes the classes in points.h, so that they tell which
 * task is handed over, begins and ends, by calls of functions that do nothing: the kernel programs watch them
 * (bpf/runtime/java/agent.h). When wirespan ends, however it ends, the pipe that it holds open shows an end, and the
 * agent gives all classes back their own code.
 *
 * It uses no library, allocates what the machine gives it, and writes no memory of the machine or the program.
 */
#include "class.h"
#include "made.h"
#include "system.h"
#include "tls.h"

/*
 * What the kernel programs watch. The first instruction is one that the kernel need not run for the probe. The number
 * of the object is the third argument.
 */
#define WATCHED_WITH(name, ...)                              \
	EXPORT __attribute__((naked)) void name(__VA_ARGS__) \
	{                                                    \
		__asm__ volatile(WATCHED_INSTRUCTIONS);      \
	}
#define WATCHED(name) WATCHED_WITH(name, void)

WATCHED(wirespan_java_submitted)
WATCHED(wirespan_java_begins)
WATCHED(wirespan_java_resumes)
WATCHED(wirespan_java_sends)
WATCHED(wirespan_java_gets)
WATCHED(wirespan_java_ends)
WATCHED(wirespan_java_takes)
WATCHED(wirespan_java_turns)
WATCHED(wirespan_java_idle)
WATCHED(wirespan_java_seals)
WATCHED(wirespan_java_suspends)
WATCHED(wirespan_java_proceeds)
WATCHED(wirespan_java_starts)
WATCHED(wirespan_java_receives)
#define UNUSED __attribute__((unused))
#define PLAINTEXT UNUSED const uint8_t *bytes, UNUSED long shown, UNUSED long length, UNUSED long connection
/* They are called from here: with other parameters than the caller's, the compiler may drop arguments. */
WATCHED_WITH(wirespan_java_writes, PLAINTEXT)
WATCHED_WITH(wirespan_java_reads, PLAINTEXT)

static void writes(interface jni, object class, object record, object cipher, int32_t type, object buffer)
{
	(void)class;
	show_written(jni, wirespan_java_writes, record, cipher, type, buffer);
}

static void reads(interface jni, object class, object plaintext, object context)
{
	(void)class;
	show_read(jni, wirespan_java_reads, plaintext, context);
}

static const struct native FUNCTIONS[] = {
	{ "submitted", "(I)V", wirespan_java_submitted }, { "begins", "(I)V", wirespan_java_begins },
	{ "resumes", "(I)V", wirespan_java_resumes },	  { "sends", "(I)V", wirespan_java_sends },
	{ "gets", "(I)V", wirespan_java_gets },		  { "ends", "()V", wirespan_java_ends },
	{ "takes", "(I)V", wirespan_java_takes },	  { "idle", "()V", wirespan_java_idle },
	{ "turns", "(I)V", wirespan_java_turns },	  { "seals", "(I)V", wirespan_java_seals },
	{ "suspends", "(I)V", wirespan_java_suspends },	  { "proceeds", "(I)V", wirespan_java_proceeds },
	{ "starts", "()V", wirespan_java_starts },	  { "receives", "(I)V", wirespan_java_receives },
	{ "writes", WRITES_DESCRIPTOR, writes },	  { "reads", READS_DESCRIPTOR, reads },
};

static volatile bool active;

static void class_loads(interface ti, interface jni, object redefined, object loader, const char *name, object domain,
			int32_t size, const uint8_t *bytes, int32_t *new_size, uint8_t **new_bytes)
{
	size_t changed = 0;
	uint8_t *to;

	(void)jni, (void)redefined, (void)loader, (void)domain;
	if (!active || !name || size <= 0 || !has_points((const uint8_t *)name, length(name)))
		return;
	to = change_class(ti, bytes, size, &changed);
	if (!to)
		return;
	*new_bytes = to;
	*new_size = changed;
}

/* A class of the boot loader, which is made unless an earlier agent has; NULL on failure. */
static object find_or_make(interface jni, const char *name, size_t (*make)(uint8_t *))
{
	uint8_t bytes[HELPER_ROOM];
	object class = CALL(object, jni, JNI_FIND_CLASS, const char *)(jni, name);
	size_t size;

	if (class)
		return class;
	CALL(void, jni, JNI_EXCEPTION_CLEAR)(jni);
	size = make(bytes);
	if (size)
		class = CALL(object, jni, JNI_DEFINE_CLASS, const char *, object, const uint8_t *,
			     int32_t)(jni, name, NULL, bytes, size);
	if (!class)
		CALL(void, jni, JNI_EXCEPTION_CLEAR)(jni);
	return class;
}

/* Makes both classes of made.h, lets the second read the first, and names the native functions. */
static bool make_classes(interface ti, interface jni)
{
	object facts = find_or_make(jni, FACTS, make_facts), helper = find_or_make(jni, HELPER, make_helper), from, to;

	if (!facts || !helper)
		return false;
	from = CALL(object, jni, JNI_GET_MODULE, object)(jni, helper);
	to = CALL(object, jni, JNI_GET_MODULE, object)(jni, facts);
	return from && to && !CALL(int, ti, TI_ADD_READS, object, object)(ti, from, to) &&
	       !CALL(int32_t, jni, JNI_REGISTER_NATIVES, object, const struct native *,
		     int32_t)(jni, facts, FUNCTIONS, sizeof(FUNCTIONS) / sizeof(FUNCTIONS[0]));
}

/* Whether a class is to be changed. Its signature is `Lname;`. */
static bool is_wanted(interface ti, object class)
{
	uint8_t modifiable = 0;
	char *signature = NULL;
	bool wanted;

	if (CALL(int, ti, TI_SIGNATURE, object, char **, char **)(ti, class, &signature, NULL) || !signature)
		return false;
	wanted = signature[0] == 'L' && has_points((const uint8_t *)signature + 1, length(signature) - 2);
	release(ti, signature);
	return wanted && !CALL(int, ti, TI_IS_MODIFIABLE, object, uint8_t *)(ti, class, &modifiable) && modifiable;
}

/* Changes all wanted classes, or changes them back, in one stop of the program. */
static int transform(interface ti, interface jni)
{
	object *classes = NULL;
	int32_t count = 0, wanted = 0;
	int error = CALL(int, ti, TI_LOADED_CLASSES, int32_t *, object **)(ti, &count, &classes);

	if (error)
		return error;
	for (int32_t i = 0; i < count; i++) {
		if (is_wanted(ti, classes[i]))
			classes[wanted++] = classes[i];
		else
			CALL(void, jni, JNI_DELETE_LOCAL_REF, object)(jni, classes[i]);
	}
	if (wanted)
		error = CALL(int, ti, TI_RETRANSFORM, int32_t, const object *)(ti, wanted, classes);
	for (int32_t i = 0; i < wanted; i++)
		CALL(void, jni, JNI_DELETE_LOCAL_REF, object)(jni, classes[i]);
	release(ti, classes);
	return error;
}

/* Waits until wirespan has ended. */
static void wait_for_end(interface ti, interface jni, void *pipe)
{
	char byte;
	long n;

	do {
		n = system_read((long)pipe, &byte, 1);
	} while (n > 0 || n == -SYSTEM_INTERRUPTED);
	system_close((long)pipe);
	active = false;
	transform(ti, jni);
	CALL(int, ti, TI_SET_EVENT, int, int, object)(ti, 0, TI_CLASS_FILE_LOAD, NULL);
	CALL(int, ti, TI_DISPOSE)(ti);
}

static bool start_thread(interface ti, interface jni, long pipe)
{
	object class = CALL(object, jni, JNI_FIND_CLASS, const char *)(jni, "java/lang/Thread"), name, thread = NULL,
	       made = class ? CALL(object, jni, JNI_GET_METHOD, object, const char *,
				   const char *)(jni, class, "<init>", "(Ljava/lang/String;)V")
			    : NULL;

	if (made) {
		name = CALL(object, jni, JNI_NEW_STRING, const char *)(jni, "wirespan");
		thread = CALL(object, jni, JNI_NEW_OBJECT, object, object, object *)(jni, class, made, &name);
	}
	if (!thread) {
		CALL(void, jni, JNI_EXCEPTION_CLEAR)(jni);
		return false;
	}
	return !CALL(int, ti, TI_RUN_THREAD, object, void *, void *, int)(ti, thread, wait_for_end, (void *)pipe,
									  TI_LOWEST_PRIORITY);
}

/* Numbers that Agent_OnAttach() returns; crates/capture/src/agent/java has their meaning. */
enum { AGENT_READY = 0, AGENT_NO_JVMTI = 101, AGENT_NO_PIPE, AGENT_NO_CLASS, AGENT_NO_CHANGE, AGENT_NO_THREAD };

static int begin(interface ti, interface jni, const char *pipe_name)
{
	uint64_t capabilities[2] = { TI_CAN_RETRANSFORM };
	void *callbacks[TI_CLASS_FILE_LOAD - TI_FIRST_EVENT + 1] = {};
	long pipe;
	int error = AGENT_READY;

	callbacks[TI_CLASS_FILE_LOAD - TI_FIRST_EVENT] = class_loads;
	if (CALL(int, ti, TI_ADD_CAPABILITIES, const uint64_t *)(ti, capabilities) ||
	    CALL(int, ti, TI_SET_CALLBACKS, void **, int32_t)(ti, callbacks, sizeof(callbacks)))
		return AGENT_NO_JVMTI;
	pipe = system_open(pipe_name);
	if (pipe < 0)
		return AGENT_NO_PIPE;
	if (!make_classes(ti, jni)) {
		error = AGENT_NO_CLASS;
	} else {
		active = true;
		if (CALL(int, ti, TI_SET_EVENT, int, int, object)(ti, 1, TI_CLASS_FILE_LOAD, NULL) ||
		    transform(ti, jni))
			error = AGENT_NO_CHANGE;
		else if (!start_thread(ti, jni, pipe))
			error = AGENT_NO_THREAD;
		if (error) {
			active = false;
			transform(ti, jni);
		}
	}
	if (error)
		system_close(pipe);
	return error;
}

/* Called by the machine. `options`: the path of the pipe that wirespan holds open. */
EXPORT int32_t Agent_OnAttach(interface vm, char *options, void *reserved)
{
	interface ti = NULL, jni = NULL;
	int error;

	(void)reserved;
	if (!options || CALL(int32_t, vm, VM_GET_ENV, interface *, int32_t)(vm, &ti, JVMTI_VERSION) ||
	    CALL(int32_t, vm, VM_GET_ENV, interface *, int32_t)(vm, &jni, JNI_VERSION))
		return AGENT_NO_JVMTI;
	error = begin(ti, jni, options);
	if (error)
		CALL(int, ti, TI_DISPOSE)(ti);
	return error;
}

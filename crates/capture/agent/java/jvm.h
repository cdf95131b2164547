/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of JNI and JVMTI that the agent calls, by their places in the tables of these interfaces. Both
 * specifications fix the places for good. So the build needs no JDK.
 */
#ifndef AGENT_JVM_H
#define AGENT_JVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef void *object; /* jobject, jclass, jthread, jmethodID */

/* A JavaVM, JNIEnv or jvmtiEnv: a pointer to its table of functions. */
typedef const void *const *const *interface;

/* Calls entry `at` of a table; the types of the arguments follow, that of the interface first. */
#define CALL(result, on, at, ...) ((result(*)(interface, ##__VA_ARGS__))(*(on))[at])

/* JNI: numbers of entries, from 0 */
enum {
	JNI_DEFINE_CLASS = 5,
	JNI_FIND_CLASS = 6,
	JNI_EXCEPTION_CLEAR = 17,
	JNI_NEW_GLOBAL_REF = 21,
	JNI_DELETE_LOCAL_REF = 23,
	JNI_NEW_OBJECT = 30, /* NewObjectA */
	JNI_GET_METHOD = 33,
	JNI_CALL_INT = 51, /* CallIntMethodA */
	JNI_GET_FIELD = 94,
	JNI_OBJECT_FIELD = 95,
	JNI_BYTE_FIELD = 97,
	JNI_INT_FIELD = 100,
	JNI_LONG_FIELD = 101,
	JNI_GET_STATIC_METHOD = 113,
	JNI_CALL_STATIC_INT = 131, /* CallStaticIntMethodA */
	JNI_NEW_STRING = 167,
	JNI_BYTE_REGION = 200, /* GetByteArrayRegion */
	JNI_REGISTER_NATIVES = 215,
	JNI_EXCEPTION_CHECK = 228,
	JNI_GET_MODULE = 233,
};

/* Invocation interface */
enum { VM_GET_ENV = 6 };
#define JNI_VERSION 0x00010008
#define JVMTI_VERSION 0x30010200

/* JVMTI: numbers of the specification count from 1 */
enum {
	TI_SET_EVENT = 2 - 1,
	TI_RUN_THREAD = 12 - 1,
	TI_IS_MODIFIABLE = 45 - 1,
	TI_ALLOCATE = 46 - 1,
	TI_DEALLOCATE = 47 - 1,
	TI_SIGNATURE = 48 - 1,
	TI_LOADED_CLASSES = 78 - 1,
	TI_ADD_READS = 94 - 1,
	TI_SET_CALLBACKS = 122 - 1,
	TI_DISPOSE = 127 - 1,
	TI_ADD_CAPABILITIES = 142 - 1,
	TI_RETRANSFORM = 152 - 1,
};

#define TI_CLASS_FILE_LOAD 54 /* the event; the table of callbacks begins with event 50 */
#define TI_FIRST_EVENT 50
#define TI_CAN_RETRANSFORM (1ULL << 37)
#define TI_LOWEST_PRIORITY 1

struct native {
	const char *name;
	const char *descriptor;
	void *function;
};

static inline void *allocate(interface ti, size_t size)
{
	void *memory = NULL;

	if (CALL(int, ti, TI_ALLOCATE, int64_t, void **)(ti, (int64_t)size, &memory))
		return NULL;
	return memory;
}

static inline void release(interface ti, void *memory)
{
	if (memory)
		CALL(int, ti, TI_DEALLOCATE, void *)(ti, memory);
}

#endif

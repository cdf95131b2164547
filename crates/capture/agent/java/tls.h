/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plaintext of the JDK's own TLS (JSSE). All its connections encrypt and decrypt records by the same three methods, and
 * each connection has one OutputRecord: its identity hash is the number of the connection. The first bytes of each
 * record of application data are copied to the stack, and shown to the kernel programs (bpf/tls/java.h) by a call of a
 * function that does nothing.
 *
 * Fields are looked up when the first record passes, not when the agent comes: the lookup initialises a class, and
 * JSSE's classes read properties then, which the program may still set.
 */
#ifndef AGENT_TLS_H
#define AGENT_TLS_H

#include "jvm.h"

#define SHOWN 4096 /* most bytes of a record that are copied: WS_MAX_PLAINTEXT in bpf/wire.h */
#define APPLICATION_DATA 23
#define RECORD_HEADER 5

typedef void watched_plaintext(const uint8_t *bytes, long shown, long length, long connection);

/* Where things are in the objects of JSSE. */
struct places {
	object system, hash; /* System.identityHashCode() */
	object nonce;	     /* SSLWriteCipher.getExplicitNonceSize() */
	object record;	     /* TransportContext.outputRecord */
	object type, fragment;
	object array, offset, position, limit, address; /* of a ByteBuffer */
	object bytes, count;				/* of a ByteArrayOutputStream */
};

enum { PLACES_UNKNOWN, PLACES_KNOWN, PLACES_MISSING };
static volatile int places_state;
static struct places places;

/* A field or method; NULL, without an exception, if there is none. */
static object member(interface jni, int function, const char *class, const char *name, const char *descriptor)
{
	object of = CALL(object, jni, JNI_FIND_CLASS, const char *)(jni, class), found = NULL;

	if (of)
		found = CALL(object, jni, function, object, const char *, const char *)(jni, of, name, descriptor);
	if (!found)
		CALL(void, jni, JNI_EXCEPTION_CLEAR)(jni);
	if (of)
		CALL(void, jni, JNI_DELETE_LOCAL_REF, object)(jni, of);
	return found;
}

#define FIELD(class, name, descriptor) member(jni, JNI_GET_FIELD, class, name, descriptor)

/* Finds the places once. Threads that do so at the same time find the same. */
static bool find_places(interface jni)
{
	struct places found = {
		.hash = member(jni, JNI_GET_STATIC_METHOD, "java/lang/System", "identityHashCode",
			       "(Ljava/lang/Object;)I"),
		.nonce = member(jni, JNI_GET_METHOD, "sun/security/ssl/SSLCipher$SSLWriteCipher",
				"getExplicitNonceSize", "()I"),
		.record = FIELD("sun/security/ssl/TransportContext", "outputRecord", "Lsun/security/ssl/OutputRecord;"),
		.type = FIELD("sun/security/ssl/Plaintext", "contentType", "B"),
		.fragment = FIELD("sun/security/ssl/Plaintext", "fragment", "Ljava/nio/ByteBuffer;"),
		.array = FIELD("java/nio/ByteBuffer", "hb", "[B"),
		.offset = FIELD("java/nio/ByteBuffer", "offset", "I"),
		.position = FIELD("java/nio/Buffer", "position", "I"),
		.limit = FIELD("java/nio/Buffer", "limit", "I"),
		.address = FIELD("java/nio/Buffer", "address", "J"),
		.bytes = FIELD("java/io/ByteArrayOutputStream", "buf", "[B"),
		.count = FIELD("java/io/ByteArrayOutputStream", "count", "I"),
	};
	object system;

	if (places_state != PLACES_UNKNOWN)
		return places_state == PLACES_KNOWN;
	system = CALL(object, jni, JNI_FIND_CLASS, const char *)(jni, "java/lang/System");
	if (system)
		found.system = CALL(object, jni, JNI_NEW_GLOBAL_REF, object)(jni, system);
	for (size_t i = 0; i < sizeof(found) / sizeof(object); i++) {
		if (!((object *)&found)[i]) {
			places_state = PLACES_MISSING;
			return false;
		}
	}
	places = found;
	__atomic_store_n(&places_state, PLACES_KNOWN, __ATOMIC_RELEASE);
	return true;
}

static bool knows_places(interface jni)
{
	int state = __atomic_load_n(&places_state, __ATOMIC_ACQUIRE);

	return state == PLACES_KNOWN || (state == PLACES_UNKNOWN && find_places(jni));
}

static object object_in(interface jni, object of, object field)
{
	return CALL(object, jni, JNI_OBJECT_FIELD, object, object)(jni, of, field);
}

static int32_t number_in(interface jni, object of, object field)
{
	return CALL(int32_t, jni, JNI_INT_FIELD, object, object)(jni, of, field);
}

/* Whether the last call has thrown, which is forgotten. */
static bool has_thrown(interface jni)
{
	if (!CALL(uint8_t, jni, JNI_EXCEPTION_CHECK)(jni))
		return false;
	CALL(void, jni, JNI_EXCEPTION_CLEAR)(jni);
	return true;
}

/* The number of an object; 0 on failure. */
static long number_of(interface jni, object of)
{
	int32_t hash =
		CALL(int32_t, jni, JNI_CALL_STATIC_INT, object, object, object *)(jni, places.system, places.hash, &of);

	return has_thrown(jni) ? 0 : hash;
}

/* Shows `length` bytes of an array. */
static void show_array(interface jni, watched_plaintext *show, object array, int32_t from, int32_t length,
		       long connection)
{
	uint8_t bytes[SHOWN];
	int32_t shown = length < SHOWN ? length : SHOWN;

	CALL(void, jni, JNI_BYTE_REGION, object, int32_t, int32_t, uint8_t *)(jni, array, from, shown, bytes);
	if (!has_thrown(jni))
		show(bytes, shown, length, connection);
}

/* Shows what is in a buffer between `from` and its limit. */
static void show_buffer(interface jni, watched_plaintext *show, object buffer, int32_t from, long connection)
{
	int32_t length = number_in(jni, buffer, places.limit) - from;
	object array = object_in(jni, buffer, places.array);
	const uint8_t *address;

	if (length <= 0)
		return;
	if (array) {
		show_array(jni, show, array, number_in(jni, buffer, places.offset) + from, length, connection);
		return;
	}
	address = (const uint8_t *)CALL(int64_t, jni, JNI_LONG_FIELD, object, object)(jni, buffer, places.address);
	if (address)
		show(address + from, length < SHOWN ? length : SHOWN, length, connection);
}

/*
 * A record is encrypted. `record` is its connection, and holds the plaintext; or NULL if that is in `buffer`, of the
 * connection that this thread has named last.
 */
static void show_written(interface jni, watched_plaintext *show, object record, object cipher, int32_t type,
			 object buffer)
{
	int32_t from, count;
	long connection;

	if (!knows_places(jni))
		return;
	if (!record) {
		if (type == APPLICATION_DATA && buffer)
			show_buffer(jni, show, buffer, number_in(jni, buffer, places.position), 0);
		return;
	}
	connection = number_of(jni, record);
	if (type != APPLICATION_DATA) { /* of the handshake: its send shows the socket */
		show(NULL, 0, 0, connection);
		return;
	}
	from = RECORD_HEADER +
	       CALL(int32_t, jni, JNI_CALL_INT, object, object, object *)(jni, cipher, places.nonce, NULL);
	if (has_thrown(jni))
		return;
	count = number_in(jni, record, places.count);
	if (count > from)
		show_array(jni, show, object_in(jni, record, places.bytes), from, count - from, connection);
}

/* A record was read on a connection. Its fragment has been copied to the program, so its position is at its end. */
static void show_read(interface jni, watched_plaintext *show, object plaintext, object context)
{
	object record, fragment;
	long connection;

	if (!plaintext || !context || !knows_places(jni))
		return;
	record = object_in(jni, context, places.record);
	if (!record)
		return;
	connection = number_of(jni, record);
	fragment = object_in(jni, plaintext, places.fragment);
	if (fragment &&
	    CALL(int8_t, jni, JNI_BYTE_FIELD, object, object)(jni, plaintext, places.type) == APPLICATION_DATA)
		show_buffer(jni, show, fragment, 0, connection);
	else
		show(NULL, 0, 0, connection);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the classes that changed methods call (made.h), and what a class file is written with. */
#ifndef AGENT_HELPER_H
#define AGENT_HELPER_H

#include "bytes.h"

#define HELPER "java/util/concurrent/WirespanTasks"
#define FACTS "wirespan/Facts"
#define TASK "Ljava/util/concurrent/ForkJoinTask;"
#define COMPLETION "java/util/concurrent/CompletableFuture$Completion"
#define FUTURE "java/util/concurrent/CompletableFuture"
#define OBJECT "Ljava/lang/Object;"
#define WRITES_DESCRIPTOR "(" OBJECT OBJECT "I" OBJECT ")V"
#define READS_DESCRIPTOR "(" OBJECT OBJECT ")V"
#define MOST_ARGUMENTS 4 /* of a method of these classes */

enum tag { UTF8 = 1, CLASS = 7, METHOD = 10, INTERFACE_METHOD = 11, NAME_AND_TYPE = 12 };

#define ACC_PUBLIC_FINAL_SUPER 0x0031
#define ACC_PUBLIC_STATIC 0x0009
#define ACC_NATIVE 0x0100
#define JAVA_5 49

/* Appends constants to a pool; `count` is the index of the next. */
struct pool {
	struct writer *to;
	uint32_t count;
};

static uint32_t add_text(struct pool *p, const char *text)
{
	put(p->to, 1, UTF8);
	put(p->to, 2, length(text));
	put_bytes(p->to, text, length(text));
	return p->count++;
}

static uint32_t add_pair(struct pool *p, enum tag tag, uint32_t first, uint32_t second)
{
	put(p->to, 1, tag);
	put(p->to, 2, first);
	if (tag != CLASS)
		put(p->to, 2, second);
	return p->count++;
}

static uint32_t add_class(struct pool *p, const char *name)
{
	return add_pair(p, CLASS, add_text(p, name), 0);
}

static uint32_t add_method(struct pool *p, enum tag tag, uint32_t class, const char *name, const char *descriptor)
{
	uint32_t named = add_text(p, name);

	return add_pair(p, tag, class, add_pair(p, NAME_AND_TYPE, named, add_text(p, descriptor)));
}

enum opcode {
	ACONST_NULL = 0x01,
	ILOAD_0 = 0x1a,
	ALOAD_0 = 0x2a,
	DUP = 0x59,
	IRETURN = 0xac,
	ARETURN = 0xb0,
	RETURN = 0xb1,
	INVOKEVIRTUAL = 0xb6,
	INVOKESTATIC = 0xb8,
	INVOKEINTERFACE = 0xb9,
	ATHROW = 0xbf,
};

#endif

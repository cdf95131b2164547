/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes that changed methods call, made byte by byte, as there is no compiler of Java here:
 *
 *   package wirespan;
 *   public final class Facts {
 *       public static native void submitted(int id), begins(int id), resumes(int id), ends();
 *       public static native void takes(int id), turns(int id), idle(), seals(int id);
 *       public static native void suspends(int id), proceeds(int id), starts(), receives(int id);
 *       public static native void sends(int stream), gets(int stream);
 *       public static native void writes(Object record, Object cipher, int type, Object buffer);
 *       public static native void reads(Object plaintext, Object context);
 *   }
 *
 *   package java.util.concurrent;
 *   public final class WirespanTasks {
 *       public static void submit(Object o) { Facts.submitted(System.identityHashCode(o)); }
 *       … the same for resume(), take(), turn(), seal(), suspend(), proceed(), receive(): resumes(), …
 *       public static void stream(int number) { Facts.sends(number); }
 *       … the same for frame(), end(), idle(), start(), write(), read(): gets(), ends(), idle(), …
 *       public static void run(Runnable task) { Facts.begins(…); try { task.run(); } finally { Facts.ends(); } }
 *       public static boolean exec(ForkJoinTask task) { as run(), with task.exec() }
 *       public static CompletableFuture fire(CompletableFuture.Completion c, int mode) { …, with c.tryFire(mode) }
 *   }
 *
 * Both belong to the boot loader. WirespanTasks is in a package that is exported to every class of every loader, and in
 * this one because exec() and tryFire() are not public. The native functions are in a class of no module, because the
 * machine warns when functions of its own modules are named. The version is that of Java 5: methods need no stack maps.
 */
#ifndef AGENT_MADE_H
#define AGENT_MADE_H

#include "helper.h"

/* One method of the helper. */
struct made {
	const char *name;
	const char *descriptor;
	uint32_t before; /* native method that is called first, with the number of the object, if there is one */
	uint32_t calls;	 /* method of the object that is called then; 0: none */
	uint8_t how;	 /* opcode of that call */
	uint8_t returns; /* opcode */
	bool forwards;	 /* `before` gets the arguments as they are */
};

static void put_call(struct writer *w, uint8_t how, uint32_t method)
{
	put(w, 1, how);
	put(w, 2, method);
	if (how == INVOKEINTERFACE)
		put(w, 2, 1 << 8); /* one word of arguments, and a zero */
}

/* Puts all arguments on the stack. Each is an object or an int. */
static void put_arguments(struct writer *w, const char *descriptor)
{
	for (uint8_t slot = 0; *++descriptor != ')'; slot++) {
		put(w, 1, (*descriptor == 'I' ? ILOAD_0 : ALOAD_0) + slot);
		while (*descriptor != 'I' && *descriptor != ';')
			descriptor++;
	}
}

static void put_code(struct writer *w, const struct made *m, uint32_t hash, uint32_t ends)
{
	size_t start = w->next, from, to;

	if (m->forwards) {
		put_arguments(w, m->descriptor);
	} else if (same((const uint8_t *)m->descriptor, length("(I)V"), "(I)V")) {
		put(w, 1, ILOAD_0);
	} else if (m->descriptor[1] != ')') {
		put(w, 1, ALOAD_0);
		put_call(w, INVOKESTATIC, hash);
	}
	put_call(w, INVOKESTATIC, m->before);
	from = w->next - start;
	if (m->calls) {
		put(w, 1, ALOAD_0);
		if (m->returns == ARETURN)
			put(w, 1, ILOAD_0 + 1);
		put_call(w, m->how, m->calls);
		to = w->next - start;
		put_call(w, INVOKESTATIC, ends); /* the result stays on the stack */
	}
	put(w, 1, m->returns);
	if (m->calls) { /* the handler of exceptions, and its table of one entry */
		size_t handler = w->next - start;

		put_call(w, INVOKESTATIC, ends);
		put(w, 1, ATHROW);
		put_at(w, start - 4, 4, w->next - start);
		put(w, 2, 1);
		put(w, 2, from);
		put(w, 2, to);
		put(w, 2, handler);
		put(w, 2, 0);
	} else {
		put_at(w, start - 4, 4, w->next - start);
		put(w, 2, 0);
	}
	put(w, 2, 0); /* attributes */
}

static void put_method(struct pool *texts, struct writer *w, const struct made *m, uint32_t code, uint32_t hash,
		       uint32_t ends)
{
	size_t at;

	put(w, 2, ACC_PUBLIC_STATIC | (m->returns ? 0 : ACC_NATIVE));
	put(w, 2, add_text(texts, m->name));
	put(w, 2, add_text(texts, m->descriptor));
	put(w, 2, m->returns ? 1 : 0);
	if (!m->returns)
		return;
	put(w, 2, code);
	at = w->next;
	put(w, 4, 0);
	put(w, 2, MOST_ARGUMENTS); /* stack */
	put(w, 2, MOST_ARGUMENTS); /* locals */
	put(w, 4, 0);
	put_code(w, m, hash, ends);
	put_length(w, at);
}

#define HELPER_ROOM 4096

/*
 * Begins a class: the one that has the native methods, or the one that calls these methods. Its pool of constants
 * begins with the names of the class and of its superclass.
 */
static void begin_class(struct writer *w, struct pool *pool, uint32_t *class, uint32_t *top, const char *name)
{
	put(w, 4, 0xcafebabe);
	put(w, 4, JAVA_5);
	put(w, 2, 0); /* the number of constants: end_class() */
	*class = add_class(pool, name);
	*top = add_class(pool, "java/lang/Object");
}

static size_t end_class(struct writer *w, const struct pool *pool, uint32_t class, uint32_t top,
			const struct writer *methods)
{
	put_at(w, 8, 2, pool->count);
	put(w, 2, ACC_PUBLIC_FINAL_SUPER);
	put(w, 2, class);
	put(w, 2, top);
	put(w, 4, 0); /* interfaces, fields */
	put_bytes(w, methods->at, methods->next);
	put(w, 2, 0); /* attributes */
	return w->bad || methods->bad ? 0 : w->next;
}

/* Writes the class into HELPER_ROOM bytes; returns its length, 0 if that is too little. */
static size_t make_facts(uint8_t *bytes)
{
	static const struct made NATIVES[] = {
		{ .name = "submitted", .descriptor = "(I)V" },
		{ .name = "begins", .descriptor = "(I)V" },
		{ .name = "resumes", .descriptor = "(I)V" },
		{ .name = "sends", .descriptor = "(I)V" },
		{ .name = "gets", .descriptor = "(I)V" },
		{ .name = "ends", .descriptor = "()V" },
		{ .name = "takes", .descriptor = "(I)V" },
		{ .name = "idle", .descriptor = "()V" },
		{ .name = "turns", .descriptor = "(I)V" },
		{ .name = "seals", .descriptor = "(I)V" },
		{ .name = "suspends", .descriptor = "(I)V" },
		{ .name = "proceeds", .descriptor = "(I)V" },
		{ .name = "starts", .descriptor = "()V" },
		{ .name = "receives", .descriptor = "(I)V" },
		{ .name = "writes", .descriptor = WRITES_DESCRIPTOR },
		{ .name = "reads", .descriptor = READS_DESCRIPTOR },
	};
	uint8_t room[HELPER_ROOM];
	struct writer w = { .at = bytes, .room = HELPER_ROOM }, methods = { .at = room, .room = HELPER_ROOM };
	struct pool pool = { .to = &w, .count = 1 };
	uint32_t class, top;

	begin_class(&w, &pool, &class, &top, FACTS);
	put(&methods, 2, sizeof(NATIVES) / sizeof(NATIVES[0]));
	for (size_t i = 0; i < sizeof(NATIVES) / sizeof(NATIVES[0]); i++)
		put_method(&pool, &methods, &NATIVES[i], 0, 0, 0);
	return end_class(&w, &pool, class, top, &methods);
}

/* The same for the class that changed methods call. */
static size_t make_helper(uint8_t *bytes)
{
	uint8_t room[HELPER_ROOM];
	struct writer w = { .at = bytes, .room = HELPER_ROOM }, methods = { .at = room, .room = HELPER_ROOM };
	struct pool pool = { .to = &w, .count = 1 };
	uint32_t helper, top, code, facts, hash, submitted, begins, resumes, sends, gets, ends, takes, turns, idle;
	uint32_t run, exec, fire, seals, writes, reads, suspends, proceeds, starts, receives;

	begin_class(&w, &pool, &helper, &top, HELPER);
	code = add_text(&pool, "Code");
	facts = add_class(&pool, FACTS);
	hash = add_method(&pool, METHOD, add_class(&pool, "java/lang/System"), "identityHashCode",
			  "(Ljava/lang/Object;)I");
	submitted = add_method(&pool, METHOD, facts, "submitted", "(I)V");
	begins = add_method(&pool, METHOD, facts, "begins", "(I)V");
	resumes = add_method(&pool, METHOD, facts, "resumes", "(I)V");
	sends = add_method(&pool, METHOD, facts, "sends", "(I)V");
	gets = add_method(&pool, METHOD, facts, "gets", "(I)V");
	ends = add_method(&pool, METHOD, facts, "ends", "()V");
	takes = add_method(&pool, METHOD, facts, "takes", "(I)V");
	turns = add_method(&pool, METHOD, facts, "turns", "(I)V");
	idle = add_method(&pool, METHOD, facts, "idle", "()V");
	seals = add_method(&pool, METHOD, facts, "seals", "(I)V");
	suspends = add_method(&pool, METHOD, facts, "suspends", "(I)V");
	proceeds = add_method(&pool, METHOD, facts, "proceeds", "(I)V");
	receives = add_method(&pool, METHOD, facts, "receives", "(I)V");
	starts = add_method(&pool, METHOD, facts, "starts", "()V");
	writes = add_method(&pool, METHOD, facts, "writes", WRITES_DESCRIPTOR);
	reads = add_method(&pool, METHOD, facts, "reads", READS_DESCRIPTOR);
	run = add_method(&pool, INTERFACE_METHOD, add_class(&pool, "java/lang/Runnable"), "run", "()V");
	exec = add_method(&pool, METHOD, add_class(&pool, "java/util/concurrent/ForkJoinTask"), "exec", "()Z");
	fire = add_method(&pool, METHOD, add_class(&pool, COMPLETION), "tryFire", "(I)L" FUTURE ";");
	const struct made all[] = {
		{ "submit", "(Ljava/lang/Object;)V", submitted, 0, 0, RETURN, false },
		{ "resume", "(Ljava/lang/Object;)V", resumes, 0, 0, RETURN, false },
		{ "stream", "(I)V", sends, 0, 0, RETURN, false },
		{ "frame", "(I)V", gets, 0, 0, RETURN, false },
		{ "end", "()V", ends, 0, 0, RETURN, false },
		{ "take", "(Ljava/lang/Object;)V", takes, 0, 0, RETURN, false },
		{ "turn", "(Ljava/lang/Object;)V", turns, 0, 0, RETURN, false },
		{ "idle", "()V", idle, 0, 0, RETURN, false },
		{ "seal", "(Ljava/lang/Object;)V", seals, 0, 0, RETURN, false },
		{ "suspend", "(Ljava/lang/Object;)V", suspends, 0, 0, RETURN, false },
		{ "proceed", "(Ljava/lang/Object;)V", proceeds, 0, 0, RETURN, false },
		{ "receive", "(Ljava/lang/Object;)V", receives, 0, 0, RETURN, false },
		{ "start", "()V", starts, 0, 0, RETURN, false },
		{ "write", WRITES_DESCRIPTOR, writes, 0, 0, RETURN, true },
		{ "read", READS_DESCRIPTOR, reads, 0, 0, RETURN, true },
		{ "run", "(Ljava/lang/Runnable;)V", begins, run, INVOKEINTERFACE, RETURN, false },
		{ "exec", "(" TASK ")Z", begins, exec, INVOKEVIRTUAL, IRETURN, false },
		{ "fire", "(L" COMPLETION ";I)L" FUTURE ";", begins, fire, INVOKEVIRTUAL, ARETURN, false },
	};
	put(&methods, 2, sizeof(all) / sizeof(all[0]));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		put_method(&pool, &methods, &all[i], code, hash, ends);
	return end_class(&w, &pool, helper, top, &methods);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a class file: puts the calls of the helper to the points of this class (points.h). */
#ifndef AGENT_CLASS_H
#define AGENT_CLASS_H

#include "frames.h"
#include "points.h"

#define MOST_CONSTANTS 65000
#define ROOM_FOR_CONSTANTS 2048
#define JAVA_6 50 /* the first version with stack maps */

struct change {
	interface ti;
	const uint8_t *bytes;
	uint32_t *constants; /* where each constant begins; 0: none */
	uint32_t count;
	uint32_t version;
	/* Indices of new constants */
	uint32_t at_entry[ENTRIES]; /* by action */
	uint32_t ends, run, exec, fire, thrown, frames;
	struct writer out;
	bool changed;
};

/* What is done in one method. */
struct task {
	const struct point *entry; /* NULL: nothing at its begin */
	bool runs, execs, fires;
};

/* A text of the pool: its length, and its bytes at `*at`. */
static uint32_t text_of(const struct change *c, uint32_t index, const uint8_t **at)
{
	const uint8_t *constant = c->bytes + (index < c->count ? c->constants[index] : 0);

	*at = constant + 3;
	return index < c->count && c->constants[index] && *constant == UTF8 ? number_at(constant + 1, 2) : 0;
}

/* Number `at` of two bytes in a constant; 0 if the constant has not one of these tags. */
static uint32_t word_of(const struct change *c, uint32_t index, enum tag tag, enum tag other, uint32_t at)
{
	const uint8_t *constant = c->bytes + (index < c->count ? c->constants[index] : 0);

	if (index >= c->count || !c->constants[index] || (*constant != tag && *constant != other))
		return 0;
	return number_at(constant + 1 + at, 2);
}

static bool is_text(const struct change *c, uint32_t index, const char *text)
{
	const uint8_t *at;
	uint32_t n = text_of(c, index, &at);

	return n && same(at, n, text);
}

/* Whether the operand of a call names this method; of any class if `class` is NULL. */
static bool calls(const struct change *c, const uint8_t *operand, const char *class, const char *name,
		  const char *descriptor)
{
	uint32_t index = number_at(operand, 2), of = word_of(c, index, METHOD, INTERFACE_METHOD, 0),
		 named = word_of(c, index, METHOD, INTERFACE_METHOD, 2);

	return is_text(c, word_of(c, named, NAME_AND_TYPE, NAME_AND_TYPE, 0), name) &&
	       is_text(c, word_of(c, named, NAME_AND_TYPE, NAME_AND_TYPE, 2), descriptor) &&
	       (!class || is_text(c, word_of(c, of, CLASS, CLASS, 0), class));
}

/* The method of the helper that a call is replaced with; 0: it stays. */
static uint32_t instead(const struct change *c, const struct task *t, const uint8_t *code)
{
	if (t->runs && *code == INVOKEINTERFACE && calls(c, code + 1, "java/lang/Runnable", "run", "()V"))
		return c->run;
	if (t->execs && *code == INVOKEVIRTUAL && calls(c, code + 1, NULL, "exec", "()Z"))
		return c->exec;
	if (t->fires && *code == INVOKEVIRTUAL && calls(c, code + 1, NULL, "tryFire", "(I)L" FUTURE ";"))
		return c->fire;
	return 0;
}

/* Replaces calls. Their length stays: a call of an interface is two bytes longer than the new one. */
static bool replace_calls(struct change *c, const struct task *t, uint8_t *code, uint32_t size)
{
	uint32_t n, method;

	for (uint32_t pc = 0; pc < size; pc += n) {
		n = instruction_length(code, size, pc);
		if (!n)
			return false;
		method = instead(c, t, code + pc);
		if (!method)
			continue;
		code[pc] = INVOKESTATIC;
		code[pc + 1] = method >> 8;
		code[pc + 2] = method;
		for (uint32_t i = 3; i < n; i++)
			code[pc + i] = NOP;
		c->changed = true;
	}
	return true;
}

/* The attributes of the code. Those that are not known here may name places that have moved, and are left out. */
static void put_tables(struct change *c, struct reader *r, struct moves *m, uint32_t handler)
{
	size_t count_at = c->out.next, at;
	uint32_t count = take(r, 2), kept = 0, name;
	bool framed = false;
	struct reader of, none = {};

	put(&c->out, 2, 0);
	for (; count-- && !r->bad && !c->out.bad; kept++) {
		name = take(r, 2);
		of = part(r, take(r, 4));
		at = c->out.next;
		put(&c->out, 2, name);
		put(&c->out, 4, 0);
		if (is_text(c, name, "StackMapTable")) {
			framed = true;
			put_frames(&c->out, m, &of, handler, c->thrown);
		} else if (is_text(c, name, "LineNumberTable")) {
			put_lines(&c->out, m, &of);
		} else if (is_text(c, name, "LocalVariableTable") || is_text(c, name, "LocalVariableTypeTable")) {
			put_variables(&c->out, m, &of);
		} else {
			c->out.next = at;
			kept--;
			continue;
		}
		m->bad |= of.bad;
		put_length(&c->out, at + 2);
	}
	if (!framed && handler && c->version >= JAVA_6) {
		put(&c->out, 2, c->frames);
		at = c->out.next;
		put(&c->out, 4, 0);
		put_frames(&c->out, m, &none, handler, c->thrown);
		put_length(&c->out, at);
		kept++;
	}
	put_at(&c->out, count_at, 2, kept);
}

/* Writes the contents of a Code attribute whose begin or end changes. False if it cannot be changed. */
static bool put_changed(struct change *c, struct reader r, const uint8_t *code, const struct task *t)
{
	uint8_t action = t->entry->action, slot = t->entry->slot;
	bool wraps = action >= WRAPS;
	uint32_t stack = take(&r, 2), size, handlers, handler;
	struct moves m = { .wraps = wraps };

	put(&c->out, 2, stack ? stack : 1);
	put(&c->out, 2, take(&r, 2));
	m.size = size = take(&r, 4);
	part(&r, size);
	m.before = allocate(c->ti, (size + 1) * sizeof(*m.before));
	if (!m.before)
		return false;
	handler = plan_moves(&m, code);
	put(&c->out, 4, handler + (wraps ? INSERTED : 0));
	if (!m.bad)
		put_moved(&c->out, &m, code, (action == STREAMS || action == FRAMES ? ILOAD_0 : ALOAD_0) + slot,
			  c->at_entry[action], c->ends);
	handlers = take(&r, 2);
	put(&c->out, 2, handlers + wraps);
	while (handlers-- && !r.bad && !m.bad) {
		for (int i = 0; i < 3; i++)
			put(&c->out, 2, moved(&m, take(&r, 2)));
		put(&c->out, 2, take(&r, 2));
	}
	if (wraps) {
		put(&c->out, 2, INSERTED);
		put(&c->out, 2, handler);
		put(&c->out, 2, handler);
		put(&c->out, 2, 0);
	}
	put_tables(c, &r, &m, wraps ? handler : 0);
	release(c->ti, m.before);
	return !m.bad && !r.bad && !c->out.bad;
}

/* Writes the contents of a Code attribute. */
static void put_code_of(struct change *c, struct reader r, const struct task *t)
{
	struct reader look = r;
	size_t start = c->out.next, size;
	uint8_t *code;

	take(&look, 4);
	size = take(&look, 4);
	if (look.bad || size > look.size - look.next || size > MOST_CODE) {
		put_bytes(&c->out, r.at, r.size);
		return;
	}
	code = allocate(c->ti, size);
	if (code) {
		memcpy(code, look.at + look.next, size);
		if (replace_calls(c, t, code, size) && t->entry) {
			if (put_changed(c, r, code, t)) {
				c->changed = true;
				release(c->ti, code);
				return;
			}
			c->out.next = start;
			c->out.bad = false;
		}
	}
	put_bytes(&c->out, r.at, r.size);
	if (code && !c->out.bad)
		memcpy(c->out.at + start + look.next, code, size);
	release(c->ti, code);
}

/* The points of a class in this method. */
static struct task task_of(const struct change *c, uint32_t class, uint32_t name, uint32_t descriptor)
{
	const uint8_t *class_at, *name_at, *descriptor_at;
	uint32_t n = text_of(c, class, &class_at), m = text_of(c, name, &name_at),
		 d = text_of(c, descriptor, &descriptor_at);
	struct task t = {};

	for (size_t i = 0; i < POINT_COUNT; i++) {
		const struct point *p = &POINTS[i];

		if (!is_class(p, class_at, n) || !is_method(p, name_at, m, descriptor_at, d))
			continue;
		t.runs |= p->action == RUNS;
		t.execs |= p->action == EXECS;
		t.fires |= p->action == FIRES;
		if (p->action < ENTRIES)
			t.entry = p;
	}
	return t;
}

/* Copies fields or methods; in the latter, changes what `class` has points in (0: fields). */
static void put_members(struct change *c, struct reader *r, uint32_t class)
{
	uint32_t count = take(r, 2), name, descriptor, attributes, named;
	struct reader of;
	struct task t;
	size_t at;

	put(&c->out, 2, count);
	while (count-- && !r->bad && !c->out.bad) {
		put(&c->out, 2, take(r, 2));
		put(&c->out, 2, name = take(r, 2));
		put(&c->out, 2, descriptor = take(r, 2));
		t = class ? task_of(c, class, name, descriptor) : (struct task){};
		put(&c->out, 2, attributes = take(r, 2));
		while (attributes-- && !r->bad && !c->out.bad) {
			named = take(r, 2);
			of = part(r, take(r, 4));
			put(&c->out, 2, named);
			at = c->out.next;
			put(&c->out, 4, 0);
			if (is_text(c, named, "Code") && (t.entry || t.runs || t.execs || t.fires))
				put_code_of(c, of, &t);
			else
				put_bytes(&c->out, of.at, of.size);
			put_length(&c->out, at);
		}
	}
}

/* Finds where constants begin. False if the pool is not understood. */
static bool read_constants(struct change *c, struct reader *r)
{
	static const uint8_t LENGTHS[] = { 0, 0, 0, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 0, 0, 3, 2, 4, 4, 2, 2 };
	uint8_t tag;

	for (uint32_t i = 1; i < c->count; i++) {
		c->constants[i] = r->next;
		tag = take(r, 1);
		if (tag == UTF8)
			part(r, take(r, 2));
		else if (tag < sizeof(LENGTHS) && LENGTHS[tag])
			part(r, LENGTHS[tag]);
		else
			return false;
		if ((tag == 5 || tag == 6) && i + 1 < c->count) /* long and double take two places */
			c->constants[++i] = 0;
	}
	return !r->bad;
}

static void add_constants(struct change *c)
{
	struct pool pool = { .to = &c->out, .count = c->count };
	uint32_t helper = add_class(&pool, HELPER);

	c->at_entry[SUBMITS] = add_method(&pool, METHOD, helper, "submit", "(Ljava/lang/Object;)V");
	c->at_entry[STREAMS] = add_method(&pool, METHOD, helper, "stream", "(I)V");
	c->at_entry[WRAPS] = add_method(&pool, METHOD, helper, "resume", "(Ljava/lang/Object;)V");
	c->at_entry[FRAMES] = add_method(&pool, METHOD, helper, "frame", "(I)V");
	c->ends = add_method(&pool, METHOD, helper, "end", "()V");
	c->run = add_method(&pool, METHOD, helper, "run", "(Ljava/lang/Runnable;)V");
	c->exec = add_method(&pool, METHOD, helper, "exec", "(" TASK ")Z");
	c->fire = add_method(&pool, METHOD, helper, "fire", "(L" COMPLETION ";I)L" FUTURE ";");
	c->thrown = add_class(&pool, "java/lang/Throwable");
	c->frames = add_text(&pool, "StackMapTable");
	put_at(&c->out, 8, 2, pool.count);
}

static void put_class(struct change *c, struct reader *r)
{
	uint32_t this, interfaces;

	put_bytes(&c->out, r->at, r->next);
	add_constants(c);
	put(&c->out, 2, take(r, 2));
	put(&c->out, 2, this = take(r, 2));
	put(&c->out, 2, take(r, 2));
	put(&c->out, 2, interfaces = take(r, 2));
	while (interfaces-- && !r->bad)
		put(&c->out, 2, take(r, 2));
	put_members(c, r, 0);
	put_members(c, r, word_of(c, this, CLASS, CLASS, 0));
	put_bytes(&c->out, r->at + r->next, r->size - r->next);
}

/* The changed class, allocated for the machine, and its size; NULL if nothing changes, or it was not understood. */
static uint8_t *change_class(interface ti, const uint8_t *bytes, size_t size, size_t *new_size)
{
	struct reader r = { .at = bytes, .size = size };
	struct change c = { .ti = ti, .bytes = bytes };

	take(&r, 4);
	c.version = take(&r, 4) & 0xffff;
	c.count = take(&r, 2);
	if (r.bad || c.count > MOST_CONSTANTS)
		return NULL;
	c.constants = allocate(ti, c.count * sizeof(*c.constants));
	/* Each point adds a few instructions, and frames grow by two bytes at most. */
	c.out.room = 2 * size + ROOM_FOR_CONSTANTS;
	c.out.at = allocate(ti, c.out.room);
	if (c.constants && c.out.at && read_constants(&c, &r))
		put_class(&c, &r);
	release(ti, c.constants);
	if (c.changed && !c.out.bad && !r.bad) {
		*new_size = c.out.next;
		return c.out.at;
	}
	release(ti, c.out.at);
	return NULL;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a class file: puts the calls of the helper to the points of this class (points.h). */
#ifndef AGENT_CLASS_H
#define AGENT_CLASS_H

#include "constants.h"

/* What is done in one method. */
struct task {
	const struct point *entry; /* NULL: nothing at its begin */
	bool runs, execs, fires;
};

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

/* What is inserted for an action. `slot`: that of the object. */
static void plan_insertions(const struct change *c, struct moves *m, uint8_t action, uint8_t slot)
{
	static const uint8_t sealed[] = { ACONST_NULL, ALOAD_0, ILOAD_0 + 1, ALOAD_0 + 2 };
	static const uint8_t written[] = { ALOAD_0, ALOAD_0 + 1, ILOAD_0 + 2, ACONST_NULL };
	static const uint8_t opened[] = { DUP, ALOAD_0 };
	uint8_t load = (action == STREAMS || action == FRAMES ? ILOAD_0 : ALOAD_0) + slot;

	if (action == IDLES || action == ENDS || action == STARTS)
		load = NOP;
	m->wraps = action >= WRAPS;
	if (action == OPENED)
		m->last = insertion_of(opened, sizeof(opened), c->at_entry[action]);
	else if (action == BORN || action == SUSPENDED)
		m->last = insertion_of(&load, 1, c->at_entry[action]);
	else if (action == SEALED)
		m->first = insertion_of(sealed, sizeof(sealed), c->at_entry[action]);
	else if (action == WRITTEN)
		m->first = insertion_of(written, sizeof(written), c->at_entry[action]);
	else
		m->first = insertion_of(&load, 1, c->at_entry[action]);
	if (m->wraps)
		m->last = insertion_of(NULL, 0, c->ends);
}

/* Writes the contents of a Code attribute whose begin or end changes. False if it cannot be changed. */
static bool put_changed(struct change *c, struct reader r, const uint8_t *code, const struct task *t)
{
	uint32_t stack = take(&r, 2), size, handlers, handler;
	struct moves m = {};

	plan_insertions(c, &m, t->entry->action, t->entry->slot);
	put(&c->out, 2, stack + MOST_ARGUMENTS);
	put(&c->out, 2, take(&r, 2));
	m.size = size = take(&r, 4);
	part(&r, size);
	m.before = allocate(c->ti, (size + 1) * sizeof(*m.before));
	if (!m.before)
		return false;
	handler = plan_moves(&m, code);
	put(&c->out, 4, handler + (m.wraps ? HANDLER : 0));
	if (!m.bad)
		put_moved(&c->out, &m, code);
	handlers = take(&r, 2);
	put(&c->out, 2, handlers + m.wraps);
	while (handlers-- && !r.bad && !m.bad) {
		for (int i = 0; i < 3; i++)
			put(&c->out, 2, moved(&m, take(&r, 2)));
		put(&c->out, 2, take(&r, 2));
	}
	if (m.wraps) {
		put(&c->out, 2, m.first.size);
		put(&c->out, 2, handler);
		put(&c->out, 2, handler);
		put(&c->out, 2, 0);
	}
	put_tables(c, &r, &m, m.wraps ? handler : 0);
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

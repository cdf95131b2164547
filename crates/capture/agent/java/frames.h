/* SPDX-License-Identifier: Apache-2.0 */
/* The tables beside the code of a method whose instructions have moved: frames of the verifier, lines, variables. */
#ifndef AGENT_FRAMES_H
#define AGENT_FRAMES_H

#include "code.h"

/* Kinds of frames */
enum { ONE_ON_STACK = 64, ONE_ON_STACK_FAR = 247, SAME_FAR = 251, FULL = 255, FIRST_APPEND = 252 };
/* Types of variables with an operand */
enum { TYPE_OBJECT = 7, TYPE_NEW = 8 };

static void put_types(struct writer *w, struct moves *m, struct reader *r, uint32_t n)
{
	uint8_t tag;

	while (n-- && !r->bad && !w->bad) {
		tag = take(r, 1);
		put(w, 1, tag);
		if (tag == TYPE_OBJECT)
			put(w, 2, take(r, 2));
		else if (tag == TYPE_NEW) /* the place of the instruction that makes the object */
			put(w, 2, moved(m, take(r, 2)));
	}
}

/* Writes the frames; with a frame for the handler at `handler` (0: none), which has an exception of class `thrown`. */
static void put_frames(struct writer *w, struct moves *m, struct reader *r, uint32_t handler, uint32_t thrown)
{
	uint32_t count = r->size ? take(r, 2) : 0, pc = 0, last = 0, by, n;
	uint8_t kind;

	put(w, 2, count + (handler != 0));
	for (uint32_t i = 0; i < count && !r->bad && !w->bad && !m->bad; i++) {
		kind = take(r, 1);
		by = kind < 128 ? kind % ONE_ON_STACK : take(r, 2);
		pc += i ? by + 1 : by;
		by = moved(m, pc) - (i ? last + 1 : 0);
		last = moved(m, pc);
		if (kind < ONE_ON_STACK || kind == SAME_FAR) {
			put(w, 1, SAME_FAR);
			put(w, 2, by);
		} else if (kind < 128 || kind == ONE_ON_STACK_FAR) {
			put(w, 1, ONE_ON_STACK_FAR);
			put(w, 2, by);
			put_types(w, m, r, 1);
		} else {
			put(w, 1, kind);
			put(w, 2, by);
			if (kind >= FIRST_APPEND && kind < FULL) {
				put_types(w, m, r, kind - SAME_FAR);
			} else if (kind == FULL) {
				for (int both = 0; both < 2; both++) {
					n = take(r, 2);
					put(w, 2, n);
					put_types(w, m, r, n);
				}
			}
		}
	}
	if (!handler)
		return;
	put(w, 1, FULL);
	put(w, 2, handler - (count ? last + 1 : 0));
	put(w, 2, 0);
	put(w, 2, 1);
	put(w, 1, TYPE_OBJECT);
	put(w, 2, thrown);
}

static void put_lines(struct writer *w, struct moves *m, struct reader *r)
{
	uint32_t count = take(r, 2);

	put(w, 2, count);
	while (count-- && !r->bad && !w->bad) {
		put(w, 2, moved(m, take(r, 2)));
		put(w, 2, take(r, 2));
	}
}

static void put_variables(struct writer *w, struct moves *m, struct reader *r)
{
	uint32_t count = take(r, 2), from, to;

	put(w, 2, count);
	while (count-- && !r->bad && !w->bad) {
		from = take(r, 2);
		to = from + take(r, 2);
		put(w, 2, moved(m, from));
		put(w, 2, moved(m, to) - moved(m, from));
		put(w, 2, take(r, 2));
		put(w, 2, take(r, 2));
		put(w, 2, take(r, 2));
	}
}

#endif

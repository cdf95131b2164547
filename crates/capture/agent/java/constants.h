/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of a class file that is changed: those that it has, and those that the calls of the helper need. */
#ifndef AGENT_CONSTANTS_H
#define AGENT_CONSTANTS_H

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
	uint32_t at_entry[ENTRIES]; /* by action; of OPENED, at its end */
	uint32_t ends, run, exec, fire, thrown, frames;
	struct writer out;
	bool changed;
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
	c->at_entry[BORN] = c->at_entry[SUBMITS];
	c->at_entry[STREAMS] = add_method(&pool, METHOD, helper, "stream", "(I)V");
	c->at_entry[WRAPS] = add_method(&pool, METHOD, helper, "resume", "(Ljava/lang/Object;)V");
	c->at_entry[BEGINS] = c->at_entry[WRAPS];
	c->at_entry[SUSPENDS] = add_method(&pool, METHOD, helper, "suspend", "(Ljava/lang/Object;)V");
	c->at_entry[SUSPENDED] = c->at_entry[SUSPENDS];
	c->at_entry[RECEIVES] = add_method(&pool, METHOD, helper, "receive", "(Ljava/lang/Object;)V");
	c->at_entry[CONTINUES] = add_method(&pool, METHOD, helper, "proceed", "(Ljava/lang/Object;)V");
	c->at_entry[STARTS] = add_method(&pool, METHOD, helper, "start", "()V");
	c->at_entry[FRAMES] = add_method(&pool, METHOD, helper, "frame", "(I)V");
	c->at_entry[TAKES] = add_method(&pool, METHOD, helper, "take", "(Ljava/lang/Object;)V");
	c->at_entry[TURNS] = add_method(&pool, METHOD, helper, "turn", "(Ljava/lang/Object;)V");
	c->at_entry[IDLES] = add_method(&pool, METHOD, helper, "idle", "()V");
	c->at_entry[SEALS] = add_method(&pool, METHOD, helper, "seal", "(Ljava/lang/Object;)V");
	c->at_entry[SEALED] = c->at_entry[WRITTEN] = add_method(&pool, METHOD, helper, "write", WRITES_DESCRIPTOR);
	c->at_entry[OPENED] = add_method(&pool, METHOD, helper, "read", READS_DESCRIPTOR);
	c->at_entry[ENDS] = c->ends = add_method(&pool, METHOD, helper, "end", "()V");
	c->run = add_method(&pool, METHOD, helper, "run", "(Ljava/lang/Runnable;)V");
	c->exec = add_method(&pool, METHOD, helper, "exec", "(" TASK ")Z");
	c->fire = add_method(&pool, METHOD, helper, "fire", "(L" COMPLETION ";I)L" FUTURE ";");
	c->thrown = add_class(&pool, "java/lang/Throwable");
	c->frames = add_text(&pool, "StackMapTable");
	put_at(&c->out, 8, 2, pool.count);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inserts instructions into the code of a method. What is inserted is four or eight bytes long, so the padding of
 * switches, which goes by four bytes, stays as it is, and no instruction changes its size. A method that cannot be
 * changed so (a branch that would become too long, an unknown instruction) is left alone.
 */
#ifndef AGENT_CODE_H
#define AGENT_CODE_H

#include "helper.h"

#define MOST_INSERTED 8
#define HANDLER 4 /* bytes of the handler of exceptions */
#define NOP 0
#define GOTO 0xa7
#define JSR 0xa8
#define RET 0xa9
#define TABLESWITCH 0xaa
#define LOOKUPSWITCH 0xab
#define WIDE 0xc4
#define MULTIANEWARRAY 0xc5
#define IFNULL 0xc6
#define IFNONNULL 0xc7
#define GOTO_W 0xc8
#define JSR_W 0xc9
#define IINC 0x84
#define IFEQ 0x99
#define MOST_CODE 32000 /* a longer method could get branches that do not fit */

/* Bytes of an instruction without a length of its own; 0: none. */
static uint32_t fixed_length(uint8_t opcode)
{
	if (opcode > JSR_W || opcode == TABLESWITCH || opcode == LOOKUPSWITCH || opcode == WIDE)
		return 0;
	if (opcode == 0x10 || opcode == 0x12 || opcode == 0xbc) /* bipush, ldc, newarray */
		return 2;
	if (opcode >= 0x15 && opcode <= 0x19) /* loads */
		return 2;
	if (opcode >= 0x36 && opcode <= 0x3a) /* stores */
		return 2;
	if (opcode == RET)
		return 2;
	if (opcode == 0x11 || opcode == 0x13 || opcode == 0x14 || opcode == IINC) /* sipush, ldc_w, ldc2_w */
		return 3;
	if (opcode >= IFEQ && opcode <= JSR)
		return 3;
	if (opcode >= 0xb2 && opcode <= INVOKESTATIC) /* fields and calls */
		return 3;
	if (opcode == 0xbb || opcode == 0xbd || opcode == 0xc0 || opcode == 0xc1) /* new, anewarray, casts */
		return 3;
	if (opcode == IFNULL || opcode == IFNONNULL)
		return 3;
	if (opcode == MULTIANEWARRAY)
		return 4;
	if (opcode == INVOKEINTERFACE || opcode == 0xba || opcode >= GOTO_W) /* invokedynamic */
		return 5;
	return 1;
}

/* Bytes of the instruction at `pc`; 0 if it is none. */
static uint32_t instruction_length(const uint8_t *code, uint32_t size, uint32_t pc)
{
	struct reader r = { .at = code, .size = size, .next = (pc + 4) & ~3U };
	uint32_t n = fixed_length(code[pc]), low, high;

	if (n)
		return n <= size - pc ? n : 0;
	if (r.next > size)
		return 0;
	switch (code[pc]) {
	case WIDE:
		if (pc + 1 >= size)
			return 0;
		n = code[pc + 1] == IINC ? 6 : 4;
		break;
	case TABLESWITCH:
		take(&r, 4);
		low = take(&r, 4);
		high = take(&r, 4);
		if (r.bad || high - low >= size)
			return 0;
		n = r.next - pc + 4 * (high - low + 1);
		break;
	case LOOKUPSWITCH:
		take(&r, 4);
		high = take(&r, 4);
		if (r.bad || high >= size)
			return 0;
		n = r.next - pc + 8 * high;
		break;
	default:
		return 0;
	}
	return n <= size - pc ? n : 0;
}

static bool is_return(uint8_t opcode)
{
	return opcode >= IRETURN && opcode <= RETURN;
}

/* Instructions that are inserted at one place. */
struct insertion {
	uint8_t bytes[MOST_INSERTED];
	uint32_t size; /* 0, 4 or 8 */
};

/* Loads, and a static call; all else are NOPs. */
static struct insertion insertion_of(const uint8_t *loads, uint32_t count, uint32_t method)
{
	struct insertion i = { .size = count + 3 <= 4 ? 4 : MOST_INSERTED };

	memcpy(i.bytes, loads, count);
	i.bytes[count] = INVOKESTATIC;
	i.bytes[count + 1] = method >> 8;
	i.bytes[count + 2] = method;
	return i;
}

/*
 * Where things move. `before[pc]`: bytes that are inserted before what stands at `pc`, if a branch to `pc` must not
 * run them; 0xffff: no instruction begins there.
 */
struct moves {
	uint16_t *before;
	uint32_t size;		/* of the code */
	size_t start;		/* where the new code begins in its writer */
	struct insertion first; /* at the begin */
	struct insertion last;	/* before each return */
	bool wraps;		/* `last` also where exceptions come */
	bool bad;
};

/* The new place of a target: of a branch, of a frame, of the border of a range. */
static uint32_t moved(struct moves *m, uint32_t pc)
{
	if (pc > m->size || m->before[pc] == 0xffff) {
		m->bad = true;
		return 0;
	}
	return pc + m->before[pc];
}

/* Fills in `before`. Returns the size of the new code. */
static uint32_t plan_moves(struct moves *m, const uint8_t *code)
{
	uint32_t inserted = m->first.size, pc = 0, n;

	for (uint32_t i = 0; i <= m->size; i++)
		m->before[i] = 0xffff;
	while (pc < m->size) {
		n = instruction_length(code, m->size, pc);
		if (!n) {
			m->bad = true;
			return 0;
		}
		m->before[pc] = inserted;
		if (is_return(code[pc]))
			inserted += m->last.size;
		pc += n;
	}
	m->before[m->size] = inserted;
	return m->size + inserted;
}

/* Writes the branch of an instruction that stood at `pc` and stands at the end of `w` less `back` bytes. */
static void put_branch(struct writer *w, struct moves *m, uint32_t pc, uint32_t back, uint32_t offset, uint32_t bytes)
{
	int32_t by = moved(m, pc + offset) - (uint32_t)(w->next - back - m->start);

	if (bytes == 2 && by != (int16_t)by)
		m->bad = true;
	put(w, bytes, by);
}

static void put_switch(struct writer *w, struct moves *m, const uint8_t *code, uint32_t pc, uint32_t n)
{
	uint32_t start = w->next, at = (pc + 4) & ~3U, cases;

	put_bytes(w, code + pc, at - pc);
	put_branch(w, m, pc, w->next - start, number_at(code + at, 4), 4);
	at += 4;
	if (code[pc] == TABLESWITCH) {
		put_bytes(w, code + at, 8);
		at += 8;
	} else {
		put_bytes(w, code + at, 4);
		at += 4;
	}
	cases = code[pc] == TABLESWITCH ? (pc + n - at) / 4 : (pc + n - at) / 8;
	for (uint32_t i = 0; i < cases; i++) {
		if (code[pc] == LOOKUPSWITCH) {
			put_bytes(w, code + at, 4);
			at += 4;
		}
		put_branch(w, m, pc, w->next - start, number_at(code + at, 4), 4);
		at += 4;
	}
}

/* Writes the code with what is inserted. */
static void put_moved(struct writer *w, struct moves *m, const uint8_t *code)
{
	uint32_t n;
	uint8_t opcode;

	m->start = w->next;
	put_bytes(w, m->first.bytes, m->first.size);
	for (uint32_t pc = 0; pc < m->size; pc += n) {
		opcode = code[pc];
		n = instruction_length(code, m->size, pc);
		if (is_return(opcode))
			put_bytes(w, m->last.bytes, m->last.size);
		if ((opcode >= IFEQ && opcode <= JSR) || opcode == IFNULL || opcode == IFNONNULL) {
			put(w, 1, opcode);
			put_branch(w, m, pc, 1, (int16_t)number_at(code + pc + 1, 2), 2);
		} else if (opcode == GOTO_W || opcode == JSR_W) {
			put(w, 1, opcode);
			put_branch(w, m, pc, 1, number_at(code + pc + 1, 4), 4);
		} else if (opcode == TABLESWITCH || opcode == LOOKUPSWITCH) {
			put_switch(w, m, code, pc, n);
		} else {
			put_bytes(w, code + pc, n);
		}
	}
	if (m->wraps) {
		put_bytes(w, m->last.bytes, HANDLER - 1);
		put(w, 1, ATHROW);
	}
}

#endif

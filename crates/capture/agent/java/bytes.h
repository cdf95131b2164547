/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes without a C library: the library of the process may be glibc or musl, so the agent uses neither. Readers and
 * writers of class files, whose numbers are big-endian; a read or write beyond the end sets `bad`, and gives 0.
 */
#ifndef AGENT_BYTES_H
#define AGENT_BYTES_H

#include "jvm.h"

/* The compiler may call these. */
void *memcpy(void *to, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile uint8_t *)to)[i] = byte;
	return to;
}

static size_t length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

static bool same(const uint8_t *bytes, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (!text[i] || bytes[i] != (uint8_t)text[i])
			return false;
	return !text[n];
}

struct reader {
	const uint8_t *at;
	size_t size;
	size_t next;
	bool bad;
};

static uint32_t take(struct reader *r, size_t n)
{
	uint32_t value = 0;

	if (r->bad || n > r->size - r->next) {
		r->bad = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		value = value << 8 | r->at[r->next++];
	return value;
}

/* The next `n` bytes as a reader of their own. */
static struct reader part(struct reader *r, size_t n)
{
	struct reader of = { .at = r->at + r->next, .size = n };

	if (r->bad || n > r->size - r->next) {
		r->bad = true;
		return (struct reader){ .at = r->at, .bad = true };
	}
	r->next += n;
	return of;
}

static uint32_t number_at(const uint8_t *at, size_t n)
{
	struct reader r = { .at = at, .size = n };

	return take(&r, n);
}

struct writer {
	uint8_t *at;
	size_t room;
	size_t next;
	bool bad;
};

static void put_at(struct writer *w, size_t at, size_t n, uint32_t value)
{
	if (w->bad || at > w->room || n > w->room - at) {
		w->bad = true;
		return;
	}
	for (size_t i = n; i-- > 0; value >>= 8)
		w->at[at + i] = value;
}

static void put(struct writer *w, size_t n, uint32_t value)
{
	put_at(w, w->next, n, value);
	w->next += n;
}

static void put_bytes(struct writer *w, const void *bytes, size_t n)
{
	if (w->bad || n > w->room - w->next) {
		w->bad = true;
		return;
	}
	memcpy(w->at + w->next, bytes, n);
	w->next += n;
}

/* Fills in a number of four bytes that was left out at `at`: how many bytes follow it. */
static void put_length(struct writer *w, size_t at)
{
	put_at(w, at, 4, w->next - at - 4);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Puts `traceparent` into requests of HTTP/2 and gRPC: a field at the end of the block of headers, and the length of
 * the frame grown by it. The field is one that no table of HPACK keeps, so nothing else in the connection changes.
 */
#ifndef WS_INJECT_HTTP2_H
#define WS_INJECT_HTTP2_H

#define WS_H2_LONGEST_JOINED 16384

/* What the contexts of all requests of a call have in common. */
struct h2_put {
	struct sk_msg_md *message;
	struct h2_sock *h;
	struct inject_sock *i;
	__u64 cookie;
	__u64 cause; /* of the sender; WS_PROVISIONAL: not known */
	__u32 pid;
	__u32 seq; /* of the first byte of the message */
};

/*
 * The cause of the request on a stream, as its program named it; else that of the sender, if the call holds no other
 * request. A process that has never read a request acts for none, even if it is not known for which. This function and
 * the next are global, so that the verifier follows each once.
 */
__noinline __u64 h2_cause(__u64 name, __u64 sender, __u32 pid, __u32 requests)
{
	__u64 *named = bpf_map_lookup_elem(&stream_causes, &name), cause = sender;

	if (sender && !is_provisional(sender))
		note_serving(pid);
	if (named)
		cause = *named;
	else if (requests > 1 && sender)
		cause = WS_PROVISIONAL;
	return is_provisional(cause) && !bpf_map_lookup_elem(&serving, &pid) ? 0 : cause;
}

/* Writes the field into the gap at `end`, and the length of its frame. False: take the gap out again. */
static __always_inline bool h2_write(struct sk_msg_md *m, const struct h2_request *r, const __u8 *text)
{
	__u32 length = r->end - r->frame - WS_H2_HEAD + WS_H2_TEXT;
	__u8 *data, *end;

	/* The gap is a piece of its own, so this only moves the window, and needs no memory. */
	if (bpf_msg_pull_data(m, r->end, r->end + WS_H2_TEXT, 0))
		return false;
	data = m->data;
	end = m->data_end;
	if (data + WS_H2_TEXT > end)
		return false;
	__builtin_memcpy(data, text, WS_H2_TEXT);
	if (bpf_msg_pull_data(m, r->frame, r->frame + WS_H2_HEAD, 0))
		return false;
	data = m->data;
	end = m->data_end;
	if (data + WS_H2_HEAD > end)
		return false;
	data[0] = length >> 16;
	data[1] = length >> 8;
	data[2] = length;
	return true;
}

/* Returns its argument: the verifier forgets in which ways it came about. */
__noinline __u64 h2_sender(__u64 cause)
{
	barrier_var(cause);
	return cause;
}

/* Chooses the context of a request, and writes its field. 0 if it must not get one. */
__noinline int h2_choose(struct inject_sock *i, __u64 cause, __u64 name, __u32 stream)
{
	if (!i || !context_of(&i->sent, cause, name, stream))
		return 0;
	write_field(i->text, &i->sent);
	return 1;
}

/* Gives a request its context. The contexts of the requests before it have moved its place. */
static long h2_put(__u32 n, struct h2_put *p)
{
	struct h2_sock *h = p->h;
	struct h2_request r = h->requests[n & (WS_H2_AT_ONCE - 1)];
	__u64 name = by_stream(p->cookie, r.stream);
	struct inject_sock *i = p->i;

	r.frame += h->put * WS_H2_TEXT;
	r.end += h->put * WS_H2_TEXT;
	if (!name || !h2_choose(i, h2_cause(name, p->cause, p->pid, h->count), name, r.stream)) {
		inject_count(WS_I_INJECT_UNKNOWN_CONTEXT);
		return 0;
	}
	if (bpf_msg_push_data(p->message, r.end, WS_H2_TEXT, 0)) {
		inject_fail();
		return 1;
	}
	if (!h2_write(p->message, &r, i->text)) {
		inject_fail();
		h->broken = bpf_msg_pop_data(p->message, r.end, WS_H2_TEXT, 0) != 0;
		return 1;
	}
	h->put++;
	h->last = r.end + WS_H2_TEXT;
	inject_count(WS_I_INJECTED);
	tell_injected(&i->sent, p->cookie, p->seq + r.frame, r.end - r.frame, WS_H2_TEXT, r.stream);
	return 0;
}

static __always_inline void h2_begin(struct bpf_sock *sk, struct inject_sock *i, __u32 seq)
{
	struct h2_sock *h = bpf_sk_storage_get(&h2_socks, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!h) {
		i->leave = 1;
		return;
	}
	i->http2 = 1;
	h->followed = seq + WS_H2_PREFACE;
	h->solid = seq;
}

static __always_inline bool is_preface(struct sk_msg_md *m)
{
	__u8 *data = m->data, *end = m->data_end;

	return data + WS_H2_PREFACE <= end && *(__u64 *)data == WS_TEXT('P', 'R', 'I', ' ', '*', ' ', 'H', 'T') &&
	       *(__u64 *)(data + 16) == WS_TEXT('\r', '\n', 'S', 'M', '\r', '\n', '\r', '\n');
}

/* Looks at a message on a connection of HTTP/2. Returns the verdict. */
static __noinline int h2_message(struct sk_msg_md *m, struct inject_sock *i, struct sock_state *s, struct task_state *t,
				 __u32 seq)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct h2_put p = { .message = m, .i = i, .seq = seq };
	struct h2_walk w = { .message = m };
	struct bpf_sock *sk = m->sk;
	struct h2_sock *h;
	__s32 ahead;

	if (!sk || !i || !s || !t)
		return SK_PASS;
	h = bpf_sk_storage_get(&h2_socks, sk, 0, 0);
	if (!h)
		return SK_PASS;
	p.cookie = s->cookie;
	w.size = m->size;
	/* TCP did not take bytes that it must take, and its program was told a wrong number: no byte may follow. */
	if ((__s32)(seq - h->solid) < 0) {
		inject_fail();
		return SK_DROP;
	}
	h->solid = seq;
	ahead = h->followed - seq;
	if (ahead >= (__s32)w.size)
		return SK_PASS; /* TCP had not taken these bytes when they were followed */
	if (ahead < 0 || h->limited) {
		inject_count(h->limited ? WS_I_INJECT_H2_LIMIT : WS_I_INJECT_H2_UNREAD);
		i->leave = 1;
		return SK_PASS;
	}
	w.at = ahead;
	w.h = h;
	w.certainly = certainly_taken(m);
	h->count = h->put = h->broken = 0;
	bpf_loop(WS_H2_FRAMES, h2_frame, &w, 0);
	if (!w.why && w.at < w.size)
		w.why = WS_I_INJECT_H2_MANY;
	if (w.why) {
		if (w.why == WS_I_INJECT_FAILED)
			inject_fail();
		else
			inject_count(w.why);
		i->leave = 1;
	}
	if (h->count) {
		p.h = h;
		p.cause = h2_sender(cause_of_next(s, acting(task, t), task->pid, thread_group(task, t)));
		p.pid = task->tgid;
		bpf_loop(h->count, h2_put, &p, 0);
		if (h->broken)
			return SK_DROP;
		if (h->put) {
			h->solid = seq + h->last;
			/* Joined into one piece, the bytes leave in fewer packets; without memory for that, in more. */
			bpf_msg_pull_data(m, 0, m->size < WS_H2_LONGEST_JOINED ? m->size : WS_H2_LONGEST_JOINED, 0);
		}
	}
	h->followed = seq + w.size + h->put * WS_H2_TEXT;
	return SK_PASS;
}

#endif

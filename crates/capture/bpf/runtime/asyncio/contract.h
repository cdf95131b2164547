/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of asyncio share; wire.h says how Rust gets it. */
#ifndef WS_ASYNCIO_CONTRACT_H
#define WS_ASYNCIO_CONTRACT_H

/* Cookies of the probes: src/runtime/asyncio.rs. */
enum asyncio_point {
	ASYNCIO_CALLBACK = 1, /* context_run(context, arguments, count, …) */
	ASYNCIO_BORN = 2,     /* Task.__init__(self, …) */
	ASYNCIO_SETTLED = 3,  /* set_result(self, …), set_exception, cancel of a future */
	ASYNCIO_STEP = 4,     /* TaskStepMethWrapper.__call__(self, …) */
	ASYNCIO_WAKE = 5,     /* task_wakeup(task, future) */
	ASYNCIO_WRAPPED = 6,  /* TaskWakeupMethWrapper.__call__(self, (future,), …), until Python 3.9 */
	ASYNCIO_END = 7,      /* the return of the last three */
	ASYNCIO_READS = 8,    /* uv_read_start(stream, …) */
	ASYNCIO_LEFT = 9,     /* PyContext_Exit() */
};

/* Offsets in objects of asyncio's module. */
struct asyncio_facts {
	__u16 coroutine; /* in a task: its coroutine */
};

_Static_assert(sizeof(struct asyncio_facts) == 2, "contract");

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of tokio share; wire.h says how Rust gets it. */
#ifndef WS_TOKIO_CONTRACT_H
#define WS_TOKIO_CONTRACT_H

/* Cookies of the probes: src/runtime/tokio.rs. */
enum tokio_point {
	TOKIO_RUNS = 1,	  /* raw::poll(header) */
	TOKIO_SLEEPS = 2, /* State::transition_to_idle(header) */
	TOKIO_ENDS = 3,	  /* State::transition_to_complete(header) */
	/* OwnedTasks::bind_inner(list, header, …), blocking::pool::Spawner::spawn_task(pool, header, …) */
	TOKIO_BORN = 4,
	TOKIO_SENDS = 5,     /* AtomicWaker::wake(waker) of tokio's own channels */
	TOKIO_PERHAPS = 6,   /* the same of channels of `futures`, but its sets of futures use it, too */
	TOKIO_WAKES = 7,     /* waker::wake_by_val(header), wake_by_ref(header), where channels are not seen */
	TOKIO_ANSWERS = 9,   /* the same, once requests share a connection: which answer wakes whom */
	TOKIO_RUNS_ONLY = 8, /* as TOKIO_RUNS, where channels are not seen */
};

#endif

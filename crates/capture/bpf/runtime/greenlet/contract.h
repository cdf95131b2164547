/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of greenlets share; wire.h says how Rust gets it. */
#ifndef WS_GREENLET_CONTRACT_H
#define WS_GREENLET_CONTRACT_H

/* Cookies of the probes: src/runtime/python/greenlet.rs. */
enum greenlet_point {
	GREENLET_BORN = 1, /* UserGreenlet::UserGreenlet(this, …) */
	GREENLET_RUNS = 2, /* g_switchstack_success(result, this) of the one that goes on */
};

#endif

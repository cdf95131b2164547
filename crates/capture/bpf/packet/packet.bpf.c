/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Packets on their way through the devices of this host. An object of its own: it is loaded while a packet program
 * runs, and nothing of it is attached at any other time (docs/decisions/0020-packets.md).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

/* Each header relies only on those above it. */
#include "core/compat.h"
#include "packet/contract.h"
#include "packet/ends.h"
#include "packet/headers.h"
#include "packet/followed.h"
#include "packet/select.h"
#include "packet/translated.h"
#include "packet/plain.h"
#include "packet/parse.h"
#include "packet/other.h"
#include "packet/tell.h"
#include "packet/points.h"
#include "packet/named.h"
#include "packet/tc.h"

char LICENSE[] SEC("license") = "GPL";

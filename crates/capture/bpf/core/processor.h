/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Keeps other tasks off the processor while a program uses what belongs to it: docs/preemption.md. */
#ifndef WS_PROCESSOR_H
#define WS_PROCESSOR_H

extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/*
 * Keeps other tasks off this processor until the record under construction is sent. The record is in the scratch of
 * the processor (docs/preemption.md).
 */
static __always_inline void hold_processor(void)
{
	if (preemptible && WS_GUARDS)
		bpf_preempt_disable();
	take_scratch();
}

static __always_inline void leave_processor(void)
{
	release_scratch();
	if (preemptible && WS_GUARDS)
		bpf_preempt_enable();
}

/*
 * Defines a program on a function of user space. From Linux 6.13 on, the stack of such a program belongs to the
 * processor, too, and such programs may be preempted: another task would overwrite the stack. So preemption is off
 * before the first use of the stack. Inlined: a call would need a stack frame of its own.
 */
#define WS_UPROBE(name)                                              \
	name(struct pt_regs *ctx);                                   \
	static __always_inline int name##_held(struct pt_regs *ctx); \
	int name(struct pt_regs *ctx)                                \
	{                                                            \
		if (stack_is_shared && WS_GUARDS)                    \
			bpf_preempt_disable();                       \
		name##_held(ctx);                                    \
		if (stack_is_shared && WS_GUARDS)                    \
			bpf_preempt_enable();                        \
		return 0;                                            \
	}                                                            \
	static __always_inline int name##_held(struct pt_regs *ctx)

#endif

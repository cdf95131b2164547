//! Finds the cheapest places in a function for its probes.
//!
//! A breakpoint costs 0.2 µs on an instruction that the kernel emulates (a jump, a call, a `nop`), 0.4 µs on a `push`,
//! and 4 µs on any other instruction, which the kernel must single-step out of line. So the entry probe goes to the
//! first cheap instruction at which the arguments are still in their registers. The exit probe goes to the last jump of
//! the stack protector before `ret`, where the result is in its register already.
//!
//! The disassembler is `iced-x86`. It knows which registers an instruction writes; a length decoder does not.

use super::elf::Image;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

/// How the end of a function is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exits {
    /// By probes at these addresses. Every return passes exactly one of them.
    At(Vec<u64>),
    /// By a return probe. It is set at this address, where the stack pointer still has its value of the entry.
    Return(u64),
    /// It is not seen.
    None,
}

/// Addresses at which to probe one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Points {
    pub(crate) enter: u64,
    pub(crate) exits: Exits,
    /// Cost of both probes, in units of the cheapest breakpoint.
    pub(crate) cost: u32,
}

const CHEAP: u32 = 1;
const PUSH: u32 = 2;
/// Cost of a breakpoint on an instruction that is single-stepped.
pub(crate) const STEPPED: u32 = 20;

/// Cost of a breakpoint on this instruction (`arch/x86/kernel/uprobes.c`, `branch_setup_xol_ops`,
/// `push_setup_xol_ops`).
fn cost(i: &Instruction) -> u32 {
    match i.code() {
        Code::Call_rel32_64 | Code::Jmp_rel8_64 | Code::Jmp_rel32_64 => CHEAP,
        Code::Nopd if i.len() == 1 => CHEAP,
        Code::Push_r64 => PUSH,
        _ if i.is_jcc_short_or_near() => CHEAP,
        _ => STEPPED,
    }
}

const ARGUMENTS: [Register; 4] = [Register::RDI, Register::RSI, Register::RDX, Register::RCX];

fn writes(factory: &mut InstructionInfoFactory, i: &Instruction, registers: &[Register]) -> bool {
    factory.info(i).used_registers().iter().any(|u| {
        let writes =
            matches!(u.access(), OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
        writes && registers.contains(&u.register().full_register())
    })
}

/// Where in the file to probe the entry of the function at this address, of which so many bytes are looked at.
pub(crate) fn entry(image: &Image<'_>, address: u64, size: u64) -> Option<u64> {
    image.offset(Function::new(image.bytes(address, size)?, address).points(false).enter)
}

/// The instructions of one function.
pub(crate) struct Function {
    start: u64,
    end: u64,
    code: Vec<Instruction>,
}

impl Function {
    /// Disassembles x86-64 code that lies at this address.
    pub(crate) fn new(bytes: &[u8], start: u64) -> Self {
        let code = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().collect();
        Function { start, end: start + bytes.len() as u64, code }
    }

    /// Points for a Go function: its exits are all its `ret`s, because a return probe would break the stacks of the
    /// runtime. `None` unless the function begins by comparing the stack pointer with the goroutine's stack limit, as
    /// every Go function does that may need more stack.
    pub(crate) fn go_points(&self) -> Option<Points> {
        let enter = self.go_entry()?;
        let exits: Vec<u64> = self.returns().collect();
        (!exits.is_empty()).then_some(Points { enter, exits: Exits::At(exits), cost: CHEAP + STEPPED })
    }

    /// Points for a Rust function that returns two words. A return probe disturbs a panic that unwinds the stack, so it
    /// is used only if the function can be left in other ways than by its `ret`s.
    pub(crate) fn rust_points(&self) -> Points {
        let exits: Vec<u64> = self.returns().collect();
        if exits.is_empty() || self.exits().is_none() {
            return self.return_points();
        }
        let (enter, cost) = self.enter();
        Points { enter, exits: Exits::At(exits), cost: cost + STEPPED }
    }

    /// The jump after a Go function's check of the stack limit. The arguments are still in their registers there.
    pub(crate) fn go_entry(&self) -> Option<u64> {
        let looks = |i: &Instruction| i.mnemonic() == Mnemonic::Cmp && i.memory_base() == Register::R14;
        let limit = self.code.iter().take(3).position(looks)?;
        self.code.get(limit + 1).filter(|i| i.is_jcc_short_or_near()).map(Instruction::ip)
    }

    /// The same for a function that needs no more stack, and so does not look at the limit: its first push, or its
    /// first jump if only a comparison comes before it.
    pub(crate) fn go_leaf_entry(&self) -> Option<u64> {
        let [first, second] = self.code.first_chunk()?;
        match first.mnemonic() {
            Mnemonic::Push => Some(first.ip()),
            Mnemonic::Cmp if second.is_jcc_short_or_near() => Some(second.ip()),
            _ => None,
        }
    }

    /// Every `ret`.
    pub(crate) fn returns(&self) -> impl Iterator<Item = u64> + '_ {
        self.code.iter().filter(|i| i.mnemonic() == Mnemonic::Ret).map(Instruction::ip)
    }

    /// Addresses of the instructions here that call a function, and that function, in the order of the code.
    pub(crate) fn all_calls(&self) -> Vec<(u64, u64)> {
        let calls = self.code.iter().filter(|i| i.code() == Code::Call_rel32_64);
        calls.map(|i| (i.ip(), i.near_branch_target())).collect()
    }

    /// Addresses of the instructions here that call `target`.
    pub(crate) fn calls_of(&self, target: u64) -> Vec<u64> {
        self.all_calls().into_iter().filter(|(_, to)| *to == target).map(|(at, _)| at).collect()
    }

    /// Where in its first argument the function looks first, bytes.
    pub(crate) fn first_read(&self) -> Option<u64> {
        let reads = |i: &&Instruction| i.mnemonic() == Mnemonic::Mov && i.memory_base() == Register::RDI;
        self.code.iter().find(reads).map(Instruction::memory_displacement64)
    }

    /// The function to which this one only jumps.
    pub(crate) fn jumps_to(&self) -> Option<u64> {
        let first = self.code.iter().find(|i| i.mnemonic() != Mnemonic::Endbr64)?;
        (first.flow_control() == FlowControl::UnconditionalBranch).then(|| first.near_branch_target())
    }

    /// The function to which this one passes its arguments before anything else; `SSL_read_ex` is such a wrapper.
    pub(crate) fn forwards_to(&self) -> Option<u64> {
        let mut factory = InstructionInfoFactory::new();
        for i in &self.code {
            match i.flow_control() {
                FlowControl::Call if i.code() == Code::Call_rel32_64 => return Some(i.near_branch_target()),
                FlowControl::Next if !writes(&mut factory, i, &ARGUMENTS) => {}
                _ => return None,
            }
        }
        None
    }

    /// Whether the function calls this address.
    pub(crate) fn calls(&self, target: u64) -> bool {
        !self.calls_of(target).is_empty()
    }

    /// Chooses the points; only that of the entry unless `exit`.
    pub(crate) fn points(&self, exit: bool) -> Points {
        let (enter, enter_cost) = self.enter();
        if !exit {
            return Points { enter, exits: Exits::None, cost: enter_cost };
        }
        let one = self.return_points();
        match self.exits() {
            Some((exits, exit_cost)) if enter_cost + exit_cost <= one.cost => {
                Points { enter, exits: Exits::At(exits), cost: enter_cost + exit_cost }
            }
            _ => one,
        }
    }

    /// Points with entry and return probe on the same breakpoint. The return probe then costs only its trampoline.
    pub(crate) fn return_points(&self) -> Points {
        let (at, cost) = self.hijack();
        Points { enter: at, exits: Exits::Return(at), cost: cost + CHEAP }
    }

    /// The cheapest instruction that every call passes with the first argument still in its register. A call may pass
    /// it more than once.
    pub(crate) fn first_argument(&self) -> u64 {
        self.enter_with(&ARGUMENTS[..1]).0
    }

    fn enter(&self) -> (u64, u32) {
        self.enter_with(&ARGUMENTS)
    }

    fn enter_with(&self, arguments: &[Register]) -> (u64, u32) {
        let mut factory = InstructionInfoFactory::new();
        let mut best = (self.start, STEPPED);
        for i in &self.code {
            if cost(i) < best.1 {
                best = (i.ip(), cost(i));
            }
            if i.flow_control() != FlowControl::Next || writes(&mut factory, i, arguments) {
                break;
            }
        }
        best
    }

    /// Address and cost of the cheapest instruction before which the stack pointer has not moved.
    fn hijack(&self) -> (u64, u32) {
        let mut factory = InstructionInfoFactory::new();
        let mut best = (self.start, STEPPED);
        for i in &self.code {
            if i.flow_control() != FlowControl::Next {
                break;
            }
            if cost(i) < best.1 {
                best = (i.ip(), cost(i));
            }
            if writes(&mut factory, i, &[Register::RSP, Register::RDI, Register::RSI, Register::RDX, Register::RCX]) {
                break;
            }
        }
        best
    }

    /// One point before each `ret`, and their cost; `None` if the function can be left in another way.
    fn exits(&self) -> Option<(Vec<u64>, u32)> {
        let mut factory = InstructionInfoFactory::new();
        let targets: Vec<u64> = self
            .code
            .iter()
            .filter(|i| matches!(i.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch))
            .map(Instruction::near_branch_target)
            .collect();
        let leaves = |t: u64| !(self.start..self.end).contains(&t);
        if targets.iter().any(|t| leaves(*t))
            || self.code.iter().any(|i| i.flow_control() == FlowControl::IndirectBranch)
        {
            return None;
        }
        let mut points = Vec::new();
        let mut worst = 0;
        for (at, ret) in self.code.iter().enumerate().filter(|(_, i)| i.mnemonic() == Mnemonic::Ret) {
            let cheap = self.protector_before(at, &targets, &mut factory);
            worst = worst.max(if cheap.is_some() { CHEAP } else { STEPPED });
            points.push(cheap.unwrap_or(ret.ip()));
        }
        (!points.is_empty()).then_some((points, worst))
    }

    /// The jump `jne __stack_chk_fail` in front of the `ret` at this index. `None` unless every way to the `ret` passes
    /// that jump, and no instruction behind the jump changes the result.
    fn protector_before(&self, ret: usize, targets: &[u64], factory: &mut InstructionInfoFactory) -> Option<u64> {
        let mut at = ret;
        while at > 1 {
            if targets.contains(&self.code[at].ip()) {
                return None;
            }
            at -= 1;
            let i = &self.code[at];
            if i.is_jcc_short_or_near() {
                let test = &self.code[at - 1];
                let canary = test.segment_prefix() == Register::FS && test.memory_displacement64() == 0x28;
                return canary.then_some(i.ip());
            }
            if i.flow_control() != FlowControl::Next || writes(factory, i, &[Register::RAX]) {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sub rsp,18h; mov rax,fs:[28h]; mov [rsp+8],rax; xor eax,eax; test edx,edx; js +9; call …; mov eax,[rsp];
    /// mov rdx,[rsp+8]; sub rdx,fs:[28h]; jne +5; add rsp,18h; ret; call …`
    const PROTECTED: &[u8] = &[
        0x48, 0x83, 0xec, 0x18, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x48, 0x89, 0x44, 0x24, 0x08, 0x31, 0xc0,
        0x85, 0xd2, 0x78, 0x08, 0xe8, 0, 1, 0, 0, 0x8b, 0x04, 0x24, 0x48, 0x8b, 0x54, 0x24, 0x08, 0x64, 0x48, 0x2b,
        0x14, 0x25, 0x28, 0, 0, 0, 0x75, 0x05, 0x48, 0x83, 0xc4, 0x18, 0xc3, 0xe8, 0, 2, 0, 0,
    ];

    #[test]
    fn a_protected_function_is_probed_at_its_jumps() {
        let points = Function::new(PROTECTED, 0x1000).points(true);
        assert_eq!(points, Points { enter: 0x1016, exits: Exits::At(vec![0x102e]), cost: 2 });
    }

    #[test]
    fn a_go_function_without_a_check_of_its_stack_is_probed_where_its_arguments_are_whole() {
        let entry = |code: &[u8]| Function::new(code, 0x1000).go_leaf_entry();
        assert_eq!(entry(b"\x55\x48\x89\xe5\xc3"), Some(0x1000), "push rbp; mov rbp, rsp");
        assert_eq!(entry(b"\x83\xf9\x72\x74\x08\xc3"), Some(0x1003), "cmp ecx, 0x72; je");
        assert_eq!(entry(b"\x83\xf9\x72\x90\xc3"), None);
        assert_eq!(entry(b"\x48\x83\xec\x08\xc3"), None, "sub rsp, 8");
        assert_eq!(entry(b"\xc3"), None);
    }

    #[test]
    fn a_function_that_pushes_first_gets_a_return_probe_on_the_push() {
        // push rbx; mov rbx,rdi; pop rbx; ret
        let points = Function::new(&[0x53, 0x48, 0x89, 0xfb, 0x5b, 0xc3], 0x1000).points(true);
        assert_eq!(points, Points { enter: 0x1000, exits: Exits::Return(0x1000), cost: 3 });
    }

    #[test]
    fn the_first_argument_may_outlive_the_others() {
        // sub rsp,18h; mov rax,[rdi]; lea rdx,[rsp+8]; test al,1; je +0
        let f = Function::new(
            &[0x48, 0x83, 0xec, 0x18, 0x48, 0x8b, 0x07, 0x48, 0x8d, 0x54, 0x24, 8, 0xa8, 1, 0x74, 0],
            0x1000,
        );
        assert_eq!((f.first_argument(), f.points(false).enter), (0x100e, 0x1000));
    }

    #[test]
    fn a_tail_call_leaves_no_place_for_exit_probes() {
        // test edi,edi; je +1; ret; jmp far away
        let f = Function::new(&[0x85, 0xff, 0x74, 0x01, 0xc3, 0xe9, 0, 0, 1, 0], 0x1000);
        assert_eq!(f.points(true).exits, Exits::Return(0x1000));
    }

    #[test]
    fn a_wrapper_names_the_function_behind_it() {
        // sub rsp,8; call +0x100; add rsp,8; ret
        let f = Function::new(&[0x48, 0x83, 0xec, 8, 0xe8, 0, 1, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3], 0x1000);
        assert_eq!(f.forwards_to(), Some(0x1109));
        // Changes an argument before its call, so it is no wrapper.
        let f = Function::new(&[0x31, 0xff, 0xe8, 0, 1, 0, 0, 0xc3], 0x1000);
        assert_eq!(f.forwards_to(), None);
    }

    #[test]
    fn a_jump_past_the_protector_forbids_its_use() {
        // As PROTECTED, but `js` leads to `add rsp,18h`, behind the protector's jump.
        let mut code = PROTECTED.to_vec();
        code[23] = 0x18;
        let points = Function::new(&code, 0x1000).points(true);
        assert_ne!(points.exits, Exits::At(vec![0x102e]));
    }
}

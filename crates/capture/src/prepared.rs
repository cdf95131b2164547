//! Programs that are loaded without libbpf: beside the others, or later.
//!
//! libbpf loads one program after the other, all before the first one runs, and verifying them is nearly all of the
//! start. So it only prepares these: it makes the tables, and writes their numbers into the instructions.

use crate::object::OpenWirespanSkel;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::btf::Btf;
use libbpf_rs::libbpf_sys::{
    bpf_func_info, bpf_insn, bpf_object__btf_fd, bpf_object__prepare, bpf_prog_load, bpf_prog_load_opts, bpf_prog_type,
    bpf_program, bpf_program__expected_attach_type, bpf_program__func_info, bpf_program__func_info_cnt,
    bpf_program__insn_cnt, bpf_program__insns, bpf_program__type,
};
use libbpf_rs::skel::OpenSkel as _;
use libbpf_rs::AsRawLibbpf as _;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// As in bpf/wirespan.bpf.c.
const LICENSE: &CStr = c"GPL";
/// Sections of programs that hang on a tracepoint.
pub(crate) const TRACEPOINT: &str = "tp_btf/";

/// What the kernel is told of a program. It goes without the lines of the source, which would be half of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) name: String,
    kind: bpf_prog_type,
    expected_attach_type: u32,
    instructions: Vec<bpf_insn>,
    functions: Vec<bpf_func_info>,
    /// The object's BTF, to which the functions refer.
    btf: u32,
    /// The type of its tracepoint; 0 if it hangs on something else.
    tracepoint: u32,
}

/// Prepares the object.
pub(crate) fn prepare(open: &mut OpenWirespanSkel<'static>) -> libbpf_rs::Result<()> {
    let object = open.open_object_mut().as_libbpf_object();
    // SAFETY: the object is open, and not loaded.
    match unsafe { bpf_object__prepare(object.as_ptr()) } {
        0 => Ok(()),
        error => Err(libbpf_rs::Error::from_raw_os_error(-error)),
    }
}

/// Takes those programs out of a prepared object whose names are wanted. The tables that they use, and thus the object,
/// must live until they are loaded.
pub(crate) fn take(
    open: &mut OpenWirespanSkel<'static>,
    btf: &Btf<'_>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Prepared> {
    let object = open.open_object_mut().as_libbpf_object();
    // SAFETY: the object is open.
    let of = unsafe { bpf_object__btf_fd(object.as_ptr()) };
    let Ok(of) = u32::try_from(of) else { return Vec::new() };
    let mut all = Vec::new();
    for mut program in open.open_object_mut().progs_mut() {
        let (Some(name), Some(section)) = (program.name().to_str(), program.section().to_str()) else { continue };
        if !program.autoload() || !wanted(name) {
            continue;
        }
        let tracepoint = match section.strip_prefix(TRACEPOINT) {
            Some(point) => match btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{point}")) {
                Some(of) => of.type_id().into(),
                None => continue,
            },
            None => 0,
        };
        // SAFETY: the program is prepared, and not loaded.
        all.push(unsafe { Prepared::of(program.as_libbpf_object().as_ptr(), name, of, tracepoint) });
        program.set_autoload(false);
    }
    all
}

impl Prepared {
    /// # Safety
    ///
    /// The program must be prepared, and not be freed meanwhile.
    unsafe fn of(program: *const bpf_program, name: &str, btf: u32, tracepoint: u32) -> Prepared {
        // SAFETY: libbpf has so many of each; they are copied, as they are freed when the object is loaded.
        unsafe {
            Prepared {
                name: name.into(),
                kind: bpf_program__type(program),
                expected_attach_type: bpf_program__expected_attach_type(program),
                instructions: copied(bpf_program__insns(program), bpf_program__insn_cnt(program) as usize),
                functions: copied(bpf_program__func_info(program), bpf_program__func_info_cnt(program) as usize),
                btf,
                tracepoint,
            }
        }
    }

    /// A program without instructions, which every kernel refuses.
    #[cfg(test)]
    pub(crate) fn refused(name: &str) -> Prepared {
        let (instructions, functions) = (Vec::new(), Vec::new());
        Prepared { name: name.into(), kind: 0, expected_attach_type: 0, instructions, functions, btf: 0, tracepoint: 0 }
    }

    /// Loads the program. The kernel verifies several side by side.
    pub(crate) fn load(&self) -> io::Result<OwnedFd> {
        let mut options = bpf_prog_load_opts {
            sz: size_of::<bpf_prog_load_opts>() as _,
            expected_attach_type: self.expected_attach_type,
            prog_btf_fd: self.btf,
            attach_btf_id: self.tracepoint,
            func_info: self.functions.as_ptr().cast(),
            func_info_cnt: self.functions.len() as u32,
            func_info_rec_size: size_of::<bpf_func_info>() as u32,
            ..Default::default()
        };
        let name = CString::new(self.name.as_str()).map_err(io::Error::other)?;
        let (instructions, count) = (self.instructions.as_ptr(), self.instructions.len() as _);
        // SAFETY: all pointers are to values that live until the call returns.
        let program =
            unsafe { bpf_prog_load(self.kind, name.as_ptr(), LICENSE.as_ptr(), instructions, count, &mut options) };
        owned(program)
    }
}

/// # Safety
///
/// There must be so many values, or none.
unsafe fn copied<T: Clone>(from: *const T, count: usize) -> Vec<T> {
    if from.is_null() {
        return Vec::new();
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(from, count) }.to_vec()
}

/// What a call of libbpf has opened, or its error.
pub(crate) fn owned(returned: i32) -> io::Result<OwnedFd> {
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    // SAFETY: it was opened just now, for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}

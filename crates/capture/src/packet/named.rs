//! Functions that the user names: of the kernel, where packets are seen, and of programs, as marks in time.

use super::record::Reader;
use super::PacketOptions;
use crate::error::CaptureError;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, BtfType, ReferencesType as _};
use libbpf_rs::{KprobeOpts, Link, ProgramMut, UprobeOpts};
use std::path::{Path, PathBuf};
use wirespan_model::packet::Point;

/// The kernel names the arguments of a function that are in registers on all architectures.
const ARGUMENTS: usize = 5;
/// Functions of each kind at most: a record has a byte for their number.
const MOST: usize = 16;
/// A kernel with kprobes has this file.
const KPROBES: &str = "/sys/bus/event_source/devices/kprobe/type";

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The program, or a library.
    pub path: PathBuf,
    /// Its symbol.
    pub function: String,
}

/// Named functions that can be attached to.
pub(super) struct Named<'a> {
    /// With the argument that is the packet, from 1.
    functions: Vec<(&'a str, u64)>,
    marks: &'a [Mark],
}

fn refused(why: String) -> CaptureError {
    CaptureError::Config(why)
}

/// The argument that is a packet, from 1; or why there is none.
fn argument(btf: &Btf<'_>, name: &str) -> Result<u64, String> {
    let Some(function) = btf.type_by_name::<Func<'_>>(name) else {
        return Err(format!("this kernel describes no function `{name}` (/sys/kernel/btf/vmlinux)"));
    };
    let is_packet = |ty: BtfType<'_>| {
        let pointer = Ptr::try_from(ty.skip_mods_and_typedefs()).ok()?;
        let of = Struct::try_from(pointer.referenced_type().skip_mods_and_typedefs()).ok()?;
        Some(of.name()? == "sk_buff")
    };
    let found = FuncProto::try_from(function.referenced_type()).ok().and_then(|arguments| {
        arguments
            .iter()
            .take(ARGUMENTS)
            .position(|argument| btf.type_by_id::<BtfType<'_>>(argument.ty).and_then(is_packet).unwrap_or_default())
    });
    found.map(|n| n as u64 + 1).ok_or_else(|| {
        format!("`{name}` takes no packet: none of its first {ARGUMENTS} arguments is a `struct sk_buff *`")
    })
}

impl<'a> Named<'a> {
    /// Looks the functions up. An error says why one of them cannot be used, and what else can.
    pub(super) fn of(options: &'a PacketOptions, btf: &Btf<'_>) -> Result<Self, CaptureError> {
        let PacketOptions { functions, marks, .. } = options;
        if functions.len() > MOST || marks.len() > MOST {
            return Err(refused(format!("at most {MOST} functions of each kind can be named")));
        }
        if let Some(first) = functions.first().filter(|_| !Path::new(KPROBES).exists()) {
            return Err(refused(format!(
                "`kprobe: {first}`: this kernel was built without kprobes (CONFIG_KPROBE_EVENTS). Use the points that \
                 it has: queue, xmit, receive, tcp, copied and drop, with `stack` for the functions that lead there"
            )));
        }
        let place = |name: &'a String| {
            let at = argument(btf, name).map_err(|why| refused(format!("`kprobe: {name}`: {why}")))?;
            Ok((name.as_str(), at))
        };
        Ok(Named { functions: functions.iter().map(place).collect::<Result<_, CaptureError>>()?, marks })
    }

    /// The programs that they need.
    pub(super) fn programs(&self) -> impl Iterator<Item = (Point, &'static str)> {
        let functions = (!self.functions.is_empty()).then_some((Point::Function, "packet_function"));
        functions.into_iter().chain((!self.marks.is_empty()).then_some((Point::Mark, "packet_mark")))
    }

    /// Attaches a program of [`Named::programs`] to each of its functions.
    pub(super) fn attach(&self, point: Point, program: &ProgramMut<'_>) -> Result<Vec<Link>, CaptureError> {
        if point == Point::Mark {
            let marks = (0u64..).zip(self.marks);
            return marks.map(|(number, mark)| attach_mark(program, number, mark)).collect();
        }
        let functions = (0u64..).zip(&self.functions);
        let attach = |(number, (name, argument)): (u64, &(&str, u64))| {
            let options = KprobeOpts { cookie: number | argument << 8, ..KprobeOpts::default() };
            let attached = program.attach_kprobe_with_opts(false, name, options);
            attached.map_err(|error| refused(format!("`kprobe: {name}`: the kernel does not stop there: {error}")))
        };
        functions.map(attach).collect()
    }

    /// Reads the records of these.
    pub(super) fn reader(&self) -> Reader {
        let functions = self.functions.iter().map(|(name, _)| (*name).into()).collect();
        Reader::new(functions, self.marks.iter().map(|mark| mark.function.as_str().into()).collect())
    }
}

fn attach_mark(program: &ProgramMut<'_>, number: u64, mark: &Mark) -> Result<Link, CaptureError> {
    let Mark { path, function } = mark;
    let options = UprobeOpts { cookie: number, func_name: Some(function.clone()), ..UprobeOpts::default() };
    let attached = program.attach_uprobe_with_opts(-1, path, 0, options);
    attached.map_err(|error| {
        let why = match std::fs::metadata(path) {
            Err(error) => error.to_string(),
            Ok(_) => format!("it has no such function, or the kernel does not stop there: {error}"),
        };
        refused(format!("`uprobe: {}:{function}`: {why}", path.display()))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_that_is_a_packet_is_found_by_its_type() {
        let Ok(btf) = Btf::from_vmlinux() else {
            eprintln!("skipped: this kernel has no BTF");
            return;
        };
        assert_eq!(argument(&btf, "ip_rcv"), Ok(1));
        assert_eq!(argument(&btf, "__ip_queue_xmit"), Ok(2));
        assert!(argument(&btf, "do_nanosleep").unwrap_err().contains("takes no packet"));
        assert!(argument(&btf, "no_such_function").unwrap_err().contains("describes no function"));
    }
}

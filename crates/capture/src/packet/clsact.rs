//! Programs of chosen devices where the kernel has no tcx: filters of the queueing discipline `clsact`, which is made
//! where it is missing, and removed again if nobody else uses it by then. If this process is killed, they stay.

use crate::{netlink, netns};
use libbpf_rs::libbpf_sys::{
    bpf_tc_attach, bpf_tc_detach, bpf_tc_hook, bpf_tc_hook_create, bpf_tc_hook_destroy, bpf_tc_opts, BPF_TC_EGRESS,
    BPF_TC_INGRESS,
};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use wirespan_model::packet::Point;

const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
/// Where filters of `clsact` hang.
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;

/// Network namespace and device of each `clsact` that this process has made.
static MADE: Mutex<Vec<(u64, i32)>> = Mutex::new(Vec::new());

/// An attached program. Dropping it detaches it.
pub(super) struct Attached {
    netns: File,
    device: i32,
    point: Point,
    handle: u32,
    priority: u32,
}

fn hook(device: i32, attach_point: u32) -> bpf_tc_hook {
    bpf_tc_hook { sz: size_of::<bpf_tc_hook>() as _, ifindex: device, attach_point, ..Default::default() }
}

fn way(point: Point) -> u32 {
    if point == Point::Ingress {
        BPF_TC_INGRESS
    } else {
        BPF_TC_EGRESS
    }
}

fn done(error: i32) -> io::Result<()> {
    match error {
        0.. => Ok(()),
        // Neither built in nor a module that can be loaded.
        _ if error == -libc::ENOENT => {
            let why = "the kernel has neither tcx (Linux 6.6) nor clsact (modules sch_ingress and cls_bpf)";
            Err(io::Error::new(io::ErrorKind::Unsupported, why))
        }
        _ => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Attaches a program to a device of the network namespace of this thread, which is that of the file, too.
pub(super) fn attach(netns: File, program: RawFd, device: i32, point: Point) -> io::Result<Attached> {
    let space = netns.metadata()?.ino();
    let mut hook = hook(device, way(point));
    // SAFETY: a plain structure, which outlives the call.
    let made = unsafe { bpf_tc_hook_create(&mut hook) };
    if made == 0 {
        made_by_us().push((space, device));
    } else if made != -libc::EEXIST {
        done(made)?;
    }
    let mut opts = bpf_tc_opts { sz: size_of::<bpf_tc_opts>() as _, prog_fd: program, ..Default::default() };
    // SAFETY: as above. The kernel chooses handle and priority.
    let attached = done(unsafe { bpf_tc_attach(&hook, &mut opts) });
    if let Err(error) = attached {
        remove_unused(space, device)?;
        return Err(error);
    }
    Ok(Attached { netns, device, point, handle: opts.handle, priority: opts.priority })
}

fn made_by_us() -> std::sync::MutexGuard<'static, Vec<(u64, i32)>> {
    MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Removes a `clsact` that this process has made, if nothing hangs there any more.
fn remove_unused(space: u64, device: i32) -> io::Result<()> {
    let mut all = made_by_us();
    let Some(at) = all.iter().position(|made| *made == (space, device)) else { return Ok(()) };
    if filters(device, INGRESS)? + filters(device, EGRESS)? == 0 {
        all.swap_remove(at);
        // SAFETY: a plain structure, which outlives the call.
        done(unsafe { bpf_tc_hook_destroy(&mut hook(device, BPF_TC_INGRESS | BPF_TC_EGRESS)) })?;
    }
    Ok(())
}

/// How many filters a direction of a device has.
fn filters(device: i32, parent: u32) -> io::Result<usize> {
    // `struct tcmsg`: family, device, handle, parent, info.
    let words = [0, device.cast_unsigned(), 0, parent, 0];
    let request: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let mut found = 0;
    netlink::list(None, RTM_GETTFILTER, &request, &mut |kind, _| found += usize::from(kind == RTM_NEWTFILTER))?;
    Ok(found)
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Attached { device, point, handle, priority, .. } = *self;
        let Ok(netns) = self.netns.try_clone() else { return };
        let Ok(space) = netns.metadata().map(|data| data.ino()) else { return };
        let left = netns::within(netns, move || {
            let opts = bpf_tc_opts { sz: size_of::<bpf_tc_opts>() as _, handle, priority, ..Default::default() };
            // SAFETY: plain structures, which outlive the call.
            done(unsafe { bpf_tc_detach(&hook(device, way(point)), &opts) })?;
            remove_unused(space, device)
        });
        // A device that is gone has no programs, and a filter may have been removed by somebody else.
        let is_gone = |e: &io::Error| e.raw_os_error() == Some(libc::ENODEV) || e.kind() == io::ErrorKind::Unsupported;
        if let Some(error) = left.err().filter(|error| !is_gone(error)) {
            tracing::warn!("a program of a chosen device could not be detached: {error}");
        }
    }
}

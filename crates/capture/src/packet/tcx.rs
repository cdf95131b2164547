//! Programs of chosen devices (tcx, Linux 6.6). The kernel takes them away when their descriptor is closed, also if
//! this process is killed.

use crate::netns;
use libbpf_rs::libbpf_sys::{bpf_link_create, bpf_link_create_opts, BPF_TCX_EGRESS, BPF_TCX_INGRESS};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;
use wirespan_model::packet::Point;

/// A device of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The namespace, as a file (`/run/netns/web`).
    pub netns: PathBuf,
    /// Its name there.
    pub name: String,
}

/// The points of such programs, each with its program.
pub(super) const PROGRAMS: [(Point, &str); 2] = [(Point::Ingress, "packet_ingress"), (Point::Egress, "packet_egress")];

/// Attaches a program of [`PROGRAMS`] to the devices that are there. A namespace need not have each of them; that none
/// has any is an error.
pub(super) fn attach(point: Point, program: RawFd, devices: &[Device]) -> io::Result<Vec<OwnedFd>> {
    let way = if point == Point::Ingress { BPF_TCX_INGRESS } else { BPF_TCX_EGRESS };
    let mut links = Vec::new();
    for Device { netns, name } in devices {
        let told = |e: io::Error| io::Error::new(e.kind(), format!("{name} in {}: {e}", netns.display()));
        links.extend(within(netns, name, program, way).map_err(told)?);
    }
    if links.is_empty() {
        return Err(io::Error::other("no chosen namespace has such a device"));
    }
    Ok(links)
}

/// A device is known by its number, which counts in its own namespace.
fn within(space: &PathBuf, name: &str, program: RawFd, way: u32) -> io::Result<Option<OwnedFd>> {
    let name = CString::new(name)?;
    netns::within(File::open(space)?, move || {
        // SAFETY: `name` is a text that ends with a zero, and outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        match i32::try_from(index) {
            Ok(1..) => link(program, index as RawFd, way).map(Some),
            _ => Ok(None),
        }
    })
}

fn link(program: RawFd, device: i32, way: u32) -> io::Result<OwnedFd> {
    let opts = bpf_link_create_opts { sz: size_of::<bpf_link_create_opts>() as _, ..Default::default() };
    // SAFETY: `opts` is a plain structure without pointers. A descriptor that the kernel returns is ours alone.
    unsafe {
        let fd = bpf_link_create(program, device, way, &opts);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

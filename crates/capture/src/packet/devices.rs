//! Programs of chosen devices: by tcx (Linux 6.6), which the kernel takes away when their descriptor is closed, also if
//! this process is killed; on an older kernel by `clsact`.

use super::clsact;
use crate::netns;
use libbpf_rs::btf::{types::Struct, Btf};
use libbpf_rs::libbpf_sys::{bpf_link_create, bpf_link_create_opts, BPF_TCX_EGRESS, BPF_TCX_INGRESS};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
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

/// An attached program. Dropping it detaches it.
pub(super) enum Attached {
    Tcx { _link: OwnedFd },
    Clsact { _filter: clsact::Attached },
}

/// Whether the kernel has tcx. A test may ask for what stands in for it.
pub(super) fn is_there(btf: &Btf<'_>) -> bool {
    btf.type_by_name::<Struct<'_>>("tcx_entry").is_some() && std::env::var_os("WIRESPAN_TEST_NO_TCX").is_none()
}

/// Attaches a program of [`PROGRAMS`] to the devices that are there. A namespace need not have each of them; that none
/// has any is an error.
pub(super) fn attach(point: Point, program: RawFd, devices: &[Device], by_tcx: bool) -> io::Result<Vec<Attached>> {
    let mut links = Vec::new();
    for Device { netns, name } in devices {
        let told = |e: io::Error| io::Error::new(e.kind(), format!("{name} in {}: {e}", netns.display()));
        links.extend(within(netns, name, program, point, by_tcx).map_err(told)?);
    }
    if links.is_empty() {
        return Err(io::Error::other("no chosen namespace has such a device"));
    }
    Ok(links)
}

/// A device is known by its number, which counts in its own namespace.
fn within(space: &Path, name: &str, program: RawFd, point: Point, by_tcx: bool) -> io::Result<Option<Attached>> {
    let name = CString::new(name)?;
    let space = File::open(space)?;
    let kept = space.try_clone()?;
    netns::within(space, move || {
        // SAFETY: `name` is a text that ends with a zero, and outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let Ok(device @ 1..) = RawFd::try_from(index) else { return Ok(None) };
        if !by_tcx {
            let filter = clsact::attach(kept, program, device, point)?;
            return Ok(Some(Attached::Clsact { _filter: filter }));
        }
        let way = if point == Point::Ingress { BPF_TCX_INGRESS } else { BPF_TCX_EGRESS };
        Ok(Some(Attached::Tcx { _link: link(program, device, way)? }))
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

//! Visits to other network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

/// Does this in the network namespace of a file, by a thread of its own, so that the caller stays where it is.
pub(crate) fn within<T: Send + 'static>(
    space: File,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let visit = std::thread::Builder::new().name("visit".into()).spawn(move || {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(space.as_fd(), kind)?;
        act()
    })?;
    visit.join().unwrap_or_else(|_| Err(io::Error::other("the visit failed")))
}

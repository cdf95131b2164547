//! How protocols are written, for the tests of their parsers and for those of whole programs.

pub(crate) mod openwire;
pub(crate) mod pulsar;
pub(crate) mod sofarpc;
pub(crate) mod zmtp;

//! What crosses the border between a client and the daemon: messages on the socket, entries in
//! the rings, the layout of the shared areas, and the limit on everything.
//!
//! All integers are little-endian; the crate builds on little-endian targets only, so that a
//! layout type is the bytes. Nothing here does I/O. `docs/PROTOCOL.md` has the bit diagrams.

#[cfg(not(target_endian = "little"))]
compile_error!("parkd's layouts are little-endian and mapped as they are");

pub mod entry;
pub mod layout;
pub mod limits;
pub mod message;
pub mod request;

/// The protocol versions that this build speaks, lowest and highest.
pub const VERSIONS: (u16, u16) = (1, 1);

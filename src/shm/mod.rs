//! Memory that several processes share: areas, the two rings, bells, lanes and the status page.
//!
//! *Peer memory* is a [`region::Region`]: a mapping that another process may write at any time. No
//! reference over its contents is ever handed out. It is read and written as single 32- and 64-bit
//! atomic words at checked offsets ([`words`]), always `Relaxed`; order is made by fences alone
//! ([`sync`]), which the code of rings, bells and pages names where it needs them. So one rule
//! serves writable and read-only mappings (for the latter Rust promises Relaxed loads only).
//!
//! What a peer wrote is copied once, then checked: an index by [`ring`], an entry by
//! `proto`, a header by [`header`]. Nothing here makes a system call except [`area`] and
//! [`region`]: who has to wake or write an eventfd is told so and does it by its own means.

pub mod area;
pub mod bells;
pub mod control;
pub mod header;
pub mod lanes;
pub mod region;
pub mod result_ring;
pub mod ring;
pub mod status;
pub mod submit_ring;
pub mod sync;
pub mod table;
pub mod words;

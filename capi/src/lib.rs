//! The C ABI of the client library: what `include/parkd.h` declares, built as `libparkd.so`.
//!
//! A *handle* is an opaque pointer that the caller owns from the call that gives it out to the
//! one that frees it. Every function here is a thin border over [`parkd::client`]: it checks what
//! a C caller can get wrong and that can be checked (null), and takes the rest as the header's
//! promise. What always holds at the border is stated in [`border`].

mod border;
mod completion;
mod lane;
mod session;
mod text;
mod ticket;

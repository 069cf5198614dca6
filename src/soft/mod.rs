//! soft

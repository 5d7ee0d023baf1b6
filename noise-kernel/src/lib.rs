//! noise-kernel

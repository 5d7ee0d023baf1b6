//! noise-worker

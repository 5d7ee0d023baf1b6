//! Free ports, for programs that cannot choose their own.

use std::{
    hash::{BuildHasher, RandomState},
    net::TcpListener,
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

/// Below the ports that systems assign to connections (32768 and more): such a one could have it before the program
/// listens, or while it is killed and started again.
const FIRST: u16 = 16_384;
const COUNT: u16 = 16_384;

/// Returns a port on which no process listens, and which was not returned before in this process.
pub fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> =
        LazyLock::new(|| AtomicU16::new((RandomState::new().hash_one(0) % u64::from(COUNT)) as u16));
    let ports = || Some(FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT);
    let mut ports = std::iter::from_fn(ports).take(1_000);
    ports
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of a thousand ports is free")
}

/// `host:port`.
#[allow(dead_code)] // a test that includes this file may need ports alone
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

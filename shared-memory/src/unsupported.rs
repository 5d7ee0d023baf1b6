//! Shared memory on systems without sealed memory files: every use is refused.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use proto::{Result, ServiceError};

fn not_available() -> ServiceError {
    ServiceError::Unavailable {
        what: "shared memory, on this system (it needs Linux's sealed memory files),".into(),
    }
}

pub fn memory_file(_: u64) -> Result<OwnedFd> {
    Err(not_available())
}

pub fn check_memory_file(_: &OwnedFd) -> Result<u64> {
    Err(not_available())
}

pub fn send_with_descriptor(_: &UnixStream, _: &[u8], _: &OwnedFd) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, not_available().to_string()))
}

pub fn receive_with_descriptors(_: impl AsFd, _: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, not_available().to_string()))
}

pub fn is_open(_: &UnixStream) -> bool {
    false
}

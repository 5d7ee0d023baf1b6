//! Leases: one connection for each region and worker. The region stays mapped in the worker while the connection lives.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use proto::{Result, ServiceError};

use crate::{handshake, layout::Layout, system};

/// Longest wait for a worker's answer. A worker maps a region in milliseconds; a frozen one must not delay a fetch for
/// long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A lease on a region, held by its lender. Dropping it takes the region back.
#[derive(Debug)]
pub struct RegionLease(UnixStream);

impl RegionLease {
    /// Lends the region to the worker that listens at `path`. Blocks until the worker has answered.
    ///
    /// # Errors
    /// `Unavailable` where the worker does not answer or refuses.
    pub fn open(path: &str, layout: &Layout, file: &OwnedFd) -> Result<Self> {
        let lost =
            |error: io::Error| ServiceError::Unavailable { what: format!("lending socket {path} ({error})") };
        let mut socket = UnixStream::connect(path).map_err(lost)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(lost)?;
        socket.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(lost)?;
        system::send_with_descriptor(&socket, &handshake::encode(layout), file).map_err(lost)?;
        match handshake::read_answer(&mut socket).map_err(lost)? {
            Ok(()) => Ok(Self(socket)),
            Err(reason) => Err(ServiceError::Unavailable { what: format!("lending to {path} ({reason})") }),
        }
    }

    /// Returns whether the worker still holds the region.
    pub fn is_open(&self) -> bool {
        system::is_open(&self.0)
    }
}

/// A lender's offer of a region, as the worker receives it.
#[derive(Debug)]
pub struct Offer {
    /// Where each row lies.
    pub layout: Layout,
    /// The region's memory file.
    pub file: OwnedFd,
}

impl Offer {
    /// Reads the hello that is ready on `socket`: whole, in one message, with one descriptor. The outer error is the
    /// socket's, `WouldBlock` included; the inner one is for the lender.
    pub fn receive(socket: impl AsFd) -> io::Result<Result<Self>> {
        let mut bytes = [0; handshake::HELLO_BYTES];
        let (received, mut files) = system::receive_with_descriptors(socket, &mut bytes)?;
        if received != bytes.len() {
            let allowed = format!("{} bytes in one message", bytes.len());
            return Ok(Err(ServiceError::invalid("hello", format!("{received} bytes"), allowed)));
        }
        let file = match (files.pop(), files.len()) {
            (Some(file), 0) => file,
            (last, others) => {
                let count = others + usize::from(last.is_some());
                return Ok(Err(ServiceError::invalid("hello's descriptors", count, "1")));
            }
        };
        Ok(handshake::decode(&bytes).map(|layout| Self { layout, file }))
    }
}

/// Returns the answer to a lender whose region is mapped.
pub fn acceptance_answer() -> Vec<u8> {
    handshake::answer(Ok(()))
}

/// Returns the answer to a lender whose region is refused.
pub fn refusal_answer(error: &ServiceError) -> Vec<u8> {
    handshake::answer(Err(error))
}

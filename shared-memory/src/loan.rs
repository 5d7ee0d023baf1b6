//! Lending: one connection a region. The region stays mapped in the worker while the connection lives.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use proto::{Result, ServiceError};

use crate::{Layout, hello, system};

/// A worker maps a region in milliseconds; a frozen one must not hold a fetch up for long.
const ANSWER: Duration = Duration::from_secs(2);

/// The lender's end. Dropping it takes the region back.
#[derive(Debug)]
pub struct Loan(UnixStream);

impl Loan {
    /// Blocks until the worker has answered.
    pub fn open(path: &str, layout: &Layout, file: &OwnedFd) -> Result<Self> {
        let lost =
            |error: io::Error| ServiceError::Unavailable { what: format!("lending socket {path} ({error})") };
        let mut socket = UnixStream::connect(path).map_err(lost)?;
        socket.set_read_timeout(Some(ANSWER)).map_err(lost)?;
        socket.set_write_timeout(Some(ANSWER)).map_err(lost)?;
        system::send_with_descriptor(&socket, &hello::encode(layout), file).map_err(lost)?;
        match hello::read_answer(&mut socket).map_err(lost)? {
            Ok(()) => Ok(Self(socket)),
            Err(reason) => Err(ServiceError::Unavailable { what: format!("lending to {path} ({reason})") }),
        }
    }

    /// False once the worker is gone.
    pub fn is_open(&self) -> bool {
        system::is_open(&self.0)
    }
}

/// What a lender offers, read by the worker.
#[derive(Debug)]
pub struct Offer {
    pub layout: Layout,
    pub file: OwnedFd,
}

impl Offer {
    /// Reads the hello that lies ready on `socket`: whole, in one message, with one descriptor. The outer error is
    /// the socket's, `WouldBlock` included; the inner one is for the lender.
    pub fn receive(socket: impl AsFd) -> io::Result<Result<Self>> {
        let mut bytes = [0; hello::HELLO_BYTES];
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
        Ok(hello::decode(&bytes).map(|layout| Self { layout, file }))
    }
}

/// The bytes that tell the lender that its region is mapped.
pub fn welcome() -> Vec<u8> {
    hello::answer(Ok(()))
}

/// The bytes that tell the lender why not.
pub fn refuse(error: &ServiceError) -> Vec<u8> {
    hello::answer(Err(error))
}

//! Memory files, and descriptors over sockets, on Linux.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use proto::{Result, ServiceError};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recv, recvmsg, sendmsg,
    },
};

/// The file system of memory files. Those of huge pages are in another one: writing to them can fail later.
const TMPFS_MAGIC: i64 = 0x0102_1994;

pub fn memory_file(bytes: u64) -> Result<OwnedFd> {
    let failed =
        |error| ServiceError::Unavailable { what: format!("a memory file of {bytes} bytes ({error})") };
    let file = memfd_create("rustle", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(failed)?;
    ftruncate(&file, bytes).map_err(failed)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(failed)?;
    Ok(file)
}

/// Returns the size of a memory file that can't shrink, and refuses any other file.
pub fn check_memory_file(file: &OwnedFd) -> Result<u64> {
    let refused = |value: &str| {
        ServiceError::invalid("descriptor", value, "a memory file (memfd_create) sealed with F_SEAL_SHRINK")
    };
    let seals = fcntl_get_seals(file).map_err(|_| refused("of another kind"))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(refused("not sealed against shrinking"));
    }
    if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
        return Err(refused("sealed against writing"));
    }
    if fstatfs(file).map_err(ServiceError::internal)?.f_type as i64 != TMPFS_MAGIC {
        return Err(refused("of huge pages"));
    }
    let size = fstat(file).map_err(ServiceError::internal)?.st_size;
    u64::try_from(size).map_err(ServiceError::internal)
}

pub fn send_with_descriptor(socket: &UnixStream, bytes: &[u8], file: &OwnedFd) -> io::Result<()> {
    let descriptors = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::WriteZero, "the hello was sent in part"))
    }
}

/// Fills `bytes` from one message, and returns its length and the descriptors that came with it.
pub fn receive_with_descriptors(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    // Room for several, so that those of a mistaken sender are received, and closed.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((received.bytes, files))
}

/// Returns whether the other end still holds the connection. It sends nothing after its answer.
pub fn is_open(socket: &UnixStream) -> bool {
    let mut byte = [0u8; 1];
    let looked = recv(socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(looked, Err(rustix::io::Errno::AGAIN))
}

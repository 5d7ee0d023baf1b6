//! Messages of a process that lends memory: the hello with a descriptor, and the positions of its slots.

use std::{io::IoSlice, mem::MaybeUninit, os::fd::AsFd, os::unix::net::UnixStream};

use proto::{CoordinateRange, ElementType};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
};
use shared_memory::{BorrowedRegion, HELLO_BYTES, Layout, MAGIC, Offer, RegionId, VERSION};

use crate::{Target, words};

pub fn targets() -> Vec<Target> {
    vec![Target { name: "hello", seeds: hello_seeds, run: hello, slice: 1_000 }]
}

/// Size of the memory that comes with every hello, in bytes.
const MEMORY: u64 = 1 << 16;

fn hello_seeds() -> Vec<Vec<u8>> {
    let mut hello = Vec::new();
    hello.extend(MAGIC);
    hello.extend(VERSION.to_le_bytes());
    hello.extend(1u32.to_le_bytes());
    hello.extend([7; 16]);
    hello.extend(512u64.to_le_bytes());
    hello.extend(600u64.to_le_bytes());
    hello.extend(3u32.to_le_bytes());
    hello.extend(0u32.to_le_bytes());
    hello.extend(0u64.to_le_bytes());
    hello.extend(4_096u64.to_le_bytes());
    assert_eq!(hello.len(), HELLO_BYTES);
    vec![hello]
}

/// Every slot of an accepted hello lies within the memory that came with it.
fn hello(bytes: &[u8]) -> String {
    let (sender, receiver) = UnixStream::pair().expect("a pair of sockets");
    let memory = memfd_create("fuzz", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&memory, MEMORY).expect("its size");
    fcntl_add_seals(&memory, SealFlags::SHRINK).expect("its seal");
    let files = [memory.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&files));
    if bytes.is_empty() || sendmsg(&sender, &[IoSlice::new(bytes)], &mut message, SendFlags::empty()).is_err()
    {
        return "not sent".into();
    }
    receiver.set_nonblocking(true).expect("a socket");
    let offer = match Offer::receive(&receiver) {
        Ok(Ok(offer)) => offer,
        Ok(Err(error)) => return words(error),
        Err(error) => return words(error),
    };
    let layout = offer.layout;
    slots_lie_within(&layout);
    match BorrowedRegion::open(offer) {
        Ok(borrowed) => {
            assert!(layout.size() <= MEMORY, "{layout:?} is larger than its memory");
            assert_eq!(borrowed.layout().size(), layout.size());
            "ok".into()
        }
        Err(error) => words(error),
    }
}

fn slots_lie_within(layout: &Layout) {
    let CoordinateRange { start, end } = layout.range;
    let last = layout.slots - 1;
    for (slot, range) in
        [(0, start..start + 1), (last, end - 1..end), (last / 2, start..end), (last, start..end)]
    {
        let place = layout.place(slot, CoordinateRange { start: range.start, end: range.end });
        let place = place.expect("a slot of the layout");
        assert!(place.start < place.end && place.end as u64 <= layout.size(), "{layout:?} {place:?}");
    }
    let other = Layout::new(RegionId([1; 16]), layout.range, layout.slots, ElementType::Bf16);
    if let Ok(other) = other {
        assert!(other.check().is_ok());
    }
}

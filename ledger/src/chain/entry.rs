//! Entries of chains.

/// One event with its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry's number, from 0.
    pub index: u64,
    /// The hash of the entry before.
    pub previous: [u8; 32],
    /// The hash of this entry.
    pub hash: [u8; 32],
    /// The event's JSON with its stamp, byte for byte as it was hashed; [`Stamp::split`](crate::Stamp::split) takes it apart.
    pub event: String,
}

/// An entry that has just become durable, with its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedEntry {
    /// A job's name, or `data-set/` and a data set's.
    pub chain: String,
    /// The entry.
    pub entry: Entry,
}

//! Stands for the ledger's `store.rs`, of which the tables' files want no more than the reasons why they stop.

#[derive(Debug)]
pub enum Fail {
    Store(redb::Error),
    Record(String),
}

impl From<redb::StorageError> for Fail {
    fn from(error: redb::StorageError) -> Self {
        Fail::Store(error.into())
    }
}

impl From<redb::TableError> for Fail {
    fn from(error: redb::TableError) -> Self {
        Fail::Store(error.into())
    }
}

//! The format of the tables, which rises with what they first hold.

use redb::ReadableTable;

use crate::{
    error::Fail,
    store::recording::RecordingTransaction,
    tables::{META, META_FORMAT},
};

/// Notes that the tables need a build of this format or a later one.
pub fn raise(transaction: &RecordingTransaction<'_>, format: u64) -> Result<(), Fail> {
    let mut meta = transaction.open_table(META)?;
    let before = meta.get(META_FORMAT)?.map_or(0, |value| value.value());
    if before < format {
        meta.insert(META_FORMAT, format)?;
    }
    Ok(())
}

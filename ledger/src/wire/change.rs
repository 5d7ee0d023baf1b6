//! One change of a table, in a form that does not depend on the store's own encoding: `[table, key, value]` as JSON.
//!
//! This mirrors the tables beside the chain of events, which alone could rebuild most of them. The log in etcd is made
//! of changes because plan texts, checkpoint records and the coordinator's epoch are in no event.

use redb::{Key, ReadableTable, TableDefinition, TableHandle, WriteTransaction};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{
    error::Fail,
    tables::{
        BINDINGS, BRANCHES, CHARGES, CHECKPOINTS, CURSORS, DATA_SETS, ENTRIES, HEADS, JOBS, META, PLANS,
        SHARDS, SWEEPS, create_all,
    },
};

use super::json_codec::Field;

/// Table, key, and the key's new value; none where the key was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change(pub String, pub Json, pub Option<Json>);

/// Applies the changes, in order, to tables that an earlier process wrote. Error: a change of no known table or type.
pub fn apply(transaction: &WriteTransaction, changes: Vec<Change>) -> Result<(), Fail> {
    create_all(transaction)?;
    for Change(table, key, value) in changes {
        let outcome = match table.as_str() {
            name if name == META.name() => put(transaction, META, key, value),
            name if name == JOBS.name() => put(transaction, JOBS, key, value),
            name if name == PLANS.name() => put(transaction, PLANS, key, value),
            name if name == SHARDS.name() => put(transaction, SHARDS, key, value),
            name if name == BINDINGS.name() => put(transaction, BINDINGS, key, value),
            name if name == CURSORS.name() => put(transaction, CURSORS, key, value),
            name if name == BRANCHES.name() => put(transaction, BRANCHES, key, value),
            name if name == CHECKPOINTS.name() => put(transaction, CHECKPOINTS, key, value),
            name if name == DATA_SETS.name() => put(transaction, DATA_SETS, key, value),
            name if name == CHARGES.name() => put(transaction, CHARGES, key, value),
            name if name == SWEEPS.name() => put(transaction, SWEEPS, key, value),
            name if name == ENTRIES.name() => put(transaction, ENTRIES, key, value),
            name if name == HEADS.name() => put(transaction, HEADS, key, value),
            _ => Ok(None),
        };
        if outcome?.is_none() {
            return Err(Fail::Record(format!("a change of table {table} is none that this build knows")));
        }
    }
    Ok(())
}

/// Calls `visit` with a change for every entry of every table, until it returns false: applied to empty tables, they make
/// the same ones.
pub fn each(transaction: &WriteTransaction, visit: &mut impl FnMut(Change) -> bool) -> Result<(), Fail> {
    let _ = each_of(transaction, META, visit)?
        && each_of(transaction, JOBS, visit)?
        && each_of(transaction, PLANS, visit)?
        && each_of(transaction, SHARDS, visit)?
        && each_of(transaction, BINDINGS, visit)?
        && each_of(transaction, CURSORS, visit)?
        && each_of(transaction, BRANCHES, visit)?
        && each_of(transaction, CHECKPOINTS, visit)?
        && each_of(transaction, DATA_SETS, visit)?
        && each_of(transaction, CHARGES, visit)?
        && each_of(transaction, SWEEPS, visit)?
        && each_of(transaction, ENTRIES, visit)?
        && each_of(transaction, HEADS, visit)?;
    Ok(())
}

fn each_of<K: Field + Key + 'static, V: Field + 'static>(
    transaction: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
    visit: &mut impl FnMut(Change) -> bool,
) -> Result<bool, Fail> {
    for entry in transaction.open_table(definition)?.iter()? {
        let (key, value) = entry?;
        let value = Some(V::to_json(&value.value()));
        if !visit(Change(definition.name().to_owned(), K::to_json(&key.value()), value)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Applies one change to one table; `None` where key or value have another type.
fn put<K: Field + Key + 'static, V: Field + 'static>(
    transaction: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
    key: Json,
    value: Option<Json>,
) -> Result<Option<()>, Fail> {
    let Some(key) = K::stored(key) else { return Ok(None) };
    let mut table = transaction.open_table(definition)?;
    match value {
        None => drop(table.remove(K::from_bytes(&key))?),
        Some(value) => {
            let Some(value) = V::stored(value) else { return Ok(None) };
            drop(table.insert(K::from_bytes(&key), V::from_bytes(&value))?);
        }
    }
    Ok(Some(()))
}

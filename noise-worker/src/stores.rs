//! The checkpoint stores that a worker has opened, by URL: connections to a bucket outlive one snapshot.

use std::{collections::HashMap, sync::Mutex};

use checkpoint_store::{CheckpointStore, PlainHttp};
use proto::Result;

/// Open checkpoint stores.
#[derive(Default)]
pub struct Stores {
    plain_http: PlainHttp,
    open: Mutex<HashMap<String, CheckpointStore>>,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stores({:?} plain HTTP)", self.plain_http)
    }
}

impl Stores {
    pub fn new(plain_http: PlainHttp) -> Self {
        Self { plain_http, open: Mutex::default() }
    }

    /// Opens a store. A folder is opened anew each time, so that one that is gone is created again.
    pub fn open(&self, url: &str) -> Result<CheckpointStore> {
        let mut open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(store) = open.get(url).filter(|_| !url.starts_with("file:")) {
            return Ok(store.clone());
        }
        let store = CheckpointStore::open_over(url, self.plain_http)?;
        open.insert(url.to_owned(), store.clone());
        Ok(store)
    }
}

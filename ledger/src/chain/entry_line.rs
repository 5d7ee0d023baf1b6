//! An entry of a chain as one line of JSON: what exports hold and audit files are made of.

use std::{collections::BTreeMap, ops::Range};

use proto::hex_digest;
use serde::{Deserialize, Serialize};

use super::{Head, entries, entry::Entry, stamp::Stamp, verify::Replayed};
use crate::{LedgerError, Result, error::Fail};

/// An entry with its chain. As JSON it has the event twice: the whole text that was hashed as `event`, and its kind, its time and
/// its author beside it, for tools that search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryLine {
    /// A job's name, or `data-set/` and a data set's.
    pub chain: String,
    /// The entry's number in its chain, from 0.
    pub index: u64,
    /// The kind of event, such as `bound`.
    pub kind: String,
    /// Milliseconds since 1970, by the clock of the process that made it.
    pub at_ms: u64,
    /// Who made it.
    pub by: String,
    /// The hash of the entry before.
    #[serde(with = "hex_digest")]
    pub previous: [u8; 32],
    /// The hash of this entry.
    #[serde(with = "hex_digest")]
    pub hash: [u8; 32],
    /// The event's JSON with its stamp, byte for byte as it was hashed.
    pub event: String,
}

/// The tag of every event.
#[derive(Deserialize)]
struct Tag {
    event: String,
}

impl EntryLine {
    /// Returns the entry of the chain as a line.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`] for an event that no ledger writes.
    pub fn new(chain: &str, entry: Entry) -> Result<Self> {
        let Entry { index, previous, hash, event } = entry;
        let (Stamp { by, at_ms }, own) = Stamp::split(&event)?;
        let tag: Tag = serde_json::from_str(&own)
            .map_err(|_| LedgerError::invalid("entry", &event, "JSON with the field event"))?;
        let by = by.to_string();
        Ok(Self { chain: chain.to_owned(), index, kind: tag.event, at_ms, by, previous, hash, event })
    }

    /// Returns the line, without its end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns whether the fields beside the event are what the event says.
    fn is_consistent(&self) -> bool {
        let entry =
            Entry { index: self.index, previous: self.previous, hash: self.hash, event: self.event.clone() };
        Self::new(&self.chain, entry).is_ok_and(|again| again == *self)
    }
}

/// A check of whole chains, entry by entry: that each follows from the one before, and that its event can follow those before.
pub struct ChainCheck {
    heads: BTreeMap<String, Head>,
    replayed: Replayed,
    /// Whether chains may lack entries.
    is_partial: bool,
    /// The index at which each chain begins that lacks its first entries.
    begun_late: BTreeMap<String, u64>,
    gaps: Vec<ChainGap>,
}

impl Default for ChainCheck {
    fn default() -> Self {
        Self {
            heads: BTreeMap::new(),
            replayed: Replayed::comparing_archives(),
            is_partial: false,
            begun_late: BTreeMap::new(),
            gaps: Vec::new(),
        }
    }
}

fn reason(fail: Fail) -> String {
    match fail {
        Fail::Record(reason) => reason,
        Fail::Refused(error) => error.to_string(),
        Fail::Store(error) => error.to_string(),
    }
}

/// Entries that a chain lacks between two that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainGap {
    /// The chain.
    pub chain: String,
    /// The indices of the entries.
    pub entries: Range<u64>,
}

impl ChainCheck {
    /// Returns a check of chains that may lack entries, as in a file that was begun after the ledger, or of a coordinator that
    /// did not lead all the time. From where a chain lacks one on, its entries are hashed, and not replayed.
    pub fn of_partial_chains() -> Self {
        Self { is_partial: true, ..Self::default() }
    }

    /// Takes the next entry of any chain. Error: what is wrong with it.
    ///
    /// # Errors
    /// The reason why it doesn't follow.
    pub fn take(&mut self, line: &EntryLine) -> Result<(), String> {
        let EntryLine { chain, index, previous, hash, event, .. } = line;
        let mut head = match self.heads.get(chain) {
            Some(head) => *head,
            None => entries::head_before(chain, *index, event.as_bytes()).map_err(reason)?,
        };
        if self.is_partial && *index > head.entries {
            if head.entries == 0 {
                self.begun_late.insert(chain.clone(), *index);
            } else {
                self.gaps.push(ChainGap { chain: chain.clone(), entries: head.entries..*index });
            }
            head = Head { entries: *index, hash: *previous };
        }
        if *index != head.entries {
            return Err(format!("it is entry {index}, and entry {} comes next", head.entries));
        }
        if *previous != head.hash {
            return Err("it names another hash of the entry before".to_owned());
        }
        let next = head.next(event.as_bytes());
        if *hash != next.hash {
            return Err("its hash is not that of its event".to_owned());
        }
        if !line.is_consistent() {
            return Err("its fields are not what its event says".to_owned());
        }
        self.heads.insert(chain.clone(), next);
        if self.begun_late.contains_key(chain) || self.gaps.iter().any(|gap| gap.chain == *chain) {
            return Ok(());
        }
        self.replayed.apply(chain, head, event.as_bytes()).map_err(reason)
    }

    /// Returns the index of the first entry of each chain that began after its first.
    pub fn begun_late(&self) -> &BTreeMap<String, u64> {
        &self.begun_late
    }

    /// Returns what chains lack between entries that they have, in the order of the entries taken.
    pub fn gaps(&self) -> &[ChainGap] {
        &self.gaps
    }

    /// Returns the end of each chain so far.
    pub fn heads(&self) -> &BTreeMap<String, Head> {
        &self.heads
    }
}

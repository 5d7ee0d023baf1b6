//! Who leads: whoever's key is there. Before that: which ledger lies under the prefix.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use etcd_client::{Client, Compare, CompareOp, Error, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};
use serde::{Deserialize, Serialize};

use super::{
    config::EtcdConfig,
    keys::Keys,
    seat::{Granted, Seat, Term, give_back},
    wire::{Failure, Wire},
};
use crate::{LedgerError, Result, tables};

/// For calls before there is a lease to lose.
const PATIENCE: Duration = Duration::from_secs(1);
/// For the first of each member: passwords take long to check on purpose.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
struct Identity {
    format: u64,
    /// Drawn when the ledger was begun.
    ledger: String,
}

#[derive(Serialize, Deserialize)]
struct Leader {
    address: String,
}

/// Coordinators that stand for the lead of one ledger.
pub struct Election {
    wire: Arc<Wire>,
    keys: Keys,
    lease: Duration,
    ledger: String,
}

/// What came of [`Election::stand`].
pub enum Standing {
    Elected(Term),
    /// Another leads, at this address.
    Behind(String),
}

impl Election {
    /// Finds etcd and the ledger in it, or begins one. Blocks.
    ///
    /// Errors: no member answers; members of different clusters; a ledger of a newer format.
    pub fn connect(config: &EtcdConfig) -> Result<Self> {
        let wire = Arc::new(Wire::new(config)?);
        let keys = Keys::new(&config.prefix);
        let identity = wire.block_on(identify(&wire, &keys));
        let identity = identity.ok_or_else(|| LedgerError::NotLeader { path: config.name() })??;
        if identity.format != tables::FORMAT {
            let found = identity.format;
            let supported = tables::FORMAT;
            return Err(LedgerError::Format { path: config.name(), found, supported });
        }
        Ok(Self { wire, keys, lease: config.lease, ledger: identity.ledger })
    }

    /// The name that the ledger under this prefix was given when it was begun.
    pub fn ledger(&self) -> &str {
        &self.ledger
    }

    /// How often to stand again.
    pub fn pause(&self) -> Duration {
        (self.lease / 20).clamp(Duration::from_millis(100), Duration::from_millis(500))
    }

    /// Takes the lead where nobody has it. `address`: how others reach this coordinator. Blocks.
    pub fn stand(&self, address: &str) -> Result<Standing> {
        let standing = self.wire.block_on(self.try_to_lead(address));
        standing.ok_or_else(|| LedgerError::NotLeader { path: self.wire.name().to_owned() })?
    }

    /// Leads no more, and lets another one lead at once. Blocks.
    pub fn give_up(&self, seat: &Seat) {
        seat.lose();
        self.wire.block_on(give_back(&self.wire, seat.lease));
    }

    async fn try_to_lead(&self, address: &str) -> Result<Standing> {
        let key = self.keys.leader();
        let found =
            self.wire.ask(PATIENCE, async |mut client: Client| client.get(key.as_str(), None).await).await?;
        if let Some(leader) = found.kvs().first() {
            return Ok(Standing::Behind(self.address_in(leader.value())?));
        }
        let granted = self.grant().await?;
        let lease = granted.lease;
        match self.put_leader(address, granted).await {
            Ok(Standing::Elected(term)) => Ok(Standing::Elected(term)),
            other => {
                give_back(&self.wire, lease).await;
                other
            }
        }
    }

    async fn grant(&self) -> Result<Granted> {
        let asked = Instant::now();
        let seconds = self.lease.as_secs_f64().ceil() as i64;
        let grant = async |mut client: Client| client.lease_grant(seconds, None).await;
        let granted = self.wire.ask(PATIENCE, grant).await?;
        // At most what was asked for: a longer one is kept as if it were that.
        let life = Duration::from_secs(granted.ttl().min(seconds).max(0) as u64);
        Ok(Granted { lease: granted.id(), life, asked })
    }

    async fn put_leader(&self, address: &str, granted: Granted) -> Result<Standing> {
        let key = self.keys.leader();
        let path = self.wire.name().to_owned();
        let value = serde_json::to_vec(&Leader { address: address.to_owned() });
        let value =
            value.map_err(|error| LedgerError::Io { path: path.clone(), reason: error.to_string() })?;
        let options = PutOptions::new().with_lease(granted.lease);
        let txn = Txn::new()
            .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.as_str(), value.as_slice(), Some(options))])
            .or_else([TxnOp::get(key.as_str(), None)]);
        let answer =
            self.wire.ask(PATIENCE, async |mut client: Client| client.txn(txn.clone()).await).await?;
        if answer.succeeded() {
            let revision = answer.header().map(|header| header.revision()).unwrap_or_default();
            return Ok(Standing::Elected(Term::begin(
                self.wire.clone(),
                self.keys.clone(),
                granted,
                revision,
            )));
        }
        let Some(leader) = first_value(&answer) else { return Ok(Standing::Behind(String::new())) };
        if leader.lease == granted.lease {
            // An attempt before this one got through, and its answer did not.
            let term = Term::begin(self.wire.clone(), self.keys.clone(), granted, leader.revision);
            return Ok(Standing::Elected(term));
        }
        Ok(Standing::Behind(self.address_in(&leader.value)?))
    }

    fn address_in(&self, leader: &[u8]) -> Result<String> {
        let leader: Leader = serde_json::from_slice(leader).map_err(|error| LedgerError::Damaged {
            path: self.wire.name().to_owned(),
            reason: format!("the leader's key can't be read: {error}"),
        })?;
        Ok(leader.address)
    }
}

pub struct Found {
    pub value: Vec<u8>,
    /// At which its key was made.
    pub revision: i64,
    pub lease: i64,
}

/// Of the transaction's first operation, where that read a key that is there.
pub fn first_value(answer: &TxnResponse) -> Option<Found> {
    found(answer.op_responses().first()?)
}

pub fn found(response: &TxnOpResponse) -> Option<Found> {
    let TxnOpResponse::Get(read) = response else { return None };
    let pair = read.kvs().first()?;
    Some(Found { value: pair.value().to_vec(), revision: pair.create_revision(), lease: pair.lease() })
}

/// Asks every member, so that two clusters in one list are found out.
async fn identify(wire: &Wire, keys: &Keys) -> Result<Identity> {
    let key = keys.ledger();
    let mut clusters = BTreeMap::new();
    let mut silent = Vec::new();
    let path = wire.name().to_owned();
    for (index, member) in wire.members().enumerate() {
        let get = async |mut client: Client| client.get(key.as_str(), None).await;
        match wire.call_member(index, FIRST_PATIENCE, get).await {
            Ok(answer) => {
                let cluster = answer.header().map(|header| header.cluster_id()).unwrap_or_default();
                clusters.insert(cluster, member.to_owned());
            }
            // Whoever may not read here may not lead.
            Err(Failure::Refused(reason)) => return Err(LedgerError::Io { path, reason }),
            Err(Failure::Open(reason)) => silent.push(reason),
        }
    }
    if clusters.is_empty() {
        return Err(LedgerError::Unreachable { path, reason: silent.join("; ") });
    }
    if clusters.len() > 1 {
        let members: Vec<_> =
            clusters.into_iter().map(|(id, member)| format!("{member} of {id:x}")).collect();
        let reason = format!("its members are of different etcd clusters: {}", members.join(", "));
        return Err(LedgerError::OtherStore { path, reason });
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| LedgerError::Io { path: path.clone(), reason: error.to_string() })?;
    let new = Identity { format: tables::FORMAT, ledger: hex::encode(id) };
    let unreadable = |error: serde_json::Error| LedgerError::OtherStore {
        path: path.clone(),
        reason: format!("the key {key} is not what Rustle writes there: {error}"),
    };
    let value = serde_json::to_vec(&new).map_err(unreadable)?;
    let begin = async |mut client: Client| -> Result<TxnResponse, Error> {
        let txn = Txn::new()
            .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.as_str(), value.as_slice(), None)])
            .or_else([TxnOp::get(key.as_str(), None)]);
        client.txn(txn).await
    };
    let answer = wire.ask(PATIENCE, begin).await?;
    match first_value(&answer) {
        Some(existing) => serde_json::from_slice(&existing.value).map_err(unreadable),
        None => Ok(new),
    }
}

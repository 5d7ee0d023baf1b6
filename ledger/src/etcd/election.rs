//! Election of a leader: the owner of the leader's key. And which ledger lies under the prefix.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use etcd_client::{Client, Compare, CompareOp, Error, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};
use proto::Nonce;
use serde::{Deserialize, Serialize};

use super::{
    client::{CallError, EtcdClient},
    config::EtcdConfig,
    keys::Keys,
    leader_lease::{GrantedLease, LeaderLease, Term, give_back},
};
use crate::{LedgerError, Result, tables};

/// One attempt at a call, before there is a lease to lose.
const CALL_LIMIT: Duration = Duration::from_secs(1);
/// The first call of each member: passwords take long to check on purpose.
const FIRST_CALL_LIMIT: Duration = Duration::from_secs(5);

/// The format of a ledger in etcd whose log begins with a state. Builds that know the whole log alone refuse it.
pub const CUT_LOG_FORMAT: u64 = 8;

/// The JSON under the ledger's own key.
#[derive(Debug, Serialize, Deserialize)]
pub struct Identity {
    /// [`tables::FORMAT`] as long as the log is whole, [`CUT_LOG_FORMAT`] from the first state on.
    pub format: u64,
    /// The ledger's id, drawn when it was begun.
    pub ledger: String,
}

#[derive(Serialize, Deserialize)]
struct Leader {
    address: String,
}

/// The election of the coordinator that leads one ledger, as one of the candidates.
pub struct Election {
    client: Arc<EtcdClient>,
    keys: Keys,
    lease: Duration,
    ledger: Nonce,
}

/// The outcome of [`Election::campaign`].
pub enum Candidacy {
    /// This coordinator leads.
    Elected(Term),
    /// Another coordinator leads, at this address; empty where its key has just gone.
    LedBy(String),
}

impl Election {
    /// Connects to etcd and finds the ledger in it, or creates one. Blocks.
    ///
    /// Errors: no member answers; members of different clusters; a ledger of a newer format.
    pub fn connect(config: &EtcdConfig) -> Result<Self> {
        Self::connect_to(config, true)
    }

    /// Connects to etcd and finds the ledger in it, and begins none. Blocks.
    ///
    /// # Errors
    /// Those of [`Election::connect`]; [`LedgerError::NotFound`] where there is no ledger.
    pub fn connect_to_existing(config: &EtcdConfig) -> Result<Self> {
        Self::connect_to(config, false)
    }

    fn connect_to(config: &EtcdConfig, begins: bool) -> Result<Self> {
        let client = Arc::new(EtcdClient::new(config)?);
        let keys = Keys::new(&config.prefix);
        let identity = client.block_on(identify(&client, &keys, begins));
        let identity = identity.ok_or_else(|| LedgerError::NotLeader { path: config.name() })??;
        if ![tables::FORMAT, CUT_LOG_FORMAT].contains(&identity.format) {
            let found = identity.format;
            let supported = CUT_LOG_FORMAT;
            return Err(LedgerError::Format { path: config.name(), found, supported });
        }
        let ledger = identity.ledger.parse().map_err(|_| LedgerError::Damaged {
            path: config.name(),
            reason: format!("its id is {:?}, which is no 64 hex digits", identity.ledger),
        })?;
        Ok(Self { client, keys, lease: config.lease, ledger })
    }

    /// Returns the id that the ledger under this prefix drew when it was begun.
    pub fn ledger(&self) -> Nonce {
        self.ledger
    }

    /// Returns the time to wait before the next campaign.
    pub fn pause(&self) -> Duration {
        (self.lease / 20).clamp(Duration::from_millis(100), Duration::from_millis(500))
    }

    /// Takes the lead where it is free. `address` is where others reach this coordinator. Blocks.
    pub fn campaign(&self, address: &str) -> Result<Candidacy> {
        let outcome = self.client.block_on(self.try_to_lead(address));
        outcome.ok_or_else(|| LedgerError::NotLeader { path: self.client.name().to_owned() })?
    }

    /// Ends this coordinator's lead, so that another can lead at once. Blocks.
    pub fn resign(&self, lease: &LeaderLease) {
        lease.lose();
        self.client.block_on(give_back(&self.client, lease.id));
    }

    async fn try_to_lead(&self, address: &str) -> Result<Candidacy> {
        let key = self.keys.leader();
        let found = self
            .client
            .call_with_retry(CALL_LIMIT, async |mut client: Client| client.get(key.as_str(), None).await)
            .await?;
        if let Some(leader) = found.kvs().first() {
            return Ok(Candidacy::LedBy(self.address_in(leader.value())?));
        }
        let granted = self.grant().await?;
        let id = granted.id;
        match self.put_leader(address, granted).await {
            Ok(Candidacy::Elected(term)) => Ok(Candidacy::Elected(term)),
            other => {
                give_back(&self.client, id).await;
                other
            }
        }
    }

    async fn grant(&self) -> Result<GrantedLease> {
        let requested = Instant::now();
        let seconds = self.lease.as_secs_f64().ceil() as i64;
        let grant = async |mut client: Client| client.lease_grant(seconds, None).await;
        let granted = self.client.call_with_retry(CALL_LIMIT, grant).await?;
        // A lease longer than requested is used as if it were that long.
        let life = Duration::from_secs(granted.ttl().min(seconds).max(0) as u64);
        Ok(GrantedLease { id: granted.id(), life, requested })
    }

    async fn put_leader(&self, address: &str, granted: GrantedLease) -> Result<Candidacy> {
        let key = self.keys.leader();
        let path = self.client.name().to_owned();
        let value = serde_json::to_vec(&Leader { address: address.to_owned() });
        let value =
            value.map_err(|error| LedgerError::Io { path: path.clone(), reason: error.to_string() })?;
        let options = PutOptions::new().with_lease(granted.id);
        let txn = Txn::new()
            .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.as_str(), value.as_slice(), Some(options))])
            .or_else([TxnOp::get(key.as_str(), None)]);
        let answer = self
            .client
            .call_with_retry(CALL_LIMIT, async |mut client: Client| client.txn(txn.clone()).await)
            .await?;
        if answer.succeeded() {
            let revision = answer.header().map(|header| header.revision()).unwrap_or_default();
            return Ok(Candidacy::Elected(Term::begin(
                self.client.clone(),
                self.keys.clone(),
                self.ledger,
                granted,
                revision,
            )));
        }
        let Some(leader) = first_value(&answer) else { return Ok(Candidacy::LedBy(String::new())) };
        if leader.lease == granted.id {
            // An attempt before this one got through, and its answer did not.
            let term =
                Term::begin(self.client.clone(), self.keys.clone(), self.ledger, granted, leader.revision);
            return Ok(Candidacy::Elected(term));
        }
        Ok(Candidacy::LedBy(self.address_in(&leader.value)?))
    }

    fn address_in(&self, leader: &[u8]) -> Result<String> {
        let leader: Leader = serde_json::from_slice(leader).map_err(|error| LedgerError::Damaged {
            path: self.client.name().to_owned(),
            reason: format!("the leader's key can't be read: {error}"),
        })?;
        Ok(leader.address)
    }
}

/// A key that was read.
pub struct ReadKey {
    pub value: Vec<u8>,
    /// The revision at which its key was created.
    pub revision: i64,
    pub lease: i64,
}

/// Returns the key that the transaction's first operation read; `None` where it is not there.
pub fn first_value(answer: &TxnResponse) -> Option<ReadKey> {
    read_key(answer.op_responses().first()?)
}

/// Returns the key that was read; `None` where it is not there.
pub fn read_key(response: &TxnOpResponse) -> Option<ReadKey> {
    let TxnOpResponse::Get(read) = response else { return None };
    let pair = read.kvs().first()?;
    Some(ReadKey { value: pair.value().to_vec(), revision: pair.create_revision(), lease: pair.lease() })
}

/// Reads from every member, so that two clusters in one list are noticed.
async fn identify(client: &EtcdClient, keys: &Keys, begins: bool) -> Result<Identity> {
    let key = keys.ledger();
    let mut is_there = false;
    let mut clusters = BTreeMap::new();
    let mut silent = Vec::new();
    let path = client.name().to_owned();
    for (index, member) in client.members().enumerate() {
        let get = async |mut client: Client| client.get(key.as_str(), None).await;
        match client.call_member(index, FIRST_CALL_LIMIT, get).await {
            Ok(answer) => {
                let cluster = answer.header().map(|header| header.cluster_id()).unwrap_or_default();
                clusters.insert(cluster, member.to_owned());
                is_there |= !answer.kvs().is_empty();
            }
            // A process that may not read here may not lead.
            Err(CallError::Refused(reason)) => return Err(LedgerError::Io { path, reason }),
            Err(CallError::Unknown(reason)) => silent.push(reason),
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
    if !begins && !is_there {
        return Err(LedgerError::NotFound { what: "ledger", name: path.display().to_string() });
    }
    let mut id = [0; 32];
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
    let answer = client.call_with_retry(CALL_LIMIT, begin).await?;
    match first_value(&answer) {
        Some(existing) => serde_json::from_slice(&existing.value).map_err(unreadable),
        None => Ok(new),
    }
}

//! Floods below gRPC: frames that cost their sender little, and must not cost the server much.

use std::{collections::BTreeMap, path::Path, sync::atomic::Ordering, time::Duration};

use node::auth::Role;
use tests::{job, raw_tls};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Runtime,
    task::JoinSet,
    time::timeout,
};

use crate::{
    DIMENSION, Process, address,
    attacks::{ATTACKS, AttackTarget, BEGUN},
    frames::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, frame,
        headers_of_a_call, kept_again, kept_header, parse, preface,
    },
    path,
    processes::Processes,
    secured,
};

const CONNECTIONS: usize = 8;
const LASTS: Duration = Duration::from_millis(1_500);
/// One that must be closed is read no faster than its caller's pace until it is.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);
/// Bytes that are sent at once.
const BATCH: usize = 64 << 10;

/// A flood: the bytes sent first, and the frames that are sent repeatedly with a rising number.
pub struct Flood {
    name: &'static str,
    first: fn(&str) -> Vec<u8>,
    again: fn(&str, u32) -> Vec<u8>,
    /// Whether a server has to close the connection because of it.
    is_fatal: bool,
}

fn nothing(_: &str) -> Vec<u8> {
    Vec::new()
}

pub static PINGS: Flood = Flood {
    name: "pings",
    first: nothing,
    again: |_, n| frame(PING, 0, 0, &u64::from(n).to_be_bytes()),
    is_fatal: false,
};
static SETTINGS_AGAIN: Flood = Flood {
    name: "settings",
    first: nothing,
    // The size of the table that headers are kept in, up and down.
    again: |_, n| frame(SETTINGS, 0, 0, &[0, 1, 0, 0, (n % 16) as u8, 0]),
    is_fatal: false,
};
static BOMBS: Flood = Flood {
    name: "header bombs",
    first: |path| {
        let block = [headers_of_a_call(path), kept_header()].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)
    },
    // 16 KiB that stand for 64 MiB.
    again: |path, n| {
        let block = [headers_of_a_call(path), kept_again(16_000)].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 3, &block)
    },
    is_fatal: true,
};
static OTHERS: [Flood; 4] = [
    Flood {
        name: "continuations",
        first: |path| frame(HEADERS, END_STREAM, 1, &headers_of_a_call(path)),
        again: |_, _| {
            frame(CONTINUATION, 0, 1, &[vec![0], vec![1, b'x'], vec![1, b'y']].concat().repeat(3_000))
        },
        is_fatal: true,
    },
    Flood {
        name: "empty continuations",
        first: |path| frame(HEADERS, END_STREAM, 1, &headers_of_a_call(path)),
        again: |_, _| frame(CONTINUATION, 0, 1, &[]),
        is_fatal: true,
    },
    Flood {
        name: "empty data",
        first: |path| frame(HEADERS, END_HEADERS, 1, &headers_of_a_call(path)),
        again: |_, _| frame(DATA, 0, 1, &[]),
        is_fatal: true,
    },
    Flood {
        name: "streams reset at once",
        first: nothing,
        again: |path, n| {
            let stream = 2 * n + 1;
            let opened = frame(HEADERS, END_HEADERS, stream, &headers_of_a_call(path));
            [opened, frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())].concat()
        },
        // It ends where twenty are reset before anyone looks; read at its pace, it may never come to that.
        is_fatal: false,
    },
];

/// The outcome of one connection.
#[derive(Debug, Default)]
pub struct ConnectionOutcome {
    sent: usize,
    is_closed: bool,
    /// The number of frames of each kind that the server sent.
    pub answers: BTreeMap<u8, usize>,
    /// Why it went, by its own words.
    goaway: Option<u32>,
}

impl Flood {
    /// Sends the flood until the server closes the connection, or for `lasts`.
    pub async fn send(&self, address: &str, shown: &Path, path: &str, lasts: Duration) -> ConnectionOutcome {
        let mut ended = ConnectionOutcome::default();
        let Ok(stream) = raw_tls::connect(address, Some(shown)).await else { return ended };
        let (mut reading, mut writing) = tokio::io::split(stream);
        let mut sent = 0;
        let write = async {
            let mut batch = [preface(), (self.first)(path)].concat();
            let mut number = 0;
            loop {
                while batch.len() < BATCH {
                    batch.extend((self.again)(path, number));
                    number += 1;
                }
                BEGUN.fetch_add(1, Ordering::Relaxed);
                let Ok(written @ 1..) = writing.write(&batch).await else { return };
                batch.drain(..written);
                sent += written;
                ATTACKS.fetch_add(1, Ordering::Relaxed);
            }
        };
        let read = async {
            let mut bytes = Vec::new();
            let mut piece = vec![0; BATCH];
            while let Ok(length @ 1..) = reading.read(&mut piece).await {
                bytes.extend_from_slice(&piece[..length]);
                let (frames, used) = parse(&bytes);
                bytes.drain(..used);
                for (kind, payload) in frames {
                    *ended.answers.entry(kind).or_default() += 1;
                    if kind == GOAWAY {
                        ended.goaway = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
                    }
                }
            }
        };
        // A closed connection can neither write nor read.
        let both = async { tokio::join!(write, read) };
        ended.is_closed = timeout(lasts, both).await.is_ok();
        ended.sent = sent;
        ended
    }
}

/// Over connections that are opened again where the server closes them.
fn over_and_over(
    flood: &'static Flood,
    against: &AttackTarget<'_>,
    runtime: &Runtime,
    count: usize,
) -> JoinSet<()> {
    let shown = against.cluster.cluster.certificate(&Role::Job("flooder".into())).unwrap();
    let address = address(against.cluster, against.of);
    let path = path(against.of);
    let mut attackers = JoinSet::new();
    for _ in 0..count.min(100) {
        let address = address.clone();
        let shown = shown.clone();
        let attack = async move {
            loop {
                flood.send(&address, &shown, path, Duration::MAX).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        attackers.spawn_on(attack, runtime.handle());
    }
    attackers
}

pub fn pings(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    over_and_over(&PINGS, against, runtime, count)
}

pub fn settings(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    over_and_over(&SETTINGS_AGAIN, against, runtime, count)
}

pub fn bombs(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    over_and_over(&BOMBS, against, runtime, count)
}

#[test]
fn http2_floods_cost_no_memory_and_no_process() {
    let cluster = secured(&[]);
    let client = cluster.client_as(&Role::Job("honest".into()));
    let shown = cluster.cluster.certificate(&Role::Job("flooder".into())).unwrap();
    let fetch = || {
        let texts = vec!["step 0".to_owned()];
        let patience = Duration::from_secs(20);
        cluster.fetch_by(&client, &job("honest"), 0..1, 0..DIMENSION, texts, patience)
    };
    fetch().unwrap();
    let before = Processes::of(&cluster);
    let runtime = Runtime::new().unwrap();
    for of in [Process::Coordinator, Process::Worker] {
        let address = address(&cluster, of);
        for flood in [&PINGS, &SETTINGS_AGAIN, &BOMBS].into_iter().chain(&OTHERS) {
            let mut attackers = JoinSet::new();
            let lasts = if flood.is_fatal { CLOSED_WITHIN } else { LASTS };
            for _ in 0..CONNECTIONS {
                let address = address.clone();
                let shown = shown.clone();
                let attack = async move { flood.send(&address, &shown, path(of), lasts).await };
                attackers.spawn_on(attack, runtime.handle());
            }
            fetch().expect("the honest job is still served");
            let ended = runtime.block_on(attackers.join_all());
            let closed = ended.iter().filter(|ended| ended.is_closed).count();
            let sent: usize = ended.iter().map(|ended| ended.sent).sum();
            println!(
                "flood: {} to the {of:?}: {closed} of {CONNECTIONS} closed after {} KiB, {:?}",
                flood.name,
                sent >> 10,
                ended[0]
            );
            assert!(sent > 0, "{}: no attack was made", flood.name);
            if flood.is_fatal {
                assert_eq!(closed, CONNECTIONS, "{}: connections are still open: {ended:?}", flood.name);
            }
            before.check(&cluster, flood.name);
        }
    }
    println!("flood: grown by {:?} KiB", before.grown().iter().map(|bytes| bytes >> 10).collect::<Vec<_>>());
    cluster.cluster.stop().expect("both processes end as they should");
}

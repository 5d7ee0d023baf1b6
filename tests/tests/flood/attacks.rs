//! The attacks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tests::{
    TestCluster,
    raw_call::{about, call},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Runtime,
    task::JoinSet,
};

use crate::{Process, address, flooder, path, url};

/// Calls and connections that attackers made, and those that they began.
pub static ATTACKS: AtomicU64 = AtomicU64::new(0);
pub static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Starts attackers, which run until they are stopped.
pub type Attack = fn(&AttackTarget<'_>, &Runtime, usize) -> JoinSet<()>;

/// The target of an attack.
pub struct AttackTarget<'a> {
    pub cluster: &'a TestCluster,
    pub of: Process,
}

pub fn no_attack(_: &AttackTarget<'_>, _: &Runtime, _: usize) -> JoinSet<()> {
    JoinSet::new()
}

pub fn silent(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    let address = address(against.cluster, against.of);
    for _ in 0..count {
        let address = address.clone();
        attackers.spawn_on(
            async move {
                loop {
                    BEGUN.fetch_add(1, Ordering::Relaxed);
                    if let Ok(mut stream) = tokio::net::TcpStream::connect(&address).await {
                        let _closed = stream.read(&mut [0; 1]).await;
                    }
                    ATTACKS.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            runtime.handle(),
        );
    }
    attackers
}

pub fn slow_handshakes(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    let address = address(against.cluster, against.of);
    for _ in 0..count {
        let address = address.clone();
        attackers.spawn_on(
            async move {
                loop {
                    BEGUN.fetch_add(1, Ordering::Relaxed);
                    if let Ok(mut stream) = tokio::net::TcpStream::connect(&address).await {
                        // A handshake record of 512 bytes that never comes whole.
                        for byte in [0x16, 3, 1, 2, 0].into_iter().chain([0; 500]) {
                            if stream.write_all(&[byte]).await.is_err() {
                                break;
                            }
                            tokio::time::sleep(Duration::from_millis(200)).await;
                        }
                    }
                    ATTACKS.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            runtime.handle(),
        );
    }
    attackers
}

pub fn giant_messages(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    // Beyond what either process takes.
    let giant = Bytes::from(vec![0; (8 << 20) + 1]);
    let path = path(against.of);
    repeat(against, runtime, count.min(50), move |channel| {
        let giant = giant.clone();
        async move {
            let _refused = call(channel, path, None, giant).await;
        }
    })
}

/// Ten calls an attacker at once, all over one connection.
pub fn streams(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let path = path(against.of);
    repeat(against, runtime, count * 10, move |channel| async move {
        let _answer = call(channel, path, None, about("flooder")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
}

/// Calls that are given up as soon as they are sent.
pub fn resets(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let path = path(against.of);
    repeat(against, runtime, count, move |channel| async move {
        let calling = call(channel, path, None, about("flooder"));
        let _given_up = tokio::time::timeout(Duration::from_micros(300), calling).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    })
}

fn repeat<F>(
    against: &AttackTarget<'_>,
    runtime: &Runtime,
    count: usize,
    attack: impl Fn(tonic::transport::Channel) -> F + Send + Sync + 'static,
) -> JoinSet<()>
where
    F: Future<Output = ()> + Send,
{
    let connections = flooder(against.cluster);
    let attack = Arc::new(attack);
    let _inside = runtime.enter();
    let channel = connections.channel(&url(against.cluster, against.of), against.of.expected()).unwrap();
    let mut attackers = JoinSet::new();
    for _ in 0..count {
        let attack = attack.clone();
        let channel = channel.clone();
        attackers.spawn(async move {
            loop {
                BEGUN.fetch_add(1, Ordering::Relaxed);
                attack(channel.clone()).await;
                ATTACKS.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    attackers
}

/// Keeps the machine as busy as an attack does, without one: the cost of attackers and service sharing one machine.
pub fn spinning(_: &AttackTarget<'_>, runtime: &Runtime, _: usize) -> JoinSet<()> {
    let mut spinners = JoinSet::new();
    for _ in 0..runtime.metrics().num_workers() {
        let spin = async {
            loop {
                (0..10_000).for_each(|_| std::hint::spin_loop());
                tokio::task::yield_now().await;
            }
        };
        spinners.spawn_on(spin, runtime.handle());
    }
    spinners
}

//! What callers who mean no good can do to one who does. `make flood COUNT=1000` runs it at size and prints one line
//! of figures an attack; a plain test run is a slice of it.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::Read,
    net::TcpStream,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use client::Connections;
use node::{auth::Role, tls::Expected};
use proto::ServiceError;
use tests::{
    TestCluster, flags, job, plans,
    raw_call::{about, call},
    start_with,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Runtime,
    task::JoinSet,
};

const DIMENSION: u64 = 100_000;

/// Attackers of each kind at once.
fn count() -> usize {
    std::env::var("COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

fn is_at_size() -> bool {
    count() > 100
}

fn secured(more: &[&str]) -> TestCluster {
    let cluster = start_with(1, |options| {
        options.tls = true;
        options.coordinator_flags.extend(flags(more));
        options.worker_flags.extend(flags(more));
    });
    cluster.create(&job("honest"), &plans()[0], DIMENSION, 1).unwrap();
    cluster.wait_ready(&job("honest"));
    cluster
}

fn address(cluster: &TestCluster) -> String {
    cluster.cluster.url().trim_start_matches("https://").to_owned()
}

fn flooder(cluster: &TestCluster) -> Connections {
    Connections::dialing(cluster.cluster.dialing(&Role::Job("flooder".into())).unwrap())
}

#[test]
fn silent_connections_are_capped_and_closed() {
    let cluster = secured(&["--max-connections-per-address", "40"]);
    let mut open: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(address(&cluster)).unwrap()).collect();
    let is_closed = |stream: &mut TcpStream, patience: Duration| {
        stream.set_read_timeout(Some(patience)).unwrap();
        matches!(stream.read(&mut [0; 1]), Ok(0)) || stream.read(&mut [0; 1]).is_err_and(is_reset)
    };
    let at_once =
        open.iter_mut().rev().filter_map(|s| is_closed(s, Duration::from_millis(50)).then_some(())).count();
    assert!((20..60).contains(&at_once), "{at_once} closed at once: those over the cap");
    // The others had room, and said nothing for as long as a handshake may take.
    for stream in &mut open {
        assert!(is_closed(stream, Duration::from_secs(20)), "a silent connection stays open");
    }
    let operator = cluster.client_as(&Role::Operator);
    cluster.runtime.block_on(operator.jobs().list()).expect("there is room again");
}

fn is_reset(error: std::io::Error) -> bool {
    !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[test]
fn what_is_too_large_is_refused_by_size() {
    let cluster = secured(&[]);
    let connections = flooder(&cluster);
    cluster.runtime.block_on(async {
        let channel = connections.channel(&cluster.cluster.url(), Expected::Coordinator).unwrap();
        let send =
            |path: &'static str, bytes: usize| call(channel.clone(), path, None, Bytes::from(vec![0; bytes]));
        for bytes in [(64 << 10) + 1, 3 << 20] {
            let error = send("/rustle.v1.Jobs/GetJob", bytes).await.unwrap_err();
            assert!(error.to_string().contains("65536 bytes"), "{bytes}: {error}");
        }
        let error = send("/rustle.v1.Noise/Bind", (4 << 20) + 1).await.unwrap_err();
        assert!(error.to_string().contains("4194304 bytes"), "{error}");
        // Headers have a bound of their own.
        let long = "x".repeat(40_000);
        let path = "/rustle.v1.Jobs/GetJob";
        let answer = call(channel.clone(), path, Some(&long), about("flooder")).await;
        assert!(answer.is_err() && !matches!(answer, Err(ServiceError::NotFound { .. })), "{answer:?}");
        let answer = call(channel, path, None, about("flooder")).await;
        assert!(matches!(answer, Err(ServiceError::NotFound { .. })), "{answer:?}");
    });
}

#[test]
fn who_asks_too_often_is_refused_and_may_ask_again() {
    let cluster = secured(&["--max-calls-per-second", "5"]);
    let connections = flooder(&cluster);
    let other = cluster.client_as(&Role::Auditor);
    cluster.runtime.block_on(async {
        let channel = connections.channel(&cluster.cluster.url(), Expected::Coordinator).unwrap();
        let ask = || call(channel.clone(), "/rustle.v1.Jobs/GetJob", None, about("flooder"));
        let mut refused = Vec::new();
        for _ in 0..200 {
            match ask().await {
                Err(error @ ServiceError::ResourceExhausted { .. }) => refused.push(error),
                answer => assert!(matches!(answer, Err(ServiceError::NotFound { .. })), "{answer:?}"),
            }
        }
        assert!(!refused.is_empty() && refused.iter().all(ServiceError::retry_safe), "{refused:?}");
        other.jobs().list().await.expect("others have a rate of their own");
    });
}

#[test]
fn a_connection_is_read_at_its_pace_and_others_at_theirs() {
    let cluster = secured(&["--max-connection-calls-per-second", "80"]);
    let (connections, other) = (flooder(&cluster), cluster.client_as(&Role::Auditor));
    cluster.runtime.block_on(async {
        let channel = connections.channel(&cluster.cluster.url(), Expected::Coordinator).unwrap();
        let begun = Instant::now();
        let mut calls = JoinSet::new();
        for _ in 0..120 {
            let channel = channel.clone();
            calls.spawn(async move { call(channel, "/rustle.v1.Jobs/GetJob", None, about("flooder")).await });
        }
        // 120 at once are taken as they came: what comes after them waits.
        let answers = calls.join_all().await;
        assert!(
            answers.iter().all(|answer| matches!(answer, Err(ServiceError::NotFound { .. }))),
            "{answers:?}"
        );
        for _ in 0..40 {
            let answer = call(channel.clone(), "/rustle.v1.Jobs/GetJob", None, about("flooder")).await;
            assert!(matches!(answer, Err(ServiceError::NotFound { .. })), "{answer:?}");
        }
        let (took, begun) = (begun.elapsed(), Instant::now());
        assert!(took >= Duration::from_millis(700), "{took:?} for 160 calls, 2 at once and 80 a second");
        other.jobs().list().await.expect("another connection is not held");
        assert!(begun.elapsed() < took, "another connection waited {:?}", begun.elapsed());
    });
}

#[test]
fn a_full_process_sheds_load() {
    let cluster = secured(&["--max-calls", "1"]);
    let connections = flooder(&cluster);
    cluster.runtime.block_on(async {
        let channel = connections.channel(&cluster.cluster.url(), Expected::Coordinator).unwrap();
        let mut calls = JoinSet::new();
        for _ in 0..2_000 {
            let channel = channel.clone();
            calls.spawn(async move { call(channel, "/rustle.v1.Jobs/GetJob", None, about("flooder")).await });
        }
        let answers = calls.join_all().await;
        assert_eq!(answers.len(), 2_000);
        let served = answers.iter().filter(|a| matches!(a, Err(ServiceError::NotFound { .. }))).count();
        let is_shed = |answer: &&Result<(), ServiceError>| match answer {
            Err(ServiceError::ResourceExhausted { .. }) => true,
            // Streams beyond what the connection may have, opened before the client had heard of that: not looked at.
            Err(error @ ServiceError::Unavailable { what }) => {
                what.contains("REFUSED_STREAM") && error.retry_safe()
            }
            _ => false,
        };
        assert_eq!(answers.iter().filter(is_shed).count() + served, 2_000, "{answers:?}");
        assert!(served > 0);
    });
}

/// Attackers have processors of their own: here, at size, their threads run where nobody else wants to, and stop at once
/// for whoever does. A slice measures no times, and beside other tests such threads might never run.
fn elsewhere() -> Runtime {
    let at_size = is_at_size();
    let idle = move || {
        if !at_size {
            return;
        }
        let thread = fs::read_link("/proc/thread-self").unwrap();
        let words = ["--idle", "--pid", "0", thread.file_name().unwrap().to_str().unwrap()];
        let set = Command::new("chrt").args(words).status();
        if !set.is_ok_and(|status| status.success()) {
            println!(
                "flood: threads can't be put into the idle class (chrt of util-linux): they count as well"
            );
        }
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().on_thread_start(idle).build().unwrap()
}

/// Calls and connections that attackers made.
static ATTACKS: AtomicU64 = AtomicU64::new(0);

/// What the attackers do, until they are stopped.
type Attack = fn(&TestCluster, &Runtime, usize) -> JoinSet<()>;

fn silent(cluster: &TestCluster, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let (mut attackers, address) = (JoinSet::new(), address(cluster));
    for _ in 0..count {
        let address = address.clone();
        attackers.spawn_on(
            async move {
                loop {
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

fn slow_handshakes(cluster: &TestCluster, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let (mut attackers, address) = (JoinSet::new(), address(cluster));
    for _ in 0..count {
        let address = address.clone();
        attackers.spawn_on(
            async move {
                loop {
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

fn giant_messages(cluster: &TestCluster, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let giant = Bytes::from(vec![0; 8 << 20]);
    repeat(cluster, runtime, count.min(50), move |channel| {
        let giant = giant.clone();
        async move {
            let _refused = call(channel, "/rustle.v1.Jobs/GetJob", None, giant).await;
        }
    })
}

/// Ten calls an attacker at once, all over one connection.
fn streams(cluster: &TestCluster, runtime: &Runtime, count: usize) -> JoinSet<()> {
    repeat(cluster, runtime, count * 10, |channel| async move {
        let _answer = call(channel, "/rustle.v1.Jobs/GetJob", None, about("flooder")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
}

/// Calls that are given up as soon as they are sent.
fn resets(cluster: &TestCluster, runtime: &Runtime, count: usize) -> JoinSet<()> {
    repeat(cluster, runtime, count, |channel| async move {
        let calling = call(channel, "/rustle.v1.Jobs/GetJob", None, about("flooder"));
        let _given_up = tokio::time::timeout(Duration::from_micros(300), calling).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    })
}

fn repeat<F>(
    cluster: &TestCluster,
    runtime: &Runtime,
    count: usize,
    attack: impl Fn(tonic::transport::Channel) -> F + Send + Sync + 'static,
) -> JoinSet<()>
where
    F: Future<Output = ()> + Send,
{
    let (connections, attack) = (flooder(cluster), Arc::new(attack));
    let _inside = runtime.enter();
    let channel = connections.channel(&cluster.cluster.url(), Expected::Coordinator).unwrap();
    let mut attackers = JoinSet::new();
    for _ in 0..count {
        let (attack, channel) = (attack.clone(), channel.clone());
        attackers.spawn(async move {
            loop {
                attack(channel.clone()).await;
                ATTACKS.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    attackers
}

/// Times of an honest job's fetches through the coordinator's binding and the worker's slices, in order.
fn honest(cluster: &TestCluster, client: &client::Client, rounds: usize) -> Vec<Duration> {
    let fetch = || {
        let started = Instant::now();
        let texts = vec!["step 0".to_owned()];
        let patience = Duration::from_secs(60);
        cluster
            .fetch_by(client, &job("honest"), 0..1, 0..DIMENSION, texts, patience)
            .expect("honest calls go on");
        started.elapsed()
    };
    let mut times: Vec<_> = (0..rounds).map(|_| fetch()).collect();
    times.sort();
    times
}

fn p99(times: &[Duration]) -> f64 {
    times[(times.len() - 1) * 99 / 100].as_secs_f64() * 1e3
}

fn resident(cluster: &TestCluster) -> u64 {
    let pid = cluster.cluster.coordinator().unwrap().pid();
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Seconds of a processor that the coordinator has used.
fn processor(cluster: &TestCluster) -> f64 {
    let pid = cluster.cluster.coordinator().unwrap().pid();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = |at: usize| fields.split(' ').nth(at).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64
}

/// No attack, on a machine as busy: what it costs that attackers and service share one here.
fn spinning(_: &TestCluster, runtime: &Runtime, _: usize) -> JoinSet<()> {
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

/// Of one turn of an attack.
struct Turn {
    /// Milliseconds.
    p99: f64,
    attacks_per_second: f64,
    /// Of one processor, in percent.
    coordinator: f64,
}

fn turn(
    cluster: &TestCluster,
    client: &client::Client,
    attackers: &Runtime,
    attack: Attack,
    rounds: usize,
) -> Turn {
    let mut at_it = attack(cluster, attackers, count());
    std::thread::sleep(Duration::from_millis(500));
    let (begun, attacks, used) = (Instant::now(), ATTACKS.load(Ordering::Relaxed), processor(cluster));
    let p99 = p99(&honest(cluster, client, rounds));
    let seconds = begun.elapsed().as_secs_f64();
    let turn = Turn {
        p99,
        attacks_per_second: (ATTACKS.load(Ordering::Relaxed) - attacks) as f64 / seconds,
        coordinator: 100.0 * (processor(cluster) - used) / seconds,
    };
    at_it.abort_all();
    while attackers.block_on(at_it.join_next()).is_some() {}
    turn
}

fn median(turns: &[Turn], of: impl Fn(&Turn) -> f64) -> f64 {
    let mut values: Vec<f64> = turns.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn an_honest_job_goes_on_under_each_attack() {
    let cluster = secured(&[]);
    let client = cluster.client_as(&Role::Job("honest".into()));
    let (rounds, turns) = if is_at_size() { (1_000, 5) } else { (50, 1) };
    honest(&cluster, &client, 10);
    let attackers = elsewhere();
    let attacks: [(&str, Attack); 6] = [
        ("none, idle threads spin", spinning),
        ("silent connections", silent),
        ("slow handshakes", slow_handshakes),
        ("giant messages", giant_messages),
        ("streams", streams),
        ("resets", resets),
    ];
    let idle: Attack = |_, _, _| JoinSet::new();
    let alone: Vec<Turn> = (0..turns).map(|_| turn(&cluster, &client, &attackers, idle, rounds)).collect();
    let alone = median(&alone, |turn| turn.p99);
    let before = resident(&cluster);
    let mut found: Vec<Vec<Turn>> = attacks.iter().map(|_| Vec::new()).collect();
    for _ in 0..turns {
        for ((name, attack), found) in attacks.iter().zip(&mut found) {
            found.push(turn(&cluster, &client, &attackers, *attack, rounds));
            let grown = resident(&cluster).saturating_sub(before);
            assert!(grown < 256 << 20, "{name}: the coordinator grew by {grown} bytes");
        }
    }
    for ((name, _), found) in attacks.iter().zip(&found).skip(3) {
        assert!(median(found, |turn| turn.attacks_per_second) > 0.0, "{name}: nobody attacked");
    }
    let beside = median(&found[0], |turn| turn.p99);
    println!("flood: honest p99 alone {alone:.1} ms; medians of {turns} turns of {rounds} fetches:");
    for ((name, _), found) in attacks.iter().zip(&found) {
        let p99 = median(found, |turn| turn.p99);
        println!(
            "flood: {name}, {} attackers, {:.0} done a second: honest p99 {p99:.1} ms, {:.2} times that alone, \
             {:.2} times that beside threads that spin, coordinator at {:.0} % of a processor",
            count(),
            median(found, |turn| turn.attacks_per_second),
            p99 / alone,
            p99 / beside,
            median(found, |turn| turn.coordinator),
        );
    }
    println!("flood: the coordinator grew by {} MiB", resident(&cluster).saturating_sub(before) >> 20);
    cluster.cluster.stop().expect("both processes end as they should");
}

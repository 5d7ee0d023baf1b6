//! Each limit by itself: what is over it is refused, and others are not.

use std::{
    io::Read,
    net::TcpStream,
    time::{Duration, Instant},
};

use bytes::Bytes;
use node::{auth::Role, tls::ExpectedServer};
use proto::ServiceError;
use tests::{
    job,
    raw_call::{about, call},
    raw_tls,
};
use tokio::{task::JoinSet, time::timeout};

use crate::{Process, address, flooder, frames::PING, http2::PINGS, path, secured};

#[test]
fn silent_connections_are_capped_and_closed() {
    let cluster = secured(&["--max-connections-per-address", "40"]);
    let mut open: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(address(&cluster, Process::Coordinator)).unwrap()).collect();
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
        let channel = connections.channel(&cluster.cluster.url(), ExpectedServer::Coordinator).unwrap();
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
        let channel = connections.channel(&cluster.cluster.url(), ExpectedServer::Coordinator).unwrap();
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
    let connections = flooder(&cluster);
    let other = cluster.client_as(&Role::Auditor);
    cluster.runtime.block_on(async {
        let channel = connections.channel(&cluster.cluster.url(), ExpectedServer::Coordinator).unwrap();
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
        let took = begun.elapsed();
        let begun = Instant::now();
        assert!(took >= Duration::from_millis(700), "{took:?} for 160 calls, 2 at once and 80 a second");
        other.jobs().list().await.expect("another connection is not held");
        assert!(begun.elapsed() < took, "another connection waited {:?}", begun.elapsed());
    });
}

#[test]
fn all_connections_of_a_caller_are_read_at_one_pace() {
    let of = ["--max-calls-per-second", "40", "--max-connection-calls-per-second", "40"];
    let cluster = secured(&of);
    let shown = cluster.cluster.certificate(&Role::Job("flooder".into())).unwrap();
    let address = address(&cluster, Process::Coordinator);
    let path = path(Process::Coordinator);
    let ended = cluster.runtime.block_on(async {
        let mut attackers = JoinSet::new();
        for _ in 0..8 {
            let address = address.clone();
            let shown = shown.clone();
            attackers.spawn(async move { PINGS.send(&address, &shown, path, Duration::from_secs(3)).await });
        }
        attackers.join_all().await
    });
    let answered: usize = ended.iter().filter_map(|ended| ended.answers.get(&PING)).sum();
    // 120 in three seconds, and with each read of a connection half of 28 at once. Each for itself: 1,072.
    assert!((20..500).contains(&answered), "{answered} pings were answered");
}

#[test]
fn handshakes_of_an_address_come_at_their_rate_and_others_are_refused() {
    let cluster = secured(&["--max-handshakes-per-second", "2"]);
    let shown = cluster.cluster.certificate(&Role::Job("flooder".into())).unwrap();
    let address = address(&cluster, Process::Coordinator);
    cluster.runtime.block_on(async {
        let begun = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..40 {
            let address = address.clone();
            let shown = shown.clone();
            all.spawn(async move { raw_tls::connect(&address, Some(&shown)).await.is_ok() });
        }
        let opened = all.join_all().await.into_iter().filter(|is_open| *is_open).count();
        // Eight at once, two more within the second that others wait.
        let most = 10 + 2 * begun.elapsed().as_secs() as usize;
        assert!(opened <= most, "{opened} of 40 in {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_secs(2)).await;
        raw_tls::connect(&address, Some(&shown)).await.expect("a caller that comes again has a turn");
    });
}

/// Watches that never end, of one who may do nothing else.
#[test]
fn calls_that_do_not_end_leave_room_for_others() {
    let cluster = secured(&["--max-calls", "60"]);
    let other = cluster.client_as(&Role::Operator);
    let connections = flooder(&cluster);
    let url = cluster.cluster.url();
    cluster.runtime.block_on(async {
        let channel = connections.channel(&url, ExpectedServer::Coordinator).unwrap();
        let mut watches = JoinSet::new();
        for _ in 0..90 {
            let channel = channel.clone();
            let path = "/grpc.health.v1.Health/Watch";
            watches.spawn(async move { call(channel, path, None, Bytes::new()).await });
        }
        while let Ok(Some(ended)) = timeout(Duration::from_secs(2), watches.join_next()).await {
            let error = ended.unwrap().unwrap_err();
            assert!(matches!(error, ServiceError::ResourceExhausted { .. }) && error.retry_safe(), "{error}");
        }
        assert_eq!(watches.len(), 7, "an eighth of the room");
        for _ in 0..20 {
            other.jobs().list().await.expect("there is room for others");
        }
    });
    cluster.wait_ready(&job("honest"));
}

#[test]
fn a_full_process_sheds_load() {
    let cluster = secured(&["--max-calls", "1"]);
    let connections = flooder(&cluster);
    cluster.runtime.block_on(async {
        let channel = connections.channel(&cluster.cluster.url(), ExpectedServer::Coordinator).unwrap();
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

//! Messages that claim to be larger than the limit: the claim alone gets them refused, and no memory is allocated for it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::SendStream;
use http::{HeaderMap, Request};
use node::auth::Role;
use tests::raw_tls;
use tokio::task::JoinSet;

use crate::{Process, address, path, processes::Processes, secured};

const AT_ONCE: usize = 40;
/// All of them together, at either process.
const MAY_GROW: u64 = 48 << 20;

#[derive(Clone, Copy, Debug)]
enum Sender {
    /// All that the server accepts.
    All,
    /// The claim and a few bytes, and then nothing more, with the call left open.
    Little,
}

/// The end of one call.
#[derive(Debug)]
struct Answer {
    after: Duration,
    code: Option<String>,
    said: String,
}

/// A call whose message is said to be of so many bytes. No answer where none came within the time.
async fn claim(
    address: &str,
    shown: &Path,
    path: &str,
    claimed: u32,
    sender: Sender,
    patience: Duration,
) -> Option<Answer> {
    let stream = raw_tls::connect(address, Some(shown)).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("https://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let mut client = client.ready().await.unwrap();
    let (response, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let begun = Instant::now();
    let prefix = [&[0][..], &claimed.to_be_bytes(), b"a few bytes"].concat();
    body.send_data(prefix.into(), false).unwrap();
    let sending = async {
        match sender {
            Sender::All => send_all(&mut body).await,
            Sender::Little => {}
        }
        std::future::pending::<()>().await;
    };
    let answer = async {
        let response = response.await.map_err(|error| error.to_string())?;
        let headers = response.headers().clone();
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            data.map_err(|error| error.to_string())?;
        }
        let trailers = body.trailers().await.map_err(|error| error.to_string())?;
        Ok::<HeaderMap, String>(trailers.unwrap_or(headers))
    };
    let ended = tokio::select! {
        ended = answer => Some(ended),
        () = sending => None,
        () = tokio::time::sleep(patience) => None,
    };
    let after = begun.elapsed();
    connection.abort();
    let text = |headers: &HeaderMap, name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    Some(match ended? {
        Ok(headers) => Answer {
            after,
            code: text(&headers, "grpc-status"),
            said: text(&headers, "grpc-message").unwrap_or_default(),
        },
        Err(said) => Answer { after, code: None, said },
    })
}

async fn send_all(body: &mut SendStream<Bytes>) {
    let piece = Bytes::from(vec![0; 64 << 10]);
    loop {
        body.reserve_capacity(piece.len());
        match std::future::poll_fn(|task| body.poll_capacity(task)).await {
            Some(Ok(capacity)) => {
                let now = capacity.min(piece.len());
                if body.send_data(piece.slice(..now), false).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

#[test]
fn a_message_that_claims_too_much_is_refused_at_once_and_none_is_given_room() {
    let cluster = secured(&[]);
    let shown: PathBuf = cluster.cluster.certificate(&Role::Job("flooder".into())).unwrap();
    let before = Processes::of(&cluster);
    for of in [Process::Coordinator, Process::Worker] {
        let (address, allowed) = match of {
            Process::Coordinator => (address(&cluster, of), "65536%20bytes"),
            Process::Worker => (address(&cluster, of), "8388608%20bytes"),
        };
        let all = |claimed: u32, sender: Sender, patience: Duration| {
            let mut calls = JoinSet::new();
            for _ in 0..AT_ONCE {
                let address = address.clone();
                let shown = shown.clone();
                let call = async move { claim(&address, &shown, path(of), claimed, sender, patience).await };
                calls.spawn_on(call, cluster.runtime.handle());
            }
            cluster.runtime.block_on(calls.join_all())
        };
        for sender in [Sender::All, Sender::Little] {
            let answers = all(1 << 30, sender, Duration::from_secs(20));
            let longest = answers.iter().flatten().map(|answer| answer.after).max();
            println!("flood: {sender:?} of 1 GiB to the {of:?}: {longest:?}, {:?}", answers[0]);
            for answer in answers {
                let answer = answer.expect("an answer while the call is open");
                assert_eq!(answer.code.as_deref(), Some("3"), "{answer:?}");
                assert!(answer.said.contains(allowed), "{}", answer.said);
                assert!(answer.after < Duration::from_secs(5), "{answer:?}");
            }
        }
        // Within the limit, and never sent: it is waited for, as many as have room together, and no memory is taken for
        // it either.
        let (limit, waited) = if of == Process::Coordinator { (64 << 10, AT_ONCE) } else { (4 << 20, 16) };
        let answers = all(limit, Sender::Little, Duration::from_secs(1));
        let refused: Vec<&Answer> = answers.iter().flatten().collect();
        assert_eq!(answers.len() - refused.len(), waited, "{refused:?}");
        assert!(refused.iter().all(|answer| answer.code.as_deref() == Some("8")), "{refused:?}");
        let grown = before.grown();
        println!("flood: grown by {:?} KiB", grown.iter().map(|bytes| bytes >> 10).collect::<Vec<_>>());
        assert!(grown.iter().all(|&grown| grown < MAY_GROW), "{grown:?}");
        before.check(&cluster, "claims");
    }
    cluster.cluster.stop().expect("both processes end as they should");
}

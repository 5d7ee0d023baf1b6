//! Connections that do nothing, as many as there is room for: workers come in all the same.

use std::{net::TcpStream, path::PathBuf, time::Instant};

use node::auth::Role;
use tests::{TestCluster, raw_tls};
use tokio::task::JoinSet;

use crate::{Process, address, secured};

fn shown(cluster: &TestCluster, role: Role) -> PathBuf {
    cluster.cluster.certificate(&role).unwrap()
}

fn job(name: &str) -> Role {
    Role::Job(name.to_owned())
}

#[test]
fn silent_connections_keep_no_caller_out() {
    let cluster = secured(&["--max-connections", "16"]);
    let address = address(&cluster, Process::Coordinator);
    let worker = shown(&cluster, Role::Worker("another".into()));
    let _silent: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let begun = Instant::now();
    raw_tls::open(&address, Some(&worker)).expect("a worker is let in");
    assert!(begun.elapsed().as_secs() < 4, "{:?}: not before the silent ones were closed", begun.elapsed());
}

#[test]
fn clients_who_open_all_they_can_leave_room_for_workers() {
    let cluster = secured(&["--max-connections", "16"]);
    let address = address(&cluster, Process::Coordinator);
    let flooders = ["one", "two", "three"].map(|name| shown(&cluster, job(name)));
    let worker = shown(&cluster, Role::Worker("another".into()));
    let mut open = JoinSet::new();
    cluster.runtime.block_on(async {
        for at in 0..48 {
            // Refused after the handshake: the client's side of it is done by then.
            let Ok(stream) = raw_tls::connect(&address, Some(&flooders[at / 16])).await else { continue };
            let Ok((client, connection)) = h2::client::handshake(stream).await else {
                continue;
            };
            open.spawn(async move {
                let _kept = client;
                let _closed = connection.await;
            });
        }
    });
    raw_tls::open(&address, Some(&flooders[2])).expect_err("clients have had theirs");
    raw_tls::open(&address, Some(&worker)).expect("a worker is let in");
    cluster.runtime.block_on(open.shutdown());
}

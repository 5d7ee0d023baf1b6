//! Tests who may call what: every kind of caller calls every RPC of real processes, over mTLS and with bearer tokens, and
//! gets the answer of one table. Run it with `cargo nextest run --release -p tests -E 'binary(rights)'`.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

mod certificates;
mod table;
mod tokens;

use std::{fs, path::PathBuf};

use node::tls::ExpectedServer;
use prost::Message;
use proto::rpc::{self, RPCS};
use tests::{WORKER, get, raw_call::call, start};

/// Returns how many calls a process has counted as refused for `reason`.
fn refusals(process: &rustle::cluster::Process, reason: &str) -> u64 {
    let page = get(process.metrics(), "/metrics");
    let name = format!("rustle_calls_refused_total{{reason=\"{reason}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn without_tls_and_tokens_every_call_is_allowed() {
    let cluster = start(1);
    let _inside = cluster.runtime.enter();
    let connections = client::Connections::new();
    let coordinator = connections.channel(&cluster.cluster.url(), ExpectedServer::Coordinator).unwrap();
    let worker = connections.channel(cluster.cluster.worker(0).unwrap().grpc(), WORKER).unwrap();
    for row in table::rows() {
        let channel = if row.is_of_workers() { &worker } else { &coordinator };
        let answer = cluster.runtime.block_on(call(channel.clone(), row.path, None, row.request()));
        table::assert_answer(&answer, None, "a caller without credentials", &row);
    }
}

#[test]
fn every_rpc_has_a_row_here_and_an_entry_in_the_service() {
    let paths: Vec<_> = table::rows().map(|row| row.path).collect();
    for entry in RPCS {
        assert!(paths.iter().any(|path| entry.covers(path)), "{} has no row in table.rs", entry.path);
    }
    let descriptors = prost_types::FileDescriptorSet::decode(proto::DESCRIPTORS).unwrap();
    let mut methods = 0;
    for file in descriptors.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                assert!(
                    rpc::find(&path).is_some(),
                    "{path} has no entry in proto/src/rpc.rs: every call is refused"
                );
                assert!(paths.contains(&path.as_str()), "{path} has no row in table.rs");
                methods += 1;
            }
        }
    }
    assert!(methods >= 17, "{methods}");
    assert!(rpc::find("/rustle.v1.Noise/Bindings").is_none());
}

#[test]
fn the_docs_print_the_table() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let docs = fs::read_to_string(docs).unwrap();
    assert!(docs.contains(&rpc::markdown()), "docs/security.md lacks this table:\n{}", rpc::markdown());
}

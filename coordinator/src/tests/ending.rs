//! What is left of a coordinator that serves no more, in a process that goes on.

use std::sync::Arc;

use node::net::listener::ListenAddress;
use node::security::ServerSecurity;
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::*;
use crate::grpc::serve;

/// With several coordinators a process that leads no more stands by and may lead again, with its ledger in memory: one
/// that somebody still watches would lie there beside the next.
#[tokio::test]
async fn a_watcher_does_not_keep_the_ledger_of_who_leads_no_more() {
    let folder = TempDir::new().unwrap();
    let coordinator = Arc::new(open(&folder));
    let kept = Arc::downgrade(&coordinator);
    let listener = "127.0.0.1:0".parse::<ListenAddress>().unwrap().bind(false).await.unwrap();
    let url = listener.endpoint(false).unwrap();
    let shutdown = CancellationToken::new();
    let until = shutdown.clone();
    let served =
        tokio::spawn(async move { serve(coordinator, listener, &ServerSecurity::default(), until).await });

    let mut client = HealthClient::new(Endpoint::from_shared(url).unwrap().connect().await.unwrap());
    let mut watch = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    shutdown.cancel();
    served.await.unwrap().unwrap();
    let is_gone = async {
        while kept.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TTL, is_gone).await.expect("the connection still has it");
    assert!(watch.message().await.is_err(), "and the watch has ended");
}

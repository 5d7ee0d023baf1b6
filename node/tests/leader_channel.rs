//! Calls that go to the coordinator that leads, over real servers: the health service stands for all of them.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use http::{HeaderValue, Response};
use node::net::dial::DialError;
use node::net::leader_channel::{LEADER_HEADER, LeaderChannel};
use tonic::body::Body;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::util::MapResponseLayer;

/// The leader that a coordinator names; `None` where it leads itself.
type Named = Arc<Mutex<Option<HeaderValue>>>;

/// A coordinator that answers, and names who leads where it does not itself; counts its answers.
async fn start(leader: Option<&str>) -> (String, Arc<AtomicU64>) {
    let named = leader.map(|url| HeaderValue::from_str(url).unwrap());
    start_naming(Arc::new(Mutex::new(named))).await
}

async fn start_naming(leader: Named) -> (String, Arc<AtomicU64>) {
    let (_, health) = tonic_health::server::health_reporter();
    let answers = Arc::new(AtomicU64::new(0));
    let count = answers.clone();
    let name = move |mut response: Response<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let leader = leader.lock().unwrap().clone();
        leader.into_iter().for_each(|url| _ = response.headers_mut().insert(LEADER_HEADER, url));
        response
    };
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", incoming.local_addr().unwrap());
    let server = Server::builder().layer(MapResponseLayer::new(name)).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    (url, answers)
}

fn following(urls: &[&str]) -> HealthClient<LeaderChannel> {
    let dial = |url: &str| {
        let endpoint = Endpoint::from_shared(url.to_owned());
        let refused = |_| DialError { endpoint: url.to_owned(), allowed: "a URL" };
        endpoint.map(|endpoint| endpoint.connect_lazy()).map_err(refused)
    };
    HealthClient::new(LeaderChannel::new(&urls.join(","), dial).unwrap())
}

async fn check(client: &mut HealthClient<LeaderChannel>) -> Result<(), tonic::Status> {
    client.check(HealthCheckRequest { service: String::new() }).await.map(drop)
}

#[tokio::test]
async fn a_call_goes_on_to_the_leader_that_is_named() {
    let (leader, led) = start(None).await;
    let (standby, asked) = start(Some(&leader)).await;
    // Also where the leader is not among those that are known.
    let (other, _) = start(Some(&leader)).await;
    let mut client = following(&[&standby, &other]);
    for calls in 1..4 {
        check(&mut client).await.unwrap();
        assert_eq!((asked.load(Ordering::SeqCst), led.load(Ordering::SeqCst)), (1, calls));
    }
}

#[tokio::test]
async fn without_a_leader_the_next_coordinator_is_tried() {
    let (one, asked_one) = start(Some("")).await;
    let (other, asked_other) = start(Some("")).await;
    let mut client = following(&[&one, &other]);
    for _ in 0..4 {
        check(&mut client).await.unwrap();
    }
    assert_eq!((asked_one.load(Ordering::SeqCst), asked_other.load(Ordering::SeqCst)), (2, 2));
}

#[tokio::test]
async fn after_a_connection_that_failed_the_next_one_is_asked() {
    let (leader, led) = start(None).await;
    let mut client = following(&["http://127.0.0.1:1", &leader]);
    check(&mut client).await.unwrap_err();
    check(&mut client).await.unwrap();
    assert_eq!(led.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_leader_that_was_named_and_is_gone_is_not_asked_for_ever() {
    // Of its own, so that its connections end with it.
    let ends = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (leader, led) = ends.spawn(start(None)).await.unwrap();
    let named: Named = Arc::new(Mutex::new(Some(HeaderValue::from_str(&leader).unwrap())));
    let (known, asked) = start_naming(named.clone()).await;
    let mut client = following(&[&known]);
    // The first answer is the standby's own: with one URL nothing is sent twice.
    for _ in 0..2 {
        check(&mut client).await.unwrap();
    }
    assert_eq!((asked.load(Ordering::SeqCst), led.load(Ordering::SeqCst)), (1, 1));
    ends.shutdown_background();
    *named.lock().unwrap() = None;
    let _may_fail = check(&mut client).await;
    check(&mut client).await.expect("the one that is known leads now");
}

#[tokio::test]
async fn every_url_is_checked() {
    let refused = LeaderChannel::new("http://127.0.0.1:1, not a url", |url| {
        if url.starts_with("http://") {
            Ok(Endpoint::from_shared(url.to_owned()).unwrap().connect_lazy())
        } else {
            Err(DialError { endpoint: url.to_owned(), allowed: "a URL" })
        }
    });
    assert!(refused.unwrap_err().to_string().contains("not a url"));
}

use std::convert::Infallible;

use std::time::Duration;

use http_body_util::{BodyExt, Full, StreamBody};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::admission::{Budget, in_flight};

/// Names every error, or none.
struct Errors {
    all_notable: bool,
}

impl ErrorMapping for Errors {
    fn status(&self, refusal: Refusal) -> Status {
        Status::resource_exhausted(format!("{refusal:?}"))
    }

    fn notable(&self, status: &Status) -> Option<String> {
        self.all_notable.then(|| status.code().to_string())
    }
}

fn layer(all_notable: bool) -> GuardLayer {
    GuardLayer::new(Authenticator::default(), Limits::default(), rpc::RPCS, Errors { all_notable })
}

#[tokio::test]
async fn what_an_answer_holds_is_held_until_its_last_byte() {
    let budget = Budget::new(100);
    let client = ClientKey("a".into());
    let own = budget.clone();
    let of = client.clone();
    let inner = tower::service_fn(move |_: Request<Body>| {
        let mut response = Response::new(Body::new(Full::new(Bytes::from_static(b"answer"))));
        response.extensions_mut().insert(ResponseReservation(Arc::new(own.take(&of, 100).unwrap())));
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let request = Request::post("/grpc.health.v1.Health/Check").body(Body::empty()).unwrap();
    let response = layer(false).layer(inner).call(request).await.unwrap();
    assert!(budget.take(&client, 1).is_err(), "the caller has not read it yet");
    drop(response);
    budget.take(&client, 100).unwrap();
}

/// Returns the response to a message of `bytes` bytes whose last byte never arrives.
async fn half_sent<S>(mut guarded: GuardService<S>, path: &str, bytes: usize) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let claim = u32::try_from(bytes).unwrap().to_be_bytes();
    let begun = [&[0][..], &claim, &vec![7; bytes - 1][..]].concat();
    let begun = tokio_stream::once(Ok::<_, Status>(Frame::data(Bytes::from(begun))));
    let frames = tokio_stream::StreamExt::chain(begun, tokio_stream::pending());
    let body = Body::new(StreamBody::new(frames));
    guarded.call(Request::post(path).body(body).unwrap()).await.unwrap()
}

#[tokio::test]
async fn refused_requests_are_logged_and_answered_ones_are_not() {
    let inner = tower::service_fn(|request: Request<Body>| {
        let response = match request.uri().path() {
            "/grpc.health.v1.Health/Check" => Response::new(Body::empty()),
            _ => Status::already_exists("another has it").into_http(),
        };
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let is_logged = |guard: &Guard| !guard.refused.is_due(&format!("local {}", tonic::Code::AlreadyExists));
    for (path, expected) in [("/grpc.health.v1.Health/Check", false), ("/rustle.v1.Noise/Bind", true)] {
        let mut guarded = layer(true).layer(inner);
        guarded.call(Request::post(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(is_logged(&guarded.guard), expected, "{path}");
    }
}

/// Returns the response to a binding of 4 MiB.
async fn whole<S>(mut guarded: GuardService<S>) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let bytes = [&[0][..], &(4_u32 << 20).to_be_bytes(), &vec![7; 4 << 20][..]].concat();
    let request = Request::post("/rustle.v1.Noise/Bind").body(Body::new(Full::new(Bytes::from(bytes))));
    guarded.call(request.unwrap()).await.unwrap()
}

fn is_refused(answer: &Response<Body>) -> bool {
    Status::from_header_map(answer.headers()).is_some()
}

#[tokio::test]
async fn messages_that_wait_for_their_answer_have_a_bound_too() {
    let answering = Arc::new(tokio::sync::Semaphore::new(0));
    let turn = answering.clone();
    let inner = tower::service_fn(move |request: Request<Body>| {
        let turn = turn.clone();
        async move {
            let response = match request.into_body().collect().await {
                Ok(_) => Response::new(Body::empty()),
                Err(status) => return Ok(status.into_http()),
            };
            let _turn = turn.acquire().await.unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    let guarded = layer(false).layer(inner);
    let mut calls = JoinSet::new();
    (0..20).for_each(|_| _ = calls.spawn(whole(guarded.clone())));
    for _ in 0..4 {
        let refused = timeout(Duration::from_secs(5), calls.join_next()).await.unwrap();
        assert!(is_refused(&refused.unwrap().unwrap()), "64 MiB of one caller wait");
    }
    answering.add_permits(1);
    for _ in 0..16 {
        let answered = timeout(Duration::from_secs(5), calls.join_next()).await.unwrap();
        assert!(!is_refused(&answered.unwrap().unwrap()));
    }
    assert!(!is_refused(&whole(guarded).await), "and there is room again");
}

#[tokio::test]
async fn who_calls_and_leaves_again_and_again_has_no_more_room_than_who_stays() {
    let working = Arc::new(tokio::sync::Semaphore::new(0));
    let turn = working.clone();
    let inner = tower::service_fn(move |request: Request<Body>| {
        let turn = turn.clone();
        async move {
            if let Err(status) = request.into_body().collect().await {
                return Ok(status.into_http());
            }
            let held = in_flight();
            let turn = turn.clone();
            let working = tokio::spawn(async move {
                let _held = held.expect("a call");
                let _turn = turn.acquire().await.unwrap();
            });
            working.await.unwrap();
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    let guarded = layer(false).layer(inner);
    let mut calls = JoinSet::new();
    (0..16).for_each(|_| _ = calls.spawn(whole(guarded.clone())));
    assert!(timeout(Duration::from_millis(200), calls.join_next()).await.is_err(), "all of them work");
    calls.shutdown().await;
    assert!(is_refused(&whole(guarded.clone()).await), "their work continues");
    working.add_permits(1);
    let is_taken = async {
        while is_refused(&whole(guarded.clone()).await) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(5), is_taken).await.expect("room, once their work is done");
}

#[tokio::test]
async fn messages_that_never_come_whole_have_a_bound_together() {
    let inner = tower::service_fn(|request: Request<Body>| async {
        let response = match request.into_body().collect().await {
            Ok(_) => Response::new(Body::empty()),
            Err(status) => status.into_http(),
        };
        Ok::<_, Infallible>(response)
    });
    let guarded = layer(false).layer(inner);
    let path = "/rustle.v1.Noise/Bind";
    let limit = 4 << 20;
    let mut calls = JoinSet::new();
    (0..200).for_each(|_| _ = calls.spawn(half_sent(guarded.clone(), path, limit)));
    let mut refused = 0;
    while let Ok(Some(ended)) = timeout(Duration::from_secs(1), calls.join_next()).await {
        let status = Status::from_header_map(ended.unwrap().headers()).unwrap();
        assert!(status.message().contains("Busy"), "{status}");
        refused += 1;
    }
    assert_eq!((refused, calls.len()), (184, 16), "64 MiB of one caller");
    calls.shutdown().await;
    let again = timeout(Duration::from_millis(200), half_sent(guarded, path, limit)).await;
    assert!(again.is_err(), "it is waited for again");
}

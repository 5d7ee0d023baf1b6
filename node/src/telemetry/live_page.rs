//! A page that stays up to date while it is open: its document at `/`, and its content again whenever that has changed, as
//! server-sent events at `/events`.
//!
//! One script replaces the content. The page's policy names it by its hash: whatever a name on the page may hold, no other
//! script runs. Without scripts the document loads itself again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{self, Stream};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Time between two looks at the content.
const EVENT_PERIOD: Duration = Duration::from_secs(2);
/// Streams of events at once. Each takes one of the endpoint's few connections, and scrapers need some.
const READERS: usize = 16;

/// Makes text at each request. It runs on an async thread, so it must not block.
pub type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// A page that stays up to date.
#[derive(Clone)]
pub struct LivePage {
    document: Text,
    content: Text,
    script: &'static str,
    slots: Arc<Semaphore>,
}

impl LivePage {
    /// Creates a page of its whole document, of the part of it that changes, and of the text of the one script that may run,
    /// which the document must have in it.
    pub fn new(document: Text, content: Text, script: &'static str) -> Self {
        Self { document, content, script, slots: Arc::new(Semaphore::new(READERS)) }
    }

    /// Returns the document.
    pub(super) fn answer(&self) -> Response {
        let hash = STANDARD.encode(Sha256::digest(self.script));
        let policy = format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        );
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
            (header::CONTENT_SECURITY_POLICY, policy),
            (header::CACHE_CONTROL, "no-store".to_owned()),
        ];
        (headers, (self.document)()).into_response()
    }

    /// Returns the content now, and again after each change, until `shutdown` is cancelled or the connection ends.
    pub(super) fn events(&self, shutdown: CancellationToken) -> Response {
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            let reason = format!("{READERS} pages are open, and no more are kept up to date\n");
            return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
        };
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::from_stream(Reader::new(self.content.clone(), slot, shutdown).events()))
            .into_response()
    }
}

/// One open page.
struct Reader {
    content: Text,
    last: Option<Arc<str>>,
    ticks: Interval,
    shutdown: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

impl Reader {
    fn new(content: Text, slot: OwnedSemaphorePermit, shutdown: CancellationToken) -> Self {
        let mut ticks = interval(EVENT_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { content, last: None, ticks, shutdown, _slot: slot }
    }

    fn events(self) -> impl Stream<Item = Result<String, Infallible>> {
        stream::unfold(self, |mut reader| async move {
            tokio::select! {
                biased;
                () = reader.shutdown.cancelled() => return None,
                _ = reader.ticks.tick() => {}
            }
            Some((Ok(reader.next_event()), reader))
        })
    }

    /// Returns the content as an event; if it has not changed, a comment, which shows the reader that this process lives.
    fn next_event(&mut self) -> String {
        let content: Arc<str> = (self.content)().into();
        if self.last.as_ref() == Some(&content) {
            return ":\n\n".to_owned();
        }
        let event = event(&content);
        self.last = Some(content);
        event
    }
}

/// Returns a text as one event. A carriage return would begin a line of the event.
fn event(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(|line| format!("data: {line}\n"));
    lines.chain(["\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::StreamExt;

    use super::*;

    #[test]
    fn no_text_can_end_its_event_or_add_a_field() {
        assert_eq!(event("a\n\nb\revent: x"), "data: a\ndata: \ndata: b\ndata: event: x\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_gets_what_has_changed_and_ends_at_shutdown() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        // Changes at every second look.
        let content: Text = Arc::new(move || (counted.fetch_add(1, Ordering::Relaxed) / 2).to_string());
        let shutdown = CancellationToken::new();
        let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let mut events = std::pin::pin!(Reader::new(content, slot, shutdown.clone()).events());
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(events.next().await.unwrap().unwrap());
        }
        assert_eq!(seen, ["data: 0\n\n", ":\n\n", "data: 1\n\n", ":\n\n"]);
        shutdown.cancel();
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn readers_are_few() {
        let page = LivePage::new(Arc::new(String::new), Arc::new(String::new), "");
        let answers: Vec<_> = (0..=READERS).map(|_| page.events(CancellationToken::new())).collect();
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status()).collect();
        assert_eq!(statuses[READERS], StatusCode::SERVICE_UNAVAILABLE);
        assert!(statuses[..READERS].iter().all(|status| *status == StatusCode::OK), "{statuses:?}");
        drop(answers);
        assert_eq!(page.events(CancellationToken::new()).status(), StatusCode::OK);
    }
}

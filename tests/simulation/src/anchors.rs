//! A store of anchors, in memory. It may answer a coordinator late, or not at all, and may lose what it has.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use checkpoint_store::CheckpointStore;
use coordinator::AnchorStore;
use dice::Dice;
use futures::FutureExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use proto::Nonce;
use tokio::time::sleep;

use crate::site::height_in;

/// Longest time before a late request arrives, and again before its answer does, in milliseconds: beyond the second that a
/// coordinator waits for it.
const LATEST: u64 = 1500;

/// How the store answers one coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    #[default]
    AtOnce,
    /// Late, or after its caller has given up: what was requested is done all the same.
    Late,
    /// An error, at once, and nothing is done.
    Errors,
}

/// The store, with how it answers each of two coordinators.
#[derive(Debug)]
pub struct Anchors {
    objects: InMemory,
    answers: Mutex<[Answers; 2]>,
    dice: Mutex<Dice>,
    /// The site that wrote last.
    last_writer: Mutex<Option<usize>>,
}

impl Anchors {
    pub fn new(seed: u64) -> Arc<Self> {
        let dice = Mutex::new(Dice::named(seed, "late answers"));
        Arc::new(Self {
            objects: InMemory::new(),
            answers: Mutex::default(),
            dice,
            last_writer: Mutex::default(),
        })
    }

    /// Returns the store as the coordinator of this site sees it.
    pub fn seen_from(self: &Arc<Self>, site: usize) -> AnchorStore {
        let view = View { anchors: self.clone(), site };
        AnchorStore { store: CheckpointStore::over(Arc::new(view)), url: "memory://anchors".to_owned() }
    }

    pub fn answer(&self, site: usize, answers: Answers) {
        lock(&self.answers)[site] = answers;
    }

    /// Returns the height in the ledger's anchor.
    pub fn height(&self, ledger: &Nonce) -> Option<u64> {
        let got = self.objects.get(&object(ledger)).now_or_never()?.ok()?;
        height_in(&got.bytes().now_or_never()?.ok()?)
    }

    /// Loses the ledger's anchor.
    pub fn lose(&self, ledger: &Nonce) {
        let _ = self.objects.delete(&object(ledger)).now_or_never();
    }

    pub fn last_writer(&self) -> Option<usize> {
        *lock(&self.last_writer)
    }

    fn late(&self) -> [Duration; 2] {
        let mut dice = lock(&self.dice);
        [dice.millis(0, LATEST), dice.millis(0, LATEST)]
    }
}

fn object(ledger: &Nonce) -> Path {
    Path::from(format!("ledger-{ledger}.anchor"))
}

#[derive(Clone, Debug)]
struct View {
    anchors: Arc<Anchors>,
    site: usize,
}

impl View {
    /// Does what is requested, now or later.
    async fn request<T: Send + 'static>(
        &self,
        done: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let answers = lock(&self.anchors.answers)[self.site];
        match answers {
            Answers::AtOnce => done.await,
            Answers::Errors => Err(failed("it can't be reached")),
            Answers::Late => {
                let [before, after] = self.anchors.late();
                let late = tokio::spawn(async move {
                    sleep(before).await;
                    let answer = done.await;
                    sleep(after).await;
                    answer
                });
                late.await.unwrap_or_else(|_| Err(failed("the request is gone")))
            }
        }
    }
}

fn failed(how: &'static str) -> Error {
    Error::Generic { store: "anchors", source: how.into() }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "anchors, seen from site {}", self.site)
    }
}

#[async_trait]
impl ObjectStore for View {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let anchors = self.anchors.clone();
        let location = location.clone();
        let site = self.site;
        let put = async move {
            let put = anchors.objects.put_opts(&location, payload, options).await?;
            *lock(&anchors.last_writer) = Some(site);
            Ok(put)
        };
        self.request(put).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let anchors = self.anchors.clone();
        let location = location.clone();
        self.request(async move { anchors.objects.get_opts(&location, options).await }).await
    }

    // Nothing else is requested for an anchor.

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(failed("anchors are written whole"))
    }

    fn delete_stream(&self, of: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.anchors.objects.delete_stream(of)
    }

    fn list(&self, under: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.anchors.objects.list(under)
    }

    async fn list_with_delimiter(&self, under: Option<&Path>) -> Result<ListResult> {
        self.anchors.objects.list_with_delimiter(under).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(failed("anchors are not copied"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

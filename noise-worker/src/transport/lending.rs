//! The lending socket: takes regions of shared memory from processes of the same user. docs/shared-memory.md is the
//! protocol.

use std::{io, sync::Arc, time::Duration};

use node::{net::local_socket::LocalSocket, process::runtime::spawn};
use proto::{Result, ServiceError};
use shared_memory::{BorrowedRegion, Offer, acceptance_answer, refusal_answer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::regions::Regions;

/// The time that a lender may take to send its offer, which it has ready when it connects.
const OFFER_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts lenders until `ended`. Each connection lends one region, and takes it back by closing.
pub async fn serve(socket: LocalSocket, regions: Arc<Regions>, ended: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.listener.accept() => accepted,
            () = ended.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => drop(spawn(borrow(stream, regions.clone(), ended.clone()))),
            Err(error) => {
                tracing::warn!(%error, "a lender could not connect");
                // Most likely out of descriptors: some may be closed meanwhile.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn borrow(mut stream: UnixStream, regions: Arc<Regions>, ended: CancellationToken) {
    let lent = match take(&stream, &regions).await {
        Ok(lent) => lent,
        Err(error) => {
            tracing::warn!(%error, "a region was refused");
            let _lender_gone = stream.write_all(&refusal_answer(&error)).await;
            return;
        }
    };
    tracing::info!(bytes = lent.bytes(), slots = lent.layout().slots, range = %lent.layout().range, "region lent");
    let id = lent.layout().id;
    if stream.write_all(&acceptance_answer()).await.is_ok() {
        // The lender sends nothing more: whatever arrives means that it closes.
        let mut byte = [0; 1];
        tokio::select! {
            _ = stream.read(&mut byte) => {}
            () = ended.cancelled() => {}
        }
    }
    regions.give_back(&id);
}

async fn take(stream: &UnixStream, regions: &Regions) -> Result<Arc<BorrowedRegion>> {
    check_peer(stream)?;
    let offer = match timeout(OFFER_TIMEOUT, receive(stream)).await {
        Ok(received) => {
            received.map_err(|error| ServiceError::Unavailable { what: format!("a hello ({error})") })??
        }
        Err(_) => {
            return Err(ServiceError::invalid("hello", "missing", format!("sent within {OFFER_TIMEOUT:?}")));
        }
    };
    regions.reserve(&offer.layout)?;
    let id = offer.layout.id;
    let size = offer.layout.size();
    // Brings all pages in: milliseconds, or longer for much memory.
    let mapped = tokio::task::spawn_blocking(move || BorrowedRegion::open(offer)).await;
    match mapped.map_err(ServiceError::internal).and_then(|opened| opened) {
        Ok(region) => Ok(regions.add(region)),
        Err(error) => {
            regions.release(&id, size);
            Err(error)
        }
    }
}

async fn receive(stream: &UnixStream) -> io::Result<Result<Offer>> {
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || Offer::receive(stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return received,
        }
    }
}

/// Checks that the lender is of this worker's user: only who may read its key may lend to it.
fn check_peer(stream: &UnixStream) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let peer = stream.peer_cred().map_err(ServiceError::internal)?;
    if peer.uid() == own {
        return Ok(());
    }
    Err(ServiceError::invalid("lender's user id", peer.uid(), format!("{own}, the worker's own")))
}

//! The memory that snapshots may use for copies of state.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory for copies of state, of all shards together. Counted in KiB: a semaphore's permits are few.
#[derive(Debug)]
pub struct CopyBudget {
    permits: Arc<Semaphore>,
    kib: u32,
}

impl CopyBudget {
    pub fn new(bytes: u64) -> Self {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(1 << 28);
        Self { permits: Arc::new(Semaphore::new(kib as usize)), kib }
    }

    /// Waits for other snapshots to end; `None` where the whole budget is less than `bytes`.
    pub async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).ok().filter(|&kib| kib <= self.kib)?;
        self.permits.clone().acquire_many_owned(kib).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_budget_is_shared_and_says_what_it_can_never_hold() {
        let budget = CopyBudget::new(10 << 10);
        assert!(budget.take((10 << 10) + 1).await.is_none());
        let first = budget.take(9 << 10).await.unwrap();
        let waiting = budget.take(2000);
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(first);
        assert!(waiting.await.is_some());
        assert!(CopyBudget::new(0).take(1).await.is_none() && CopyBudget::new(0).take(0).await.is_some());
    }
}

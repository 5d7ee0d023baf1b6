//! Whether this host computes rightly: known answers when it starts, and rows that are made again while it serves.

use durable_io::fail_point;
use node::process::each_core::{CoreError, on_each_core};
use noise_kernel::grid::GridRowError;
use noise_kernel::{Backend, KernelError, Recheck, RowGenerator};
use proto::ServiceError;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::metric_definitions::WRONG_ROWS;

/// Makes rows of known noise on every core, and compares them with what is specified. To be called where it may block.
///
/// # Errors
/// The first core on which this backend makes other rows.
pub fn check_every_core(backend: Backend) -> Result<(), CoreError<KernelError>> {
    on_each_core(|| noise_kernel::check_known_answers(backend))
}

/// Makes rows, and a sample of them again. After the first difference nothing is made or released any more.
pub struct RowCheck {
    recheck: Recheck,
    stopped: CancellationToken,
    /// The rows from which on a test plants a fault.
    #[cfg(test)]
    pub planted_from: std::sync::atomic::AtomicU64,
}

impl std::fmt::Debug for RowCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowCheck(sound: {})", self.ensure_sound().is_ok())
    }
}

impl RowCheck {
    /// Checks one noise block in `one_in` of the rows that `backend` makes; 0 for none.
    pub fn new(backend: Backend, one_in: u64) -> Result<Self, KernelError> {
        Ok(Self {
            recheck: Recheck::new(backend, one_in)?,
            stopped: CancellationToken::new(),
            #[cfg(test)]
            planted_from: u64::MAX.into(),
        })
    }

    /// Fails where a row was wrong: nothing of this worker may be released any more.
    pub fn ensure_sound(&self) -> Result<(), ServiceError> {
        self.recheck.ensure_sound().map_err(service_error)
    }

    /// Waits until a row was wrong.
    pub fn stopped(&self) -> WaitForCancellationFuture<'_> {
        self.stopped.cancelled()
    }

    /// Makes the next rows, on the caller's rayon pool, and a sample of their blocks again.
    ///
    /// # Errors
    /// [`ServiceError::WrongRows`] where they differ, or did before; as [`RowGenerator::generate`].
    pub fn generate(
        &self,
        generator: &mut RowGenerator,
        rows: &mut [&mut [f32]],
    ) -> Result<(), ServiceError> {
        self.generate_checked(generator, rows).map_err(|error| {
            if matches!(error, GridRowError::Argument(KernelError::WrongRow { .. })) && !self.stopped.is_cancelled() {
                self.stopped.cancel();
                metrics::counter!(WRONG_ROWS).increment(1);
                tracing::error!(%error, "a row was made wrongly: this worker releases nothing more; take its host out of service");
            }
            match error {
                GridRowError::Argument(error) => service_error(error),
                error => ServiceError::internal(error),
            }
        })
    }

    fn generate_checked(
        &self,
        generator: &mut RowGenerator,
        rows: &mut [&mut [f32]],
    ) -> Result<(), GridRowError> {
        let sample = self.recheck.sample(generator)?;
        generator.generate(rows)?;
        let value = rows.last_mut().and_then(|row| row.first_mut());
        if let (Err(PlantedFault), Some(value)) = (self.plant_fault(generator), value) {
            *value = f32::from_bits(value.to_bits() ^ 1);
        }
        let rows: Vec<&[f32]> = rows.iter().map(|row| &**row).collect();
        Ok(self.recheck.check(sample, generator, &rows)?)
    }

    /// Fails where a test plants a fault in the rows that were made last.
    #[allow(clippy::unnecessary_wraps, unused_variables)] // in builds without fail points
    fn plant_fault(&self, made: &RowGenerator) -> Result<(), PlantedFault> {
        fail_point!("worker::rows::wrong_bit", PlantedFault);
        #[cfg(test)]
        if self.planted_from.load(std::sync::atomic::Ordering::Relaxed) < made.next_row() {
            return Err(PlantedFault);
        }
        Ok(())
    }
}

/// A fault that a test plants.
struct PlantedFault;

/// The error of a service for one of the kernel.
pub fn service_error(error: KernelError) -> ServiceError {
    match error {
        KernelError::WrongRow { row, coordinate, made_by, checked_by } => ServiceError::WrongRows {
            row,
            coordinate,
            made_by: made_by.to_string(),
            checked_by: checked_by.to_string(),
        },
        error => ServiceError::internal(error),
    }
}

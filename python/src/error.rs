//! Every failure as one of the classes of `rustle.errors`.

use accounting::AccountingError;
use batches::BatchError;
use ledger::LedgerError;
use noise_kernel::KernelError;
use noise_kernel::grid::GridRowError;
use plan::PlanError;
use planner::PlannerError;
use proto::{IdError, ServiceError};
use pyo3::prelude::*;
use report::ReportError;

pub type Result<T, E = Refused> = std::result::Result<T, E>;

/// Why a call did nothing, or did not end.
#[derive(Debug)]
pub enum Refused {
    Service(ServiceError),
    /// Raised by Python itself, such as KeyboardInterrupt.
    Python(PyErr),
    /// A kind that `rustle.errors` knows, and its text.
    Here(&'static str, String),
}

impl Refused {
    pub fn invalid(field: &str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::Service(ServiceError::invalid(field, value, allowed))
    }
}

impl From<Refused> for PyErr {
    fn from(refused: Refused) -> Self {
        let (kind, message, retry_safe, fields) = match refused {
            Refused::Python(error) => return error,
            Refused::Here(kind, message) => (kind.to_owned(), message, false, String::new()),
            Refused::Service(error) => {
                let fields = serde_json::to_string(&error).unwrap_or_default();
                (error.kind().to_owned(), error.to_string(), error.retry_safe(), fields)
            }
        };
        Python::attach(|py| {
            let made = py
                .import("rustle.errors")
                .and_then(|module| module.getattr("make"))
                .and_then(|make| make.call1((kind, message, retry_safe, fields)));
            made.map_or_else(|error| error, PyErr::from_value)
        })
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<ServiceError> for Refused {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<LedgerError> for Refused {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Locked { .. } => Self::Here("locked", error.to_string()),
            error => Self::Service(error.into()),
        }
    }
}

impl From<IdError> for Refused {
    fn from(error: IdError) -> Self {
        Self::Service(error.into())
    }
}

impl From<KernelError> for Refused {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::OutOfMemory { .. } | KernelError::TooLarge { .. } => {
                Self::Here("out_of_memory", error.to_string())
            }
            KernelError::KnownAnswer { .. } | KernelError::WrongRow { .. } => {
                Self::Here("wrong_rows", error.to_string())
            }
            error => Self::Here("invalid_argument", error.to_string()),
        }
    }
}

impl From<GridRowError> for Refused {
    fn from(error: GridRowError) -> Self {
        match error {
            GridRowError::Argument(error) => error.into(),
            error => Self::Here("internal", error.to_string()),
        }
    }
}

impl From<PlanError> for Refused {
    fn from(error: PlanError) -> Self {
        Self::Here("plan", error.to_string())
    }
}

impl From<AccountingError> for Refused {
    fn from(error: AccountingError) -> Self {
        match error {
            AccountingError::OutOfReach { .. } => Self::Here("out_of_reach", error.to_string()),
            error => Self::Here("accounting", error.to_string()),
        }
    }
}

impl From<ReportError> for Refused {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Accounting(error) => error.into(),
            ReportError::Plan(error) => error.into(),
            error => Self::Here("accounting", error.to_string()),
        }
    }
}

impl From<PlannerError> for Refused {
    fn from(error: PlannerError) -> Self {
        match error {
            PlannerError::Accounting(error) => error.into(),
            PlannerError::Plan(error) => error.into(),
            error => Self::Here("invalid_argument", error.to_string()),
        }
    }
}

impl From<strategy::StrategyError> for Refused {
    fn from(error: strategy::StrategyError) -> Self {
        Self::Here("invalid_argument", error.to_string())
    }
}

impl From<BatchError> for Refused {
    fn from(error: BatchError) -> Self {
        Self::Here("batches", error.to_string())
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Self::Here("invalid_argument", error.to_string())
    }
}

/// Returns the error for a buffer with gaps.
pub fn not_contiguous(_: impl std::error::Error) -> Refused {
    Refused::Here("buffer", "the buffer is not contiguous; allowed: float32 in C order".into())
}

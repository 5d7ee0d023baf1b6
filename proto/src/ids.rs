//! Names of jobs and workers, checked once on entry.

use std::fmt;

use crate::ServiceError;

/// A name of another form than names may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} {value:?} is not a valid name: 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit"
)]
pub struct IdError {
    kind: &'static str,
    value: String,
}

impl From<IdError> for ServiceError {
    fn from(error: IdError) -> Self {
        ServiceError::invalid(
            error.kind,
            error.value,
            "1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit",
        )
    }
}

fn is_valid(value: &str) -> bool {
    value.len() <= 64
        && value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the name's form.
            pub fn new(value: impl Into<String>) -> Result<Self, IdError> {
                let value = value.into();
                if is_valid(&value) { Ok(Self(value)) } else { Err(IdError { kind: $kind, value }) }
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(value: String) -> Result<Self, IdError> {
                Self::new(value)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(value: &str) -> Result<Self, IdError> {
                Self::new(value)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A job's name. It is part of the key derivation: two jobs with different names never share noise.
    ///
    /// ```compile_fail
    /// let job: proto::JobId = proto::WorkerId::new("w").unwrap();
    /// ```
    JobId, "job"
);
id!(
    /// A worker's name, unique in its cluster.
    WorkerId, "worker"
);
id!(
    /// The name of a data set whose privacy budget jobs draw on, unique in its ledger.
    DataSetId, "data_set"
);
id!(
    /// The name of a block of a data set, unique in it.
    BlockId, "block"
);
id!(
    /// The name of a sweep: a random number of runs of which the best is published, unique in its ledger.
    SweepId, "sweep"
);
id!(
    /// A tenant's name: a team or person whose credentials name it, and who may have a share of a data set's budget.
    TenantId, "tenant"
);
id!(
    /// A person's name in credentials, by which two tokens are known to be of one person.
    PersonId, "person"
);

/// A random id of one start of a worker, which distinguishes it from other starts under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub [u8; 16]);

impl TryFrom<&[u8]> for Incarnation {
    type Error = ServiceError;
    fn try_from(bytes: &[u8]) -> Result<Self, ServiceError> {
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| ServiceError::invalid("incarnation", format!("{} bytes", bytes.len()), "16 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_a_folder_are_refused() {
        for bad in ["", "../x", ".hidden", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(JobId::new(bad).is_err(), "{bad:?}");
        }
        for good in ["default", "a", "es-ES.v2_1", &"x".repeat(64)] {
            assert!(JobId::new(good).is_ok(), "{good:?}");
        }
    }
}

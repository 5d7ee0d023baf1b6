//! The encoding of values: on the wire, in shared memory, in stored shards.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ServiceError, pb};

const ALLOWED: &str = "f32, bf16 or i32";

/// The type of one value, little-endian. Its number is that of `rustle.v1.ElementType` wherever it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElementType {
    /// IEEE 754 single precision.
    #[default]
    F32,
    /// The upper half of the f32 value, rounded to nearest, ties to even.
    Bf16,
    /// A whole number of 32 bits, in steps of the plan's grid.
    I32,
}

impl ElementType {
    /// Returns the bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Checks that a job whose rows are of this type hands them out as `requested`: rows of f32 as they are or as bf16,
    /// integers on a grid as integers alone.
    pub fn check_request(self, requested: Self, job: impl ToString) -> Result<(), ServiceError> {
        match (self, requested) {
            (Self::I32, Self::I32) => Ok(()),
            (Self::I32, _) => Err(ServiceError::GridRowsAreIntegers {
                job: job.to_string(),
                requested: requested.to_string(),
            }),
            (_, Self::I32) => {
                let allowed = format!("f32 or bf16: the plan of job {} has no [grid]", job.to_string());
                Err(ServiceError::invalid("element type", requested, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number in messages and files, never 0.
    pub fn number(self) -> u8 {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
            Self::I32 => 3,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
        })
    }
}

impl FromStr for ElementType {
    type Err = ServiceError;
    fn from_str(text: &str) -> Result<Self, ServiceError> {
        match text {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            "i32" => Ok(Self::I32),
            _ => Err(ServiceError::invalid("element type", format!("{text:?}"), ALLOWED)),
        }
    }
}

impl From<ElementType> for i32 {
    fn from(element: ElementType) -> i32 {
        element.number().into()
    }
}

impl TryFrom<i32> for ElementType {
    type Error = ServiceError;
    fn try_from(number: i32) -> Result<Self, ServiceError> {
        match pb::ElementType::try_from(number) {
            Ok(pb::ElementType::Unspecified | pb::ElementType::F32) => Ok(Self::F32),
            Ok(pb::ElementType::Bf16) => Ok(Self::Bf16),
            Ok(pb::ElementType::I32) => Ok(Self::I32),
            Err(_) => Err(ServiceError::invalid("element type", number, "1 (f32), 2 (bf16) or 3 (i32)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_messages_and_unknown_ones_are_named() {
        for element in [ElementType::F32, ElementType::Bf16, ElementType::I32] {
            assert_eq!(ElementType::try_from(i32::from(element)), Ok(element));
            assert_eq!(element.to_string().parse(), Ok(element));
        }
        assert_eq!(i32::from(ElementType::Bf16), pb::ElementType::Bf16 as i32);
        assert_eq!(i32::from(ElementType::I32), pb::ElementType::I32 as i32);
        assert_eq!(ElementType::try_from(0), Ok(ElementType::F32));
        let unknown = ElementType::try_from(7).unwrap_err();
        assert!(unknown.to_string().contains("element type is 7"), "{unknown}");
        assert!("f64".parse::<ElementType>().unwrap_err().to_string().contains("f64"));
    }

    #[test]
    fn integers_are_handed_out_as_integers_alone() {
        use ElementType::{Bf16, F32, I32};
        for (rows, requested) in [(F32, F32), (F32, Bf16), (I32, I32)] {
            assert_eq!(rows.check_request(requested, "j"), Ok(()));
        }
        for requested in [F32, Bf16] {
            let error = I32.check_request(requested, "j").unwrap_err();
            assert_eq!(error.kind(), "grid_rows_are_integers");
            assert!(error.to_string().contains(&requested.to_string()) && !error.retry_safe(), "{error}");
        }
        assert_eq!(F32.check_request(I32, "j").unwrap_err().kind(), "invalid_argument");
    }
}

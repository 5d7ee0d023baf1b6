//! The encoding of values: on the wire, in shared memory, in stored shards.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ServiceError, pb};

const ALLOWED: &str = "f32 or bf16";

/// The type of one value, little-endian. Its number is that of `rustle.v1.ElementType` wherever it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElementType {
    /// IEEE 754 single precision.
    #[default]
    F32,
    /// The upper half of the f32 value, rounded to nearest, ties to even.
    Bf16,
}

impl ElementType {
    /// Returns the bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Returns the number in messages and files, never 0.
    pub fn number(self) -> u8 {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

impl FromStr for ElementType {
    type Err = ServiceError;
    fn from_str(text: &str) -> Result<Self, ServiceError> {
        match text {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
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
            Err(_) => Err(ServiceError::invalid("element type", number, "1 (f32) or 2 (bf16)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_messages_and_unknown_ones_are_named() {
        for element in [ElementType::F32, ElementType::Bf16] {
            assert_eq!(ElementType::try_from(i32::from(element)), Ok(element));
            assert_eq!(element.to_string().parse(), Ok(element));
        }
        assert_eq!(i32::from(ElementType::Bf16), pb::ElementType::Bf16 as i32);
        assert_eq!(ElementType::try_from(0), Ok(ElementType::F32));
        let unknown = ElementType::try_from(7).unwrap_err();
        assert!(unknown.to_string().contains("element type is 7"), "{unknown}");
        assert!("f64".parse::<ElementType>().unwrap_err().to_string().contains("f64"));
    }
}

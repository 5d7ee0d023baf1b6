//! The place of each named parameter in the flattened vector.

use std::collections::HashSet;
use std::ops::Range;

use crate::PlanError;
use crate::canonical::Canonical;
use crate::error::require;

/// One named tensor; a shape of no axes is one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name, unique in a layout.
    pub name: String,
    /// Lengths of the axes, each ≥ 1, row-major in the flattened vector.
    pub shape: Vec<u64>,
}

/// A parameter with its coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterRange<'a> {
    /// The parameter's name.
    pub name: &'a str,
    /// Lengths of its axes.
    pub shape: &'a [u64],
    /// Its coordinates in the flattened vector, from 0.
    pub range: Range<u64>,
}

/// The flattened parameter vector: its dimension alone, or its parameters in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    dimension: u64,
    parameters: Vec<Parameter>,
}

impl Layout {
    /// The longest vector: TOML's largest integer, so that every plan can be written down.
    pub const MAX_DIMENSION: u64 = i64::MAX as u64;

    /// Returns a layout of `dimension` coordinates without names.
    ///
    /// # Errors
    /// [`PlanError::Field`] for 0, or above [`Layout::MAX_DIMENSION`].
    pub fn dimension_only(dimension: u64) -> Result<Self, PlanError> {
        let allowed = format!("1 to {}", Self::MAX_DIMENSION);
        require((1..=Self::MAX_DIMENSION).contains(&dimension), "layout.dimension", dimension, allowed)?;
        Ok(Self { dimension, parameters: Vec::new() })
    }

    /// Returns a layout of parameters one after another in the given order.
    ///
    /// # Errors
    /// [`PlanError::Field`] for no parameters, a name that is empty or used twice, an axis of length 0, or more than
    /// [`Layout::MAX_DIMENSION`] coordinates in all.
    pub fn from_parameters(parameters: Vec<Parameter>) -> Result<Self, PlanError> {
        require(!parameters.is_empty(), "layout.parameters", "empty", "at least one parameter")?;
        let mut names = HashSet::new();
        let mut dimension = 0_u64;
        for (index, parameter) in parameters.iter().enumerate() {
            let field = format!("layout.parameters[{index}]");
            let name = &parameter.name;
            require(!name.is_empty(), format!("{field}.name"), "\"\"", "a name of at least one character")?;
            require(names.insert(name), format!("{field}.name"), format!("{name:?}"), "each name once")?;
            dimension = parameter
                .size(&field)?
                .checked_add(dimension)
                .filter(|&total| total <= Self::MAX_DIMENSION)
                .ok_or_else(|| too_long(&field, &parameter.shape))?;
        }
        Ok(Self { dimension, parameters })
    }

    /// Returns the number of coordinates of the flattened vector, at least 1.
    pub fn dimension(&self) -> u64 {
        self.dimension
    }

    /// Returns the parameters in order; empty where the plan names the dimension alone.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the parameters with their coordinates, in order.
    pub fn parameter_ranges(&self) -> Vec<ParameterRange<'_>> {
        let mut next = 0;
        let place = |parameter: &Parameter| {
            let start = next;
            next += parameter.shape.iter().product::<u64>();
            start..next
        };
        let ranges: Vec<_> = self.parameters.iter().map(place).collect();
        let pairs = self.parameters.iter().zip(ranges);
        pairs.map(|(p, range)| ParameterRange { name: &p.name, shape: &p.shape, range }).collect()
    }

    /// Returns the SHA-256 of the canonical form: `layout.dimension`, `layout.names` and `layout.shapes` as described
    /// in the crate's canonical form.
    pub fn digest(&self) -> [u8; 32] {
        let mut canonical = Canonical::new("rustle layout 1");
        canonical.integer("dimension", self.dimension);
        canonical.strings("names", self.parameters.iter().map(|p| p.name.as_str()));
        canonical.integer_rows("shapes", self.parameters.iter().map(|p| p.shape.as_slice()));
        canonical.digest()
    }
}

impl Parameter {
    fn size(&self, field: &str) -> Result<u64, PlanError> {
        let mut size = 1_u64;
        for (axis, &length) in self.shape.iter().enumerate() {
            require(length > 0, format!("{field}.shape[{axis}]"), length, "1 or more")?;
            size = size.checked_mul(length).ok_or_else(|| too_long(field, &self.shape))?;
        }
        Ok(size)
    }
}

fn too_long(field: &str, shape: &[u64]) -> PlanError {
    let allowed = format!("at most {} coordinates in all", Layout::MAX_DIMENSION);
    PlanError::field(format!("{field}.shape"), format!("{shape:?}"), allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &str, shape: &[u64]) -> Parameter {
        Parameter { name: name.into(), shape: shape.into() }
    }

    #[test]
    fn parameters_lie_one_after_another() {
        let layout = Layout::from_parameters(vec![
            parameter("w", &[3, 4]),
            parameter("b", &[]),
            parameter("head", &[5]),
        ])
        .unwrap();
        let ranges: Vec<_> = layout.parameter_ranges().into_iter().map(|p| p.range).collect();
        assert_eq!(ranges, [0..12, 12..13, 13..18]);
        assert_eq!(layout.dimension(), 18);
    }

    #[test]
    fn what_cannot_be_laid_out_is_refused_by_name() {
        let error = |parameters| Layout::from_parameters(parameters).unwrap_err().to_string();
        assert!(error(vec![parameter("w", &[3, 0])]).contains("layout.parameters[0].shape[1]` is 0"));
        assert!(
            error(vec![parameter("w", &[1]), parameter("w", &[1])])
                .contains("is \"w\"; allowed: each name once")
        );
        assert!(error(vec![parameter("w", &[u64::MAX, 2])]).contains("coordinates in all"));
        assert!(error(vec![parameter("a", &[1 << 62]), parameter("b", &[1 << 62])]).contains("[1].shape"));
        assert!(error(vec![]).contains("layout.parameters"));
        assert!(error(vec![parameter("", &[1])]).contains("name` is \"\""));
        assert!(Layout::dimension_only(0).unwrap_err().to_string().contains("layout.dimension` is 0"));
    }

    #[test]
    fn the_digest_distinguishes_layouts() {
        let one = Layout::from_parameters(vec![parameter("w", &[3, 4])]).unwrap();
        let two = Layout::from_parameters(vec![parameter("w", &[4, 3])]).unwrap();
        let flat = Layout::dimension_only(12).unwrap();
        assert_ne!(one.digest(), two.digest());
        assert_ne!(one.digest(), flat.digest());
        assert_eq!(flat.digest(), Layout::dimension_only(12).unwrap().digest());
    }
}

//! The shape of plan.toml, and the way between it and [`PlanSpec`].
//!
//! `[mechanism]` is read as one flat table of optional fields rather than a tagged enum: so a wrong type is
//! reported at its own line, and a missing or foreign field by its name.

use serde::{Deserialize, Serialize};
use strategy::MechanismKind;

use crate::error::require;
use crate::grid_file::GridFile;
use crate::layout::{Layout, Parameter};
use crate::spec::{FORMAT, PlanSpec, STREAM_VERSION};
use crate::{Mechanism, Participation, PlanError};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanFile {
    format: u32,
    stream_version: u32,
    #[serde(default = "default_rounds")]
    chacha_rounds: u32,
    iterations: u64,
    noise_multiplier: f64,
    clip_norm: f64,
    participation: ParticipationFile,
    mechanism: MechanismFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<LayoutFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<GridFile>,
}

fn default_rounds() -> u32 {
    20
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ParticipationFile {
    min_sep: u64,
    max_participations: u64,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct MechanismFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    restarts: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    theta: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omega: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coefficients: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column_normalised: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<Vec<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bands: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lambda: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matrix: Option<Vec<Vec<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column_scales: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds_per_scale: Option<u64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LayoutFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    dimension: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Vec<ParameterFile>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ParameterFile {
    name: String,
    shape: Vec<u64>,
}

impl PlanFile {
    /// Returns the file's fields; only the versions and the shape have been checked.
    pub(crate) fn into_spec(self) -> Result<PlanSpec, PlanError> {
        require(self.format == FORMAT, "format", self.format, FORMAT)?;
        require(
            self.stream_version == STREAM_VERSION,
            "stream_version",
            self.stream_version,
            STREAM_VERSION,
        )?;
        Ok(PlanSpec {
            chacha_rounds: self.chacha_rounds,
            iterations: self.iterations,
            noise_multiplier: self.noise_multiplier,
            clip_norm: self.clip_norm,
            participation: Participation {
                min_sep: self.participation.min_sep,
                max_participations: self.participation.max_participations,
            },
            mechanism: self.mechanism.into_mechanism()?,
            layout: self.layout.map(LayoutFile::into_layout).transpose()?,
            grid: self.grid.map(GridFile::into_grid).transpose()?,
        })
    }

    pub(crate) fn from_spec(spec: &PlanSpec) -> Self {
        Self {
            format: FORMAT,
            stream_version: STREAM_VERSION,
            chacha_rounds: spec.chacha_rounds,
            iterations: spec.iterations,
            noise_multiplier: spec.noise_multiplier,
            clip_norm: spec.clip_norm,
            participation: ParticipationFile {
                min_sep: spec.participation.min_sep,
                max_participations: spec.participation.max_participations,
            },
            mechanism: MechanismFile::from_mechanism(&spec.mechanism),
            layout: spec.layout.as_ref().map(LayoutFile::from_layout),
            grid: spec.grid.map(GridFile::from_grid),
        }
    }
}

impl LayoutFile {
    fn into_layout(self) -> Result<Layout, PlanError> {
        let allowed = "either `dimension` or `parameters`";
        match (self.dimension, self.parameters) {
            (Some(dimension), None) => Layout::dimension_only(dimension),
            (None, Some(parameters)) => Layout::from_parameters(
                parameters.into_iter().map(|p| Parameter { name: p.name, shape: p.shape }).collect(),
            ),
            (Some(_), Some(_)) => Err(PlanError::field("layout", "given twice", allowed)),
            (None, None) => Err(PlanError::missing("layout.dimension", allowed)),
        }
    }

    fn from_layout(layout: &Layout) -> Self {
        let parameters = layout.parameters();
        if parameters.is_empty() {
            return Self { dimension: Some(layout.dimension()), parameters: None };
        }
        let rows = parameters.iter().map(|p| ParameterFile { name: p.name.clone(), shape: p.shape.clone() });
        Self { dimension: None, parameters: Some(rows.collect()) }
    }
}

impl MechanismFile {
    fn into_mechanism(mut self) -> Result<Mechanism, PlanError> {
        let name = &self.name;
        let allowed = || Mechanism::NAMES.join(", ");
        let kind = MechanismKind::from_name(name)
            .ok_or_else(|| PlanError::field("mechanism.name", format!("{name:?}"), allowed()))?;
        let needed_by = kind.name();
        let mechanism = match kind {
            MechanismKind::Identity => Mechanism::Identity,
            MechanismKind::Tree => Mechanism::Tree {
                restarts: self.restarts.take().unwrap_or_default(),
                completion: self.completion.take().unwrap_or(false),
            },
            MechanismKind::Blt => Mechanism::Blt {
                theta: needed(self.theta.take(), "theta", needed_by)?,
                omega: needed(self.omega.take(), "omega", needed_by)?,
            },
            MechanismKind::BandToeplitz => Mechanism::BandToeplitz {
                coefficients: needed(self.coefficients.take(), "coefficients", needed_by)?,
                column_normalised: self.column_normalised.take().unwrap_or(false),
            },
            MechanismKind::BandMf => {
                Mechanism::BandMf { columns: needed(self.columns.take(), "columns", needed_by)? }
            }
            MechanismKind::BandSqrt => {
                Mechanism::BandSqrt { bands: needed(self.bands.take(), "bands", needed_by)? }
            }
            MechanismKind::BandInverse => Mechanism::BandInverse {
                coefficients: needed(self.coefficients.take(), "coefficients", needed_by)?,
            },
            MechanismKind::BandInverseSqrt => {
                Mechanism::BandInverseSqrt { bands: needed(self.bands.take(), "bands", needed_by)? }
            }
            MechanismKind::LambdaCgd => {
                Mechanism::LambdaCgd { lambda: needed(self.lambda.take(), "lambda", needed_by)? }
            }
            MechanismKind::Dense => {
                Mechanism::Dense { matrix: needed(self.matrix.take(), "matrix", needed_by)? }
            }
        };
        let mechanism = self.scaled(mechanism)?;
        self.nothing_left()?;
        Ok(mechanism)
    }

    /// The mechanism with the scales of its columns, where there are any.
    fn scaled(&mut self, base: Mechanism) -> Result<Mechanism, PlanError> {
        let may_be_scaled = matches!(base, Mechanism::Blt { .. } | Mechanism::BandToeplitz { .. });
        if !may_be_scaled || (self.column_scales.is_none() && self.rounds_per_scale.is_none()) {
            return Ok(base);
        }
        let missing =
            |field| PlanError::missing(format!("mechanism.{field}"), "given where columns are scaled");
        Ok(Mechanism::Scaled {
            base: Box::new(base),
            column_scales: self.column_scales.take().ok_or_else(|| missing("column_scales"))?,
            rounds_per_scale: self.rounds_per_scale.take().ok_or_else(|| missing("rounds_per_scale"))?,
        })
    }

    /// Refuses fields that the mechanism didn't take: they belong to another one, so the plan isn't what its author
    /// thinks.
    fn nothing_left(&self) -> Result<(), PlanError> {
        let left = [
            ("restarts", self.restarts.is_some()),
            ("completion", self.completion.is_some()),
            ("theta", self.theta.is_some()),
            ("omega", self.omega.is_some()),
            ("coefficients", self.coefficients.is_some()),
            ("column_normalised", self.column_normalised.is_some()),
            ("columns", self.columns.is_some()),
            ("bands", self.bands.is_some()),
            ("lambda", self.lambda.is_some()),
            ("matrix", self.matrix.is_some()),
            ("column_scales", self.column_scales.is_some()),
            ("rounds_per_scale", self.rounds_per_scale.is_some()),
        ];
        match left.iter().find(|(_, there)| *there) {
            None => Ok(()),
            Some((field, _)) => Err(PlanError::field(
                format!("mechanism.{field}"),
                "given",
                format!("no such field where mechanism.name is {:?}", self.name),
            )),
        }
    }

    fn from_mechanism(mechanism: &Mechanism) -> Self {
        let mut file = Self { name: mechanism.name().to_owned(), ..Self::default() };
        match mechanism.clone() {
            Mechanism::Identity => {}
            Mechanism::Tree { restarts, completion } => {
                file.restarts = Some(restarts);
                file.completion = Some(completion);
            }
            Mechanism::Blt { theta, omega } => {
                file.theta = Some(theta);
                file.omega = Some(omega);
            }
            Mechanism::BandToeplitz { coefficients, column_normalised } => {
                file.coefficients = Some(coefficients);
                file.column_normalised = Some(column_normalised);
            }
            Mechanism::BandMf { columns } => file.columns = Some(columns),
            Mechanism::BandSqrt { bands } | Mechanism::BandInverseSqrt { bands } => file.bands = Some(bands),
            Mechanism::BandInverse { coefficients } => file.coefficients = Some(coefficients),
            Mechanism::LambdaCgd { lambda } => file.lambda = Some(lambda),
            Mechanism::Dense { matrix } => file.matrix = Some(matrix),
            Mechanism::Scaled { base, column_scales, rounds_per_scale } => {
                file = Self::from_mechanism(&base);
                file.column_scales = Some(column_scales);
                file.rounds_per_scale = Some(rounds_per_scale);
            }
        }
        file
    }
}

fn needed<T>(value: Option<T>, field: &str, mechanism: &str) -> Result<T, PlanError> {
    value.ok_or_else(|| {
        PlanError::missing(
            format!("mechanism.{field}"),
            format!("given where mechanism.name is {mechanism:?}"),
        )
    })
}

//! What a charge counts for under one bound.
//!
//! A job clips what a unit contributes to a round as a whole, over all blocks that it reads. A user or a device may have data in several
//! of them. If its data in one block is zeroed out or removed, what is left may contribute anything within the clip norm, so that
//! the sum moves by as much as two clip norms, as if the unit's data were replaced. In the figures of a block, a job of
//! several blocks therefore counts for twice the sensitivity. A job of one block moves its sum by one clip norm, and so does a record, which lies
//! in one block, in any job.

use accounting::{AccountingError, Event, MatrixMechanism, Neighbouring, Result, Sampling};
use ledger::DataSetRecord;
use proto::model::{NeighbouringRelation, PrivacyUnit};

use super::events;

/// A charge under one bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// What ran.
    pub event: Event,
    /// Whether data in the bound's block shares its contributions with data outside of it.
    pub is_shared: bool,
}

impl Counted {
    /// Counts an event as it is.
    pub fn whole(event: Event) -> Self {
        Self { event, is_shared: false }
    }
}

/// Returns whether the data of one unit may lie in several blocks, and less of it is another contribution.
pub fn may_share(record: &DataSetRecord) -> bool {
    record.unit != PrivacyUnit::Example && record.neighbouring != NeighbouringRelation::Replace
}

/// Describes all these charges together, and the relation that an account of the description is to be made under.
///
/// # Errors
/// [`AccountingError::Unsupported`] for a shared event that no job is charged for.
pub fn together(charges: Vec<Counted>, record: &DataSetRecord) -> Result<(Event, Neighbouring)> {
    let is_sampled = charges.iter().any(|charge| charge.is_shared && is_sampled(&charge.event));
    let terms = Terms::new(is_sampled, record);
    let counted = charges.into_iter().map(|Counted { event, is_shared }| terms.event(event, is_shared));
    let events = counted.collect::<Result<Vec<Event>>>()?;
    Ok((Event::Composed { events }, terms.neighbouring))
}

/// The terms on which the charges of one bound are composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The relation of their account.
    pub neighbouring: Neighbouring,
    /// Whether shared events have twice their sensitivity.
    doubles: bool,
}

impl Terms {
    /// Returns the terms of charges of which some are both shared and sampled, or none.
    pub fn new(is_any_shared_one_sampled: bool, record: &DataSetRecord) -> Self {
        // Replacement covers that a unit's batches stay as they are while its contributions change, and keeps what sampling
        // amplifies.
        if is_any_shared_one_sampled && record.neighbouring == NeighbouringRelation::ZeroOut {
            return Self { neighbouring: Neighbouring::Replace, doubles: false };
        }
        Self { neighbouring: events::of_relation(record.neighbouring), doubles: true }
    }

    /// Returns whether a charge counts for twice its sensitivity.
    pub fn doubles(self, is_shared: bool) -> bool {
        self.doubles && is_shared
    }

    fn event(self, event: Event, is_shared: bool) -> Result<Event> {
        if self.doubles(is_shared) { with_twice_the_sensitivity(event) } else { Ok(event) }
    }
}

/// Returns whether an account of the event relies on how records were sampled.
pub fn is_sampled(event: &Event) -> bool {
    match event {
        Event::MatrixMechanism(run) => run.sampling != Sampling::AnyOrder,
        Event::RepeatAndSelect { event, .. } => is_sampled(event),
        Event::Composed { events } => events.iter().any(is_sampled),
        _ => false,
    }
}

/// Describes the mechanism of an event on contributions of up to two clip norms, in batches of any order: half of its noise per
/// clip norm.
///
/// # Errors
/// [`AccountingError::Unsupported`] for an event that no job is charged for.
pub fn with_twice_the_sensitivity(event: Event) -> Result<Event> {
    Ok(match event {
        Event::MatrixMechanism(run) => Event::MatrixMechanism(MatrixMechanism {
            noise_multiplier: run.noise_multiplier / 2.0,
            sampling: Sampling::AnyOrder,
            ..run
        }),
        Event::Gaussian { noise_multiplier } => Event::Gaussian { noise_multiplier: noise_multiplier / 2.0 },
        Event::RepeatAndSelect { event, mean, shape } => {
            Event::RepeatAndSelect { event: Box::new(with_twice_the_sensitivity(*event)?), mean, shape }
        }
        Event::Composed { events } => {
            let events = events.into_iter().map(with_twice_the_sensitivity);
            Event::Composed { events: events.collect::<Result<Vec<Event>>>()? }
        }
        other => {
            let why =
                "in several blocks, events of plans, of their rewinds and of sweeps have one".to_owned();
            return Err(AccountingError::Unsupported { event: other.name(), why });
        }
    })
}

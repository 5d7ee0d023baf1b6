//! Kinds of events that charges are of, each read once, and its Rényi divergences computed once, in a process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use accounting::{Event, RenyiCurve};

use super::counted::{Terms, is_sampled, with_twice_the_sensitivity};
use super::events;

/// The most texts that are remembered: some 10 MB. With more, all are forgotten, and read and computed again.
const MOST: usize = 8192;

static KINDS: LazyLock<Mutex<Kinds>> = LazyLock::new(Mutex::default);

/// Events that differ in nothing but the digest of their plans, on which no account depends.
#[derive(Debug)]
pub struct Kind {
    event: Event,
    /// Whether an account relies on how records were sampled.
    pub is_sampled: bool,
    curves: Mutex<Vec<Known>>,
}

/// The curve on some terms; `None` where there is none.
#[derive(Debug)]
struct Known {
    terms: (accounting::Neighbouring, bool),
    curve: Option<Arc<RenyiCurve>>,
}

/// Kinds by the texts of charges.
#[derive(Debug, Default)]
pub struct Kinds(HashMap<String, Arc<Kind>>);

impl Kinds {
    /// Returns the kind of each charge, in their order; `None` where this build does not read one.
    pub fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Vec<Arc<Kind>>> {
        let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
        texts.map(|text| kinds.kind(text)).collect()
    }

    fn kind(&mut self, text: &str) -> Option<Arc<Kind>> {
        if let Some(kind) = self.0.get(text) {
            return Some(kind.clone());
        }
        let event = events::of_any_plan(&serde_json::from_str(text).ok()?);
        let of_any_plan = events::to_text(&event).ok()?;
        if self.0.len() + 2 > MOST {
            self.0.clear();
        }
        let new = || {
            let is_sampled = is_sampled(&event);
            Arc::new(Kind { event, is_sampled, curves: Mutex::default() })
        };
        let kind = self.0.entry(of_any_plan).or_insert_with(new).clone();
        self.0.insert(text.to_owned(), kind.clone());
        Some(kind)
    }
}

impl Kind {
    /// Returns the Rényi divergences of a charge of this kind; `None` where it has no account.
    pub fn curve(&self, terms: Terms, is_shared: bool) -> Option<Arc<RenyiCurve>> {
        let terms = (terms.neighbouring, terms.doubles(is_shared));
        let mut curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = curves.iter().find(|known| known.terms == terms) {
            return known.curve.clone();
        }
        let (neighbouring, doubles) = terms;
        let event = self.event.clone();
        let event = if doubles { with_twice_the_sensitivity(event) } else { Ok(event) };
        let curve = event.and_then(|event| RenyiCurve::of(&event, neighbouring)).ok().map(Arc::new);
        curves.push(Known { terms, curve: curve.clone() });
        curve
    }
}

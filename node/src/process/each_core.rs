//! Work that every core does once, such as a test of the core itself.

use std::fmt;
use std::num::NonZeroUsize;
use std::thread;

use crate::process::{affinity, simulation};

/// An error of the work on one core.
#[derive(Debug, thiserror::Error)]
pub struct CoreError<E> {
    /// The core's number; `None` where the system lets no thread choose its core.
    pub core: Option<usize>,
    /// The error.
    pub error: E,
}

impl<E: fmt::Display> fmt::Display for CoreError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.core {
            Some(core) => write!(f, "core {core}: {}", self.error),
            None => write!(f, "a core: {}", self.error),
        }
    }
}

/// Runs `work` once on each core that this process may use, on all at once. Where the system doesn't let threads choose
/// their core, on as many threads as there are cores. In a simulation, once.
///
/// # Errors
/// The first error, with its core; the others end their work.
pub fn on_each_core<E: Send>(work: impl Fn() -> Result<(), E> + Sync) -> Result<(), CoreError<E>> {
    let on_core = |core: Option<usize>| work().map_err(|error| CoreError { core, error });
    if simulation::is_on() {
        return on_core(None);
    }
    let mut cores: Vec<Option<usize>> = affinity::allowed_cores().into_iter().map(Some).collect();
    if cores.is_empty() {
        cores = vec![None; thread::available_parallelism().map_or(1, NonZeroUsize::get)];
    }
    let on_core = &on_core;
    thread::scope(|scope| {
        let start = |core: Option<usize>| {
            let pinned = move || {
                if let Some(core) = core {
                    affinity::stay_on(core);
                }
                on_core(core)
            };
            thread::Builder::new().name("core-test".to_owned()).spawn_scoped(scope, pinned)
        };
        let started: Vec<_> = cores.into_iter().map(start).collect();
        started.into_iter().try_for_each(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread is left for it: this one does the work, on whatever core it has.
            Err(_) => on_core(None),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_core_does_the_work_once() {
        let seen = Mutex::new(Vec::new());
        on_each_core(|| {
            seen.lock().unwrap().push(affinity::allowed_cores());
            Ok::<_, String>(())
        })
        .unwrap();
        let seen = seen.into_inner().unwrap();
        let allowed = affinity::allowed_cores();
        if !allowed.is_empty() {
            let expected: BTreeSet<_> = allowed.into_iter().map(|core| vec![core]).collect();
            assert_eq!((seen.len(), seen.into_iter().collect()), (expected.len(), expected));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_names_its_core() {
        let bad = *affinity::allowed_cores().last().unwrap();
        let work = || if affinity::allowed_cores() == [bad] { Err("wrong") } else { Ok(()) };
        let error = on_each_core(work).unwrap_err();
        assert_eq!((error.core, error.to_string()), (Some(bad), format!("core {bad}: wrong")));
    }
}

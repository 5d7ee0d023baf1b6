//! Progress of an optimization, as its caller sees it.

use std::ops::ControlFlow;

/// One step of an optimization, as reported to the caller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps taken so far, over all starts.
    pub iteration: usize,
    /// The loss at this step (error × sensitivity, not squared).
    pub loss: f64,
    /// Norm of the gradient of ln(loss) in the optimizer's own parameters; NaN for one-dimensional searches.
    pub gradient_norm: f64,
}

/// A callback for each step; with `Break` it ends the optimization, and the best strategy so far is returned.
pub type ProgressFn<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

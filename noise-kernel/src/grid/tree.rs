//! Honaker's tree over rounded nodes, in whole numbers.
//!
//! Slot l of the state holds the estimate E_l, as in the tree of binary32. Whatever whole number ρ(a − lower) is, the rows
//! are a post-processing of the nodes; ρ is the product with Honaker's weight in binary64, rounded to nearest, ties to
//! even.

use super::check::LARGEST;
use super::decide::{Values, WholeBlock};
use super::normals::ROUNDER;
use super::settle::{BlockRow, Fault, Scratch, ZERO_VALUES};
use crate::block::BLOCK;
use crate::tree::Step;

/// Honaker's weight of a level-l node's own value.
pub(crate) fn weight(level: u32) -> f64 {
    2f64.powi(level as i32) / (2f64.powi(level as i32 + 1) - 1.0)
}

/// Makes one row into the first row of `scratch`.
pub(crate) fn row(
    at: &BlockRow<'_>,
    s: f64,
    step: &Step,
    state: &mut [WholeBlock],
    scratch: &mut Scratch,
) -> Result<(), Fault> {
    let levels = if step.completes() { step.leaf } else { (1 << step.leaf.trailing_ones()) - 1 };
    let mut before = ZERO_VALUES;
    for (_, estimate) in state.iter().enumerate().filter(|(level, _)| levels >> level & 1 == 1) {
        for (sum, &value) in before.iter_mut().zip(estimate) {
            *sum += f64::from(value);
        }
    }
    let mut carry = ZERO_VALUES;
    for leaf in step.leaves() {
        add_leaf(at, s, step, leaf, state, scratch, &mut carry)?;
    }
    for i in 0..BLOCK {
        scratch.rows[0][i] = checked(at, i, carry[i] - before[i])? as i32;
    }
    if step.last {
        state.fill([0; BLOCK]);
    }
    Ok(())
}

/// Adds a leaf: `carry` becomes the estimate of the largest subtree it completes, and is kept.
fn add_leaf(
    at: &BlockRow<'_>,
    s: f64,
    step: &Step,
    leaf: u64,
    state: &mut [WholeBlock],
    scratch: &mut Scratch,
    carry: &mut Values,
) -> Result<(), Fault> {
    for (level, node) in step.nodes(leaf).enumerate() {
        at.fresh(node, s, scratch)?;
        if level == 0 {
            *carry = scratch.rows[0].map(f64::from);
            continue;
        }
        let weight = weight(level as u32);
        for i in 0..BLOCK {
            let lower = f64::from(state[level - 1][i]) + carry[i];
            carry[i] = lower + ((weight * (f64::from(scratch.rows[0][i]) - lower) + ROUNDER) - ROUNDER);
        }
    }
    if let Some(slot) = state.get_mut(leaf.trailing_ones() as usize) {
        for i in 0..BLOCK {
            slot[i] = checked(at, i, carry[i])? as i32;
        }
    }
    Ok(())
}

/// The value, if it has 32 bits.
fn checked(at: &BlockRow<'_>, i: usize, value: f64) -> Result<f64, Fault> {
    if value.abs() <= LARGEST { Ok(value) } else { Err(at.fault(i, Some(value as i128))) }
}

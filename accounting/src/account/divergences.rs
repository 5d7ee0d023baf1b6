//! Figures from Rényi divergences, for sums with parts of which nothing else is known.

use super::totals::Totals;
use crate::error::Result;
use crate::neighbouring::Direction;
use crate::renyi;

impl Totals {
    /// Returns the Rényi divergence of all parts together, in one direction.
    pub fn divergence(&self, order: f64, direction: Direction) -> Result<f64> {
        self.divergence_within(order, direction, renyi::MAX_NODES)
    }

    /// Returns the same; +∞ where the quadrature of any part would need more than so many nodes.
    pub fn divergence_within(&self, order: f64, direction: Direction, most_nodes: f64) -> Result<f64> {
        let rounds = match direction {
            Direction::Remove => &self.remove,
            Direction::Add => &self.add,
        };
        let selected: f64 = self.selections.iter().map(|(one, count)| *count as f64 * one.at(order)).sum();
        let zcdp = (self.rho + self.mu_squared / 2.0) * order;
        Ok(renyi::divergence_within(rounds, order, most_nodes)? + zcdp + selected)
    }

    /// Returns the divergence in the worse direction.
    pub fn worse_divergence(&self, order: f64) -> Result<f64> {
        self.worse(|direction| self.divergence(order, direction))
    }

    /// Returns ε at δ.
    pub fn selected_epsilon(&self, delta: f64) -> Result<f64> {
        self.worse(|direction| renyi::epsilon_of(|order| self.divergence(order, direction), delta))
    }

    /// Returns δ at ε.
    pub fn selected_delta(&self, epsilon: f64) -> Result<f64> {
        self.worse(|direction| renyi::delta_of(|order| self.divergence(order, direction), epsilon))
    }

    fn worse(&self, figure: impl Fn(Direction) -> Result<f64>) -> Result<f64> {
        Ok(figure(Direction::Remove)?.max(figure(Direction::Add)?))
    }
}

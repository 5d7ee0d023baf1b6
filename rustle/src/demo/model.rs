//! Multinomial logistic regression with per-example gradient clipping.

use super::digits::{CLASSES, Example, FEATURES};

/// Number of parameters: one weight per feature and class, `weights[feature * CLASSES + class]`.
pub const PARAMETERS: usize = FEATURES * CLASSES;

/// Factor on the clip norm that keeps a gradient below it in spite of rounding in f32.
const ROUNDING: f64 = 1.0 - 1.0 / (1 << 20) as f64;

/// The model. Its weights start at zero: the loss is convex, so a random start gains nothing.
#[derive(Clone, Debug)]
pub struct Model {
    pub weights: Vec<f32>,
}

impl Default for Model {
    fn default() -> Self {
        Self { weights: vec![0.0; PARAMETERS] }
    }
}

impl Model {
    /// Adds the gradient of one example's loss, clipped to an L2 norm of `clip_norm`, to `sum`. It is of f32; the sum is not.
    pub fn add_clipped_gradient(&self, example: &Example, clip_norm: f64, sum: &mut [f64]) {
        // The gradient is the outer product of the features and this, so its norm is the product of theirs.
        let mut residual = softmax(self.logits(example));
        residual[example.label] -= 1.0;
        let norm = norm(&example.features) * norm(&residual);
        let scale = if norm > clip_norm { (clip_norm * ROUNDING / norm) as f32 } else { 1.0 };
        let scaled = residual.map(|value| value * scale);
        for (row, &feature) in sum.chunks_exact_mut(CLASSES).zip(&example.features) {
            for (place, value) in row.iter_mut().zip(&scaled) {
                *place += f64::from(feature * value);
            }
        }
    }

    /// Returns the fraction of examples whose most likely class is the right one.
    pub fn accuracy(&self, examples: &[Example]) -> f64 {
        let right = examples.iter().filter(|example| self.predict(example) == example.label).count();
        right as f64 / examples.len() as f64
    }

    fn predict(&self, example: &Example) -> usize {
        let logits = self.logits(example);
        (1..CLASSES).fold(0, |best, class| if logits[class] > logits[best] { class } else { best })
    }

    fn logits(&self, example: &Example) -> [f32; CLASSES] {
        let mut logits = [0.0; CLASSES];
        for (row, &feature) in self.weights.chunks_exact(CLASSES).zip(&example.features) {
            for (logit, weight) in logits.iter_mut().zip(row) {
                *logit += feature * weight;
            }
        }
        logits
    }
}

fn softmax(logits: [f32; CLASSES]) -> [f32; CLASSES] {
    let largest = logits.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let exps = logits.map(|logit| (logit - largest).exp());
    let total: f32 = exps.iter().sum();
    exps.map(|exp| exp / total)
}

fn norm<V: Copy + Into<f64>>(values: &[V]) -> f64 {
    values.iter().map(|&value| value.into().powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::digits::Digits;
    use super::*;

    /// Returns weights that are neither zero nor equal.
    fn some_model() -> Model {
        Model { weights: (0..PARAMETERS).map(|i| ((i * 37 % 101) as f32 - 50.0) / 250.0).collect() }
    }

    fn loss(model: &Model, example: &Example) -> f64 {
        -f64::from(softmax(model.logits(example))[example.label]).ln()
    }

    #[test]
    fn gradient_agrees_with_differences() {
        let digits = Digits::load().unwrap();
        let model = some_model();
        let example = &digits.train[7];
        let mut gradient = vec![0.0; PARAMETERS];
        model.add_clipped_gradient(example, f64::INFINITY, &mut gradient);
        let step = 1.0 / 64.0;
        for i in (0..PARAMETERS).step_by(11) {
            let mut up = model.clone();
            let mut down = model.clone();
            up.weights[i] += step;
            down.weights[i] -= step;
            let slope = (loss(&up, example) - loss(&down, example)) / f64::from(2.0 * step);
            assert!((slope - gradient[i]).abs() < 2e-4, "{i}: {slope} against {}", gradient[i]);
        }
    }

    #[test]
    fn no_gradient_is_longer_than_the_clip_norm() {
        let digits = Digits::load().unwrap();
        for clip_norm in [0.01, 1.0, 3.0] {
            let mut clipped = 0;
            for example in &digits.train {
                let mut gradient = vec![0.0; PARAMETERS];
                some_model().add_clipped_gradient(example, clip_norm, &mut gradient);
                let length = norm(&gradient);
                assert!(length <= clip_norm, "{length} over {clip_norm}");
                clipped += usize::from(length > 0.9999 * clip_norm);
            }
            assert!(clipped > 0);
        }
    }

    #[test]
    fn gradients_add_up() {
        let digits = Digits::load().unwrap();
        let mut both = vec![0.0; PARAMETERS];
        let mut one = both.clone();
        some_model().add_clipped_gradient(&digits.train[0], 1.0, &mut both);
        some_model().add_clipped_gradient(&digits.train[0], 1.0, &mut one);
        some_model().add_clipped_gradient(&digits.train[0], 1.0, &mut both);
        assert!(both.iter().zip(&one).all(|(b, o)| *b == 2.0 * o));
    }
}

//! The b numbers of a sample, padded to whole lanes that compilers turn into vector registers.

/// Numbers side by side: eight f64 are one register of AVX-512, two of AVX2.
pub(super) const LANES: usize = 8;
pub(super) type Lanes = [f64; LANES];

/// Scratch memory for the weight of one sample.
#[derive(Debug)]
pub(super) struct Scratch([Vec<Lanes>; 3]);

impl Scratch {
    pub fn new(b: usize) -> Self {
        Self(std::array::from_fn(|_| vec![[0.0; LANES]; count(b)]))
    }

    pub fn all(&mut self) -> [&mut [Lanes]; 3] {
        self.0.each_mut().map(Vec::as_mut_slice)
    }
}

/// Returns the number of lanes that b numbers take.
pub(super) fn count(b: usize) -> usize {
    b.div_ceil(LANES)
}

/// Pads b numbers with `rest` up to a whole lane.
pub(super) fn padded(numbers: impl ExactSizeIterator<Item = f64>, rest: f64) -> Vec<Lanes> {
    let mut all = vec![[rest; LANES]; count(numbers.len())];
    all.as_flattened_mut().iter_mut().zip(numbers).for_each(|(to, number)| *to = number);
    all
}

pub(super) fn sum(all: &[Lanes]) -> f64 {
    let mut sums = [0.0; LANES];
    for some in all {
        sums.iter_mut().zip(some).for_each(|(sum, x)| *sum += x);
    }
    joined(sums)
}

pub(super) fn dot(all: &[Lanes], others: &[Lanes]) -> f64 {
    let mut sums = [0.0; LANES];
    for (x, y) in all.iter().zip(others) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    joined(sums)
}

/// Returns the dot product with `powers`, and multiplies `powers` by `ratios` for the next call.
pub(super) fn dot_then_multiply(all: &[Lanes], powers: &mut [Lanes], ratios: &[Lanes]) -> f64 {
    let mut sums = [0.0; LANES];
    for ((x, power), ratio) in all.iter().zip(powers).zip(ratios) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * power[lane];
            power[lane] *= ratio[lane];
        }
    }
    joined(sums)
}

pub(super) fn most(all: &[Lanes]) -> f64 {
    let mut most = [f64::NEG_INFINITY; LANES];
    for some in all {
        for (most, x) in most.iter_mut().zip(some) {
            *most = if *x > *most { *x } else { *most };
        }
    }
    most.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

fn joined(lanes: Lanes) -> f64 {
    lanes.chunks_exact(2).map(|two| two[0] + two[1]).sum()
}

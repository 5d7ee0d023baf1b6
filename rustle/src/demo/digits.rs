//! The handwritten digits of the demo: `data/digits.bin`, whose README states their origin.

use anyhow::{Result, ensure};

/// Pixels of an image, 8×8.
pub const PIXELS: usize = 64;
/// The ten digits.
pub const CLASSES: usize = 10;
/// Products of neighbouring pixels: 7 in each of 8 rows, 7 in each of 8 columns. They distinguish strokes, and make the
/// parameter vector long enough for four workers.
const PRODUCTS: usize = 2 * 7 * SIDE;
const SIDE: usize = 8;
/// Features of an image: its pixels, products of neighbours, and a constant 1.
pub const FEATURES: usize = PIXELS + PRODUCTS + 1;

const RECORD: usize = PIXELS + 1;
const INK: u8 = 16;
/// Every fifth image of each class, in the order of the file, is held out for testing.
const HELD_OUT: usize = 5;

static FILE: &[u8] = include_bytes!("../../data/digits.bin");

/// One image as a training example.
#[derive(Clone, Debug)]
pub struct Example {
    /// Index in the file, which enters a batch's digest.
    pub id: u32,
    /// Pixels scaled to −0.3125..0.6875 (a fixed shift: one taken from the data would cost privacy), products, then 1.
    pub features: [f32; FEATURES],
    /// The digit shown.
    pub label: usize,
}

/// All images, in a fixed split.
#[derive(Clone, Debug)]
pub struct Digits {
    /// 1,442 images.
    pub train: Vec<Example>,
    /// 355 images, 34 to 36 of each digit.
    pub test: Vec<Example>,
}

impl Digits {
    /// Reads the images built into the program.
    pub fn load() -> Result<Self> {
        Self::parse(FILE)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        ensure!(
            !bytes.is_empty() && bytes.len().is_multiple_of(RECORD),
            "the digits take {} bytes: a positive multiple of {RECORD} is needed",
            bytes.len()
        );
        let mut digits = Self { train: Vec::new(), test: Vec::new() };
        let mut seen = [0_usize; CLASSES];
        for (id, record) in (0_u32..).zip(bytes.chunks_exact(RECORD)) {
            let example = Example::parse(id, record)?;
            let place = seen[example.label];
            seen[example.label] += 1;
            if place % HELD_OUT == HELD_OUT - 1 {
                digits.test.push(example);
            } else {
                digits.train.push(example);
            }
        }
        Ok(digits)
    }
}

impl Example {
    fn parse(id: u32, record: &[u8]) -> Result<Self> {
        let label = usize::from(record[PIXELS]);
        ensure!(label < CLASSES, "image {id} is labelled {label}; allowed: 0 to {}", CLASSES - 1);
        let mut features = [1.0; FEATURES];
        for (feature, &pixel) in features.iter_mut().zip(&record[..PIXELS]) {
            ensure!(pixel <= INK, "image {id} has a pixel of {pixel}; allowed: 0 to {INK}");
            *feature = (f32::from(pixel) - 5.0) / f32::from(INK);
        }
        let right = (0..PIXELS).filter(|at| at % SIDE != SIDE - 1).map(|at| (at, at + 1));
        let below = (0..PIXELS - SIDE).map(|at| (at, at + SIDE));
        for (place, (a, b)) in (PIXELS..).zip(right.chain(below)) {
            features[place] = features[a] * features[b];
        }
        Ok(Self { id, features, label })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn per_class(examples: &[Example]) -> [usize; CLASSES] {
        let mut count = [0; CLASSES];
        examples.iter().for_each(|example| count[example.label] += 1);
        count
    }

    #[test]
    fn the_file_is_the_one_its_readme_describes() {
        let readme = include_str!("../../data/README.md");
        assert!(readme.contains(&hex::encode(Sha256::digest(FILE))));
        assert_eq!(FILE.len(), 1797 * RECORD);
    }

    #[test]
    fn every_class_is_split_alike() {
        let digits = Digits::load().unwrap();
        assert_eq!((digits.train.len(), digits.test.len()), (1442, 355));
        assert_eq!(per_class(&digits.test), [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]);
        let both: Vec<usize> =
            per_class(&digits.train).iter().zip(per_class(&digits.test)).map(|(a, b)| a + b).collect();
        assert_eq!(both, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    #[test]
    fn pixels_are_as_in_the_source() {
        let digits = Digits::load().unwrap();
        let first = &digits.train[0];
        assert_eq!((first.id, first.label), (0, 0));
        assert_eq!(first.features[..4], [-0.3125, -0.3125, 0.0, 0.5]);
        assert_eq!(first.features[PIXELS], 0.3125 * 0.3125);
        assert_eq!(first.features[FEATURES - 1], 1.0);
        let ink: f64 = digits
            .train
            .iter()
            .chain(&digits.test)
            .flat_map(|example| &example.features[..PIXELS])
            .map(|&feature| f64::from(feature) * 16.0 + 5.0)
            .sum();
        assert_eq!(ink, 561_718.0);
    }

    #[test]
    fn damage_is_named() {
        let wrong = |place: usize, value: u8| {
            let mut bytes = FILE.to_vec();
            bytes[place] = value;
            Digits::parse(&bytes).unwrap_err().to_string()
        };
        assert!(wrong(RECORD + 3, 17).contains("image 1 has a pixel of 17"));
        assert!(wrong(PIXELS, 10).contains("image 0 is labelled 10"));
        assert!(Digits::parse(&FILE[1..]).unwrap_err().to_string().contains("116804 bytes"));
        assert!(Digits::parse(&[]).is_err());
    }
}

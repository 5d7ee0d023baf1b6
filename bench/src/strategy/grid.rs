//! What is compared, and the figures that have limits of their own.

use super::setting::Setting;

/// Many small ones and few large: the peer takes most of the time. Its bands never exceed b, because its
/// optimisers of bands know no others; its own dense search is held against the same bands where n is small.
pub const GRID: &str = "\
    blt-1,n=100,max blt-2,n=100,max blt-3,n=100,b=10,k=10,max blt-1,n=1000,max blt-2,n=1000,max \
    blt-3,n=1000,max blt-4,n=1000,max blt-2,n=1000,rms blt-3,n=1000,rms blt-3,n=500,b=50,k=10,max \
    blt-4,n=1000,b=100,k=10,max blt-2,n=1000,b=100,k=5,rms blt-1,n=2052,b=342,k=6,max \
    blt-2,n=2052,b=342,k=6,max blt-3,n=2052,b=342,k=6,max blt-4,n=2052,b=342,k=6,max \
    blt-5,n=2052,b=342,k=6,max blt-3,n=2052,b=342,k=6,rms blt-3,n=4096,b=64,k=64,max \
    blt-2,n=10000,max blt-4,n=10000,max blt-2,n=10000,b=1000,k=10,max blt-3,n=10000,b=1000,k=10,max \
    blt-4,n=10000,b=1000,k=10,max blt-3,n=100000,max blt-5,n=100000,max band-toeplitz-4,n=100,rms \
    band-toeplitz-8,n=100,max band-toeplitz-16,n=100,b=20,k=5,rms band-toeplitz-16,n=512,rms \
    band-toeplitz-32,n=512,rms band-toeplitz-64,n=512,b=64,k=8,rms band-toeplitz-4,n=1000,max \
    band-toeplitz-16,n=1000,b=100,k=10,max band-toeplitz-100,n=1000,b=100,k=10,rms \
    band-toeplitz-16,n=2052,rms band-toeplitz-64,n=2052,rms band-toeplitz-342,n=2052,b=342,k=6,rms \
    band-toeplitz-128,n=4096,b=128,k=32,rms band-toeplitz-8,n=10000,rms \
    band-toeplitz-32,n=10000,b=32,k=100,rms band-toeplitz-16,n=100000,rms \
    band-toeplitz-32,n=100000,rms band-mf-4,n=100,rms band-mf-8,n=100,b=10,k=10,rms \
    band-mf-8,n=128,b=8,k=16,rms band-mf-4,n=256,rms band-mf-16,n=256,b=16,k=16,rms \
    band-mf-16,n=512,rms band-mf-8,n=1000,rms band-mf-32,n=1000,b=32,k=32,rms band-mf-16,n=2052,rms \
    dense-bands-8,n=128,b=8,k=16,rms dense-bands-16,n=256,b=16,k=16,rms dense-bands-16,n=512,rms \
    dense,n=32,rms dense,n=64,rms dense,n=128,rms dense,n=256,rms band-inverse-4,n=1000,rms";

pub const QUICK: &str = "\
    blt-2,n=100,max blt-3,n=1000,max blt-3,n=500,b=50,k=10,max band-toeplitz-4,n=100,rms \
    band-toeplitz-16,n=512,rms band-toeplitz-16,n=1000,b=100,k=10,max band-mf-8,n=128,b=8,k=16,rms \
    dense-bands-8,n=128,b=8,k=16,rms dense,n=64,rms band-inverse-4,n=1000,rms";

/// A setting with the loss and the seconds it may have at most, where there are such limits.
pub struct Named {
    pub setting: Setting,
    pub loss: Option<f64>,
    pub seconds: Option<f64>,
}

const NAMED: [(&str, Option<f64>, Option<f64>); 11] = [
    ("blt-2,n=2052,b=342,k=6,max", Some(10.8063), Some(0.05)),
    ("blt-3,n=2052,b=342,k=6,max", Some(10.7514), Some(0.05)),
    ("blt-4,n=2052,b=342,k=6,max", Some(10.7341), Some(0.05)),
    ("band-toeplitz-342,n=2052,b=342,k=6,rms", Some(8.805), Some(1.0)),
    ("band-mf-16,n=2052,rms", Some(8.5944), Some(1.0)),
    ("band-mf-16,n=512,rms", Some(4.6995), None),
    ("band-mf-32,n=100000,rms", None, Some(60.0)),
    ("band-mf-16,n=1000000,rms", None, None),
    ("band-toeplitz-32,n=1000000,rms", None, Some(20.0)),
    ("band-toeplitz-32,n=10000000,rms", None, None),
    ("blt-4,n=1000000000,max", None, Some(1.0)),
];

pub fn named() -> anyhow::Result<Vec<Named>> {
    let parsed = NAMED.iter().map(|&(text, loss, seconds)| {
        let setting = text.parse().map_err(anyhow::Error::msg)?;
        Ok(Named { setting, loss, seconds })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_one_and_none_is_listed_twice() {
        for names in [GRID, QUICK] {
            let settings = Setting::list(names).unwrap();
            let names: Vec<_> = names.split_whitespace().collect();
            for (at, setting) in settings.iter().enumerate() {
                assert_eq!(setting.to_string(), names[at]);
                assert!(!settings[..at].contains(setting), "{setting} twice");
                assert!(setting.target().is_ok());
            }
        }
        assert_eq!(named().unwrap().len(), NAMED.len());
    }
}

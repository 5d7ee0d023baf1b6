//! The destination of rows that a launch generates for itself: a `.npy` file, or only their SHA-256.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use proto::ElementType;
use sha2::{Digest, Sha256};

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// The length of the header in bytes, the magic included: there is room for any two numbers.
const HEADER: usize = 128;

/// Takes rows and hashes them.
pub struct Sink {
    hash: Sha256,
    file: Option<(PathBuf, BufWriter<File>)>,
    /// The number of values in a row.
    coordinates: u64,
    rows: u64,
    element: ElementType,
}

impl Sink {
    /// Begins a file, if `path` names one. It appears under its name when it is complete, and only its owner may read it:
    /// noise is as secret as what it hides.
    pub fn create(path: Option<&Path>, coordinates: u64, element: ElementType) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let mut file = OpenOptions::new();
            file.write(true).create(true).truncate(true).mode(0o600);
            let mut file = BufWriter::with_capacity(1 << 20, file.open(partial(path))?);
            // PieceResult again when the number of rows is known.
            file.write_all(&[0; HEADER])?;
            anyhow::Ok((path.to_owned(), file))
        };
        let named = || path.map_or_else(String::new, |path| format!("write {}", path.display()));
        let file = path.map(open).transpose().with_context(named)?;
        Ok(Self { hash: Sha256::new(), file, coordinates, rows: 0, element })
    }

    /// Takes one row, of values of four bytes.
    pub fn write<V: bytemuck::Pod>(&mut self, row: &[V]) -> anyhow::Result<()> {
        const { assert!(size_of::<V>() == 4) }
        ensure!(row.len() as u64 == self.coordinates, "a row has {} values", row.len());
        let bytes: &[u8] = bytemuck::cast_slice(row);
        self.hash.update(bytes);
        self.rows += 1;
        match &mut self.file {
            Some((path, file)) => file.write_all(bytes).with_context(|| format!("write {}", path.display())),
            None => Ok(()),
        }
    }

    /// Renames the file to its name. Returns the SHA-256 of all values and the number of rows.
    pub fn finish(self) -> anyhow::Result<(String, u64)> {
        let Self { hash, file, coordinates, rows, element } = self;
        if let Some((path, file)) = file {
            finish(&path, file, &header(element, rows, coordinates))
                .with_context(|| format!("write {}", path.display()))?;
        }
        Ok((hex::encode(hash.finalize()), rows))
    }
}

fn finish(path: &Path, file: BufWriter<File>, header: &[u8]) -> anyhow::Result<()> {
    let file = file.into_inner().map_err(|error| error.into_error())?;
    std::os::unix::fs::FileExt::write_all_at(&file, header, 0)?;
    file.sync_all()?;
    Ok(fs::rename(partial(path), path)?)
}

fn partial(path: &Path) -> PathBuf {
    path.with_added_extension("partial")
}

fn header(element: ElementType, rows: u64, coordinates: u64) -> Vec<u8> {
    let descr = if element == ElementType::I32 { "<i4" } else { "<f4" };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {coordinates}), }}");
    let length = HEADER - MAGIC.len() - 2;
    let mut bytes = [MAGIC, &(length as u16).to_le_bytes(), text.as_bytes()].concat();
    bytes.resize(HEADER - 1, b' ');
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let mut sink = Sink::create(Some(&path), 2, ElementType::F32).unwrap();
        sink.write(&[1.0f32, -2.0]).unwrap();
        assert!(sink.write(&[1.0f32]).is_err() && !path.exists());
        let (sha256, rows) = sink.finish().unwrap();
        let bytes = fs::read(&path).unwrap();
        let values = [1.0f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat();
        assert_eq!((rows, &bytes[HEADER..]), (1, &values[..]));
        assert_eq!(sha256, hex::encode(Sha256::digest(&values)));
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4'") && bytes[HEADER - 1] == b'\n');
        let of_integers = header(ElementType::I32, u64::MAX, u64::MAX);
        assert!(
            of_integers.len() == HEADER
                && of_integers.starts_with(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<i4'")
        );
        assert!(!partial(&path).exists());
    }
}

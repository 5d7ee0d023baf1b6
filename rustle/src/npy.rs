//! `.npy` files of little-endian float32 or int32 with the shape (rows, coordinates), in row-major order.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use crate::out_file::{self, Access, OutFile};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Bytes to a multiple of which a header is padded.
const ALIGNMENT: usize = 64;

/// A number of a file, four bytes long.
pub trait Number: Copy + Default + PartialEq + Send + Sync {
    /// The type's name in a header.
    const DESCR: &str;

    /// Returns the bits as of an unsigned number.
    fn to_word(self) -> u32;

    /// Returns the number with these bits.
    fn from_word(word: u32) -> Self;

    /// Returns the number as JSON.
    fn to_json(self) -> serde_json::Value;
}

impl Number for f32 {
    const DESCR: &str = "<f4";

    fn to_word(self) -> u32 {
        self.to_bits()
    }

    fn from_word(word: u32) -> Self {
        Self::from_bits(word)
    }

    fn to_json(self) -> serde_json::Value {
        self.into()
    }
}

impl Number for i32 {
    const DESCR: &str = "<i4";

    fn to_word(self) -> u32 {
        self.cast_unsigned()
    }

    fn from_word(word: u32) -> Self {
        word.cast_signed()
    }

    fn to_json(self) -> serde_json::Value {
        self.into()
    }
}

/// Writes rows to a file that appears with [`NpyWriter::finish`], or through a device, a pipe or standard output. Only the
/// owner can access a file: noise is as secret as what it hides.
#[derive(Debug)]
pub struct NpyWriter<T = f32> {
    shown: String,
    file: BufWriter<OutFile>,
    hash: Sha256,
    left: u64,
    numbers: PhantomData<T>,
}

impl<T: Number> NpyWriter<T> {
    /// Opens the target and reserves its room. Errors: the target can't be written, the disk is too full.
    pub fn create(path: &Path, rows: u64, coordinates: u64) -> anyhow::Result<Self> {
        let left = rows.checked_mul(coordinates).context("more numbers than a file can hold")?;
        let header = header(T::DESCR, rows, coordinates);
        let bytes = left.checked_mul(4).and_then(|bytes| bytes.checked_add(header.len() as u64));
        out_file::refuse_ending(path, "an array of NumPy", &["npy"])?;
        let target = OutFile::open(path, Access::Owner)?;
        target.reserve(bytes.context("more numbers than a file can hold")?)?;
        let shown = format!("write {}", path.display());
        let mut file = BufWriter::with_capacity(1 << 20, target);
        file.write_all(&header).with_context(|| shown.clone())?;
        Ok(Self { shown, file, hash: Sha256::new(), left, numbers: PhantomData })
    }

    /// Appends numbers. Errors: more of them than the shape holds, or a full disk.
    pub fn write(&mut self, values: &[T]) -> anyhow::Result<()> {
        self.left =
            self.left.checked_sub(values.len() as u64).context("more numbers than the shape holds")?;
        let mut bytes = [0; 1 << 14];
        for part in values.chunks(bytes.len() / 4) {
            let (words, _) = bytes.as_chunks_mut::<4>();
            words.iter_mut().zip(part).for_each(|(word, value)| *word = value.to_word().to_le_bytes());
            let bytes = &bytes[..part.len() * 4];
            self.hash.update(bytes);
            self.file.write_all(bytes).with_context(|| self.shown.clone())?;
        }
        Ok(())
    }

    /// Moves the complete file to its target and returns the SHA-256 of its numbers without the header.
    pub fn finish(self) -> anyhow::Result<[u8; 32]> {
        ensure!(self.left == 0, "{}: {} numbers are missing", self.shown, self.left);
        let file = self.file.into_inner().map_err(|error| error.into_error()).with_context(|| self.shown)?;
        file.finish()?;
        Ok(self.hash.finalize().into())
    }
}

fn header(descr: &str, rows: u64, coordinates: u64) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {coordinates}), }}");
    let mut text = text.into_bytes();
    let prefix = MAGIC.len() + 4;
    let length = (prefix + text.len() + 1).next_multiple_of(ALIGNMENT) - prefix;
    text.resize(length - 1, b' ');
    text.push(b'\n');
    // Two 20-digit numbers leave the text far below the 65,535 bytes that version 1.0 can name.
    let named = (length as u16).to_le_bytes();
    [MAGIC, &[1, 0], &named, &text].concat()
}

/// Reads an `.npy` file with one or two axes.
#[derive(Debug)]
pub struct NpyReader<T = f32> {
    file: BufReader<File>,
    data_start: u64,
    pub rows: u64,
    pub coordinates: u64,
    numbers: PhantomData<T>,
}

impl<T: Number> NpyReader<T> {
    /// Opens a file. Errors: no such file; not an .npy file of T in C order with one or two axes; a length that
    /// differs from the shape's.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        Self::open_inner(path).with_context(|| format!("read {}", path.display()))
    }

    fn open_inner(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut prefix = [0; 8];
        file.read_exact(&mut prefix).context("not an .npy file")?;
        ensure!(prefix.starts_with(MAGIC), "not an .npy file");
        let (length, skipped) = match prefix[6] {
            1 => (u64::from(u16::from_le_bytes(read_array(&mut file)?)), 10),
            2 | 3 => (u64::from(u32::from_le_bytes(read_array(&mut file)?)), 12),
            version => bail!("the version of the .npy format is {version}; allowed: 1 to 3"),
        };
        ensure!(length <= 1 << 16, "the header has {length} bytes; allowed: at most 65536");
        let mut text = vec![0; length as usize];
        file.read_exact(&mut text).context("the header is cut short")?;
        let (rows, coordinates) = shape(T::DESCR, &String::from_utf8_lossy(&text))?;
        let data_start = skipped + length;
        let expected = rows.checked_mul(coordinates).and_then(|count| count.checked_mul(4));
        ensure!(
            expected == Some(size - data_start),
            "{} bytes of numbers; allowed: the length of the shape ({rows}, {coordinates})",
            size - data_start
        );
        Ok(Self { file, data_start, rows, coordinates, numbers: PhantomData })
    }

    /// Seeks the start of a row, counted from 0 in this file.
    pub fn seek_row(&mut self, row: u64) -> anyhow::Result<()> {
        self.file.seek(SeekFrom::Start(self.data_start + row * self.coordinates * 4))?;
        Ok(())
    }

    /// Reads the next numbers.
    pub fn read(&mut self, values: &mut [T]) -> anyhow::Result<()> {
        for value in values {
            *value = T::from_word(u32::from_le_bytes(read_array(&mut self.file)?));
        }
        Ok(())
    }
}

fn read_array<const N: usize>(file: &mut impl Read) -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes).context("the file is cut short")?;
    Ok(bytes)
}

/// Returns (rows, coordinates) of a header as NumPy writes it. One axis is one row.
fn shape(descr: &str, header: &str) -> anyhow::Result<(u64, u64)> {
    let compact: String = header.chars().filter(|c| !c.is_whitespace()).collect();
    ensure!(
        compact.contains(&format!("'descr':'{descr}'")),
        "the numbers are of another type; allowed: {descr}, the type of the plan's rows; the header is {}",
        header.trim()
    );
    ensure!(
        compact.contains("'fortran_order':False"),
        "the numbers are not in C order; the header is {}",
        header.trim()
    );
    let after = compact.split_once("'shape':(").map(|(_, after)| after);
    let inside = after.and_then(|after| after.split_once(')')).map(|(inside, _)| inside);
    let axes = inside.context("the header has no shape")?.split(',').filter(|axis| !axis.is_empty());
    let axes: Vec<u64> =
        axes.map(str::parse).collect::<Result<_, _>>().context("the shape is not made of numbers")?;
    match axes[..] {
        [coordinates] => Ok((1, coordinates)),
        [rows, coordinates] => Ok((rows, coordinates)),
        _ => bail!("the shape has {} axes; allowed: (rows, coordinates)", axes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let mut writer = NpyWriter::create(&path, 2, 3).unwrap();
        writer.write(&[1.0, -0.0, 3.5]).unwrap();
        assert!(!path.exists(), "nothing half written");
        writer.write(&[4.0, 5.0, f32::NAN]).unwrap();
        assert!(writer.write(&[7.0]).is_err());
        // The test continues with a new writer.
        let mut writer = NpyWriter::create(&path, 2, 3).unwrap();
        writer.write(&[1.0, -0.0, 3.5, 4.0, 5.0, 6.0]).unwrap();
        writer.finish().unwrap();
        let mut reader = NpyReader::open(&path).unwrap();
        assert_eq!((reader.rows, reader.coordinates, reader.data_start % 64), (2, 3, 0));
        reader.seek_row(1).unwrap();
        let mut row = [0.0; 3];
        reader.read(&mut row).unwrap();
        assert_eq!(row, [4.0, 5.0, 6.0]);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = NpyWriter::create(&folder.path().join("x.npy"), 2, 3).unwrap();
        writer.write(&[1.0]).unwrap();
        assert!(writer.finish().unwrap_err().to_string().contains("5 numbers are missing"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn shapes_as_numpy_writes_them() {
        let with =
            |rest: &str| shape("<f4", &format!("{{'descr': '<f4', 'fortran_order': False, {rest}, }}"));
        assert_eq!(with("'shape': (3,)").unwrap(), (1, 3));
        assert_eq!(with("'shape': (2, 3)").unwrap(), (2, 3));
        assert!(with("'shape': (1, 2, 3)").is_err());
        assert!(with("'shape': ()").is_err());
        assert!(shape("<f4", "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }").is_err());
        assert!(shape("<f4", "{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }").is_err());
    }
}

//! Opening a ledger: lock, check, then open.
//!
//! redb repairs while it opens and while it checks, and a repair may drop the newest commit. On a damaged file that
//! would lose bindings, and a second start would find a clean, shorter ledger. So the check runs in front of the file,
//! under the lock, with what it changes in memory; the file itself is opened only when it was whole.

use std::{
    fmt::Display,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::FileExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process,
};

use durable_io::{
    crash_point, create_private_file, create_private_folder, folder_of, make_private, sync_folder,
};
use proto::Nonce;
use redb::{Builder, Database, StorageBackend, backends::InMemoryBackend};

use crate::{LedgerError, chain::verify, copies::anchor_of_earlier, tables};

use super::{Store, backend::FileBackend, begin_durable, overlay::Overlay, panic_text};

/// Memory for cached pages, read and written. redb's default is 1 GiB, which a coordinator would fill after a few
/// million rows.
const CACHE_BYTES: usize = 64 << 20;

/// The bytes of one read, while a ledger is copied.
const PIECE_BYTES: usize = 1 << 20;

/// Returns the settings of every database that holds a ledger.
pub fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Opens the file at `path`, as [`crate::Ledger::open`] describes.
pub fn open(path: &Path) -> Result<Store, LedgerError> {
    let io_error = |doing: &str, error: io::Error| LedgerError::Io {
        path: path.to_owned(),
        reason: format!("{doing}: {error}"),
    };
    if !path.try_exists().map_err(|error| io_error("looking for it", error))? {
        return Err(LedgerError::Missing { path: path.to_owned() });
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| io_error("opening it", error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LedgerError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => return Err(io_error("locking it", error)),
    }
    make_private(path).map_err(|error| io_error("setting its mode to 0600", error))?;
    // The process that created it may have ended before the name was durable.
    sync_folder(folder_of(path)).map_err(|error| io_error("syncing its folder", error))?;
    let length = file.metadata().map_err(|error| io_error("reading its length", error))?.len();
    let behind = file.try_clone().map_err(|error| io_error("reading it", error))?;
    let checked = check_copy(Overlay::new(length, move |at, piece| behind.read_exact_at(piece, at)), path);
    if checked.is_err() {
        // A store that failed its check may not be closed, and then has the file open for ever.
        let _ = file.unlock();
    }
    checked?;
    let db = open_checked(file, path)?;
    Ok(Store::new(db, FileBackend, path.to_owned()))
}

/// Begins a ledger, as [`crate::Ledger::init`] describes.
pub fn init(path: &Path, id: Nonce) -> Result<(), LedgerError> {
    let io_error = |doing: &str, error: io::Error| LedgerError::Io {
        path: path.to_owned(),
        reason: format!("{doing}: {error}"),
    };
    let earlier = anchor_of_earlier(path).map_err(|error| io_error("looking for anchors", error))?;
    // Looked for last: another process that begins it at the same time writes its anchor after it.
    let exists = path.try_exists().map_err(|error| io_error("looking for it", error))?;
    if let Some(trace) = earlier.filter(|_| !exists) {
        return Err(LedgerError::Lost { path: path.to_owned(), trace });
    }
    create(path, id).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists if path.exists() => LedgerError::Begun { path: path.to_owned() },
        _ => io_error("beginning it", error),
    })
}

/// Creates a ledger. It appears under its name only when it is complete, so that an empty file is never taken for a new
/// ledger.
fn create(path: &Path, id: Nonce) -> io::Result<()> {
    let folder = folder_of(path);
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
    create_private_folder(folder)?;
    name.push(format!(".new-{}", process::id()));
    let draft = folder.join(name);
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = create_private_file(&draft)?;
    crash_point("ledger::create::begin");
    let created = builder().create_file(file).map_err(redb::Error::from);
    let created = created.and_then(|db| create_tables(&db, id)).map_err(io::Error::other);
    crash_point("ledger::create::before_link");
    // A link, not a rename: it fails where another process was faster, and never replaces a ledger.
    let linked = created.and_then(|()| fs::hard_link(&draft, path));
    crash_point("ledger::create::after_link");
    fs::remove_file(&draft)?;
    linked?;
    sync_folder(folder)
}

/// Creates the tables of a new ledger.
pub fn create_tables(db: &Database, id: Nonce) -> Result<(), redb::Error> {
    let transaction = begin_durable(db)?;
    {
        tables::create_all(&transaction)?;
        transaction.open_table(tables::META)?.insert(tables::META_FORMAT, tables::FORMAT)?;
        transaction.open_table(tables::IDENTITY)?.insert(tables::LEDGER_ID, *id.as_bytes())?;
    }
    Ok(transaction.commit()?)
}

/// Gives the file's free space back, of a ledger that is checked first as [`open`] checks it.
pub fn compact(path: &Path) -> Result<(), LedgerError> {
    open(path)?.compact()
}

/// Opens a ledger on a store that is not a file; errors call it `path`. An empty store becomes a new ledger with the id
/// `new`: where that stops half way, the store must be emptied again, as the draft of a file is.
pub fn open_on(disk: impl StorageBackend, path: &Path, new: Nonce) -> Result<Store, LedgerError> {
    let failed = |error: &dyn Display| LedgerError::Io { path: path.to_owned(), reason: error.to_string() };
    let length = disk.len().map_err(|error| failed(&error))?;
    let is_new = length == 0;
    if !is_new {
        let copy = copied(length, |at, piece| disk.read(at, piece));
        check_copy(copy.map_err(|error| failed(&error))?, path)?;
    }
    let db = caught(|| builder().create_with_backend(disk)).map_err(|reason| failed(&reason))?;
    if is_new {
        create_tables(&db, new).map_err(|error| failed(&error))?;
    }
    Ok(Store::new(db, FileBackend, path.to_owned()))
}

/// Copies a ledger of `length` bytes to memory.
pub fn copied(length: u64, read: impl Fn(u64, &mut [u8]) -> io::Result<()>) -> io::Result<InMemoryBackend> {
    let copy = InMemoryBackend::new();
    copy.set_len(length)?;
    let mut piece = vec![0; PIECE_BYTES];
    for start in (0..length).step_by(PIECE_BYTES) {
        let piece = &mut piece[..PIECE_BYTES.min((length - start) as usize)];
        read(start, piece)?;
        copy.write(start, piece)?;
    }
    Ok(copy)
}

/// Opens the file at `path` for reading, and checks the store's checksums and format: nothing is written to it.
pub fn read(path: &Path) -> Result<Database, LedgerError> {
    let io_error = |doing: &str, error: io::Error| LedgerError::Io {
        path: path.to_owned(),
        reason: format!("{doing}: {error}"),
    };
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LedgerError::Missing { path: path.to_owned() },
        _ => io_error("opening it", error),
    })?;
    // Its owner writes while it has the file open.
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LedgerError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => return Err(io_error("locking it", error)),
    }
    let length = file.metadata().map_err(|error| io_error("reading its length", error))?.len();
    let lock = file.try_clone().map_err(|error| io_error("reading it", error))?;
    // The store keeps the file, and so the lock.
    let sound = sound_copy(Overlay::new(length, move |at, piece| file.read_exact_at(piece, at)), path);
    if sound.is_err() {
        let _ = lock.unlock();
    }
    sound
}

/// Checks the checksums and format of a copy, which it may repair, then every chain and the records against it.
pub fn check_copy(copy: impl StorageBackend, path: &Path) -> Result<(), LedgerError> {
    let db = sound_copy(copy, path)?;
    without_panic(db, path, |db| verify::verify(db, path)).map(drop)
}

/// Opens a copy whose checksums and format are right.
fn sound_copy(copy: impl StorageBackend, path: &Path) -> Result<Database, LedgerError> {
    let damaged = |reason: String| LedgerError::Damaged { path: path.to_owned(), reason };
    if copy.len().map_err(|error| damaged(error.to_string()))? == 0 {
        return Err(damaged("the file is empty".to_owned()));
    }
    let mut db = caught(|| builder().create_with_backend(copy)).map_err(damaged)?;
    match caught(|| db.check_integrity()) {
        Ok(true) => {}
        Ok(false) => return Err(damaged("its checksums or its free space are wrong".to_owned())),
        Err(reason) => {
            // Closing a store that has just failed its check may panic again, and then nothing could report it.
            std::mem::forget(db);
            return Err(damaged(reason));
        }
    }
    without_panic(db, path, |db| verify::check_format(db, path))
}

/// Runs a check of a copy, and returns the copy. A panic of the store is damage like any other.
fn without_panic(
    db: Database,
    path: &Path,
    check: impl FnOnce(&Database) -> Result<(), LedgerError>,
) -> Result<Database, LedgerError> {
    match catch_unwind(AssertUnwindSafe(|| check(&db))) {
        Ok(checked) => checked.map(|()| db),
        Err(panic) => {
            // Closing a store that has just failed may panic again.
            std::mem::forget(db);
            Err(LedgerError::Damaged { path: path.to_owned(), reason: panic_text(&*panic) })
        }
    }
}

fn open_checked(file: File, path: &Path) -> Result<Database, LedgerError> {
    let opened = catch_unwind(AssertUnwindSafe(|| builder().create_file(file)));
    match opened {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(redb::DatabaseError::DatabaseAlreadyOpen)) => {
            Err(LedgerError::Locked { path: path.to_owned() })
        }
        Ok(Err(error)) => Err(LedgerError::Io { path: path.to_owned(), reason: error.to_string() }),
        Err(panic) => Err(LedgerError::Damaged { path: path.to_owned(), reason: panic_text(&*panic) }),
    }
}

/// Turns a panic inside the store into an error like any other.
fn caught<T>(run: impl FnOnce() -> Result<T, redb::DatabaseError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("the store panicked: {}", panic_text(&*panic))),
    }
}

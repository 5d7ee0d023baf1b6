use std::fs::{self, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;

use super::*;

const KEY: [u8; KEY_BYTES] = *b"QWERTYUIOPASDFGHJKLZXCVBNMQWERTY";
const LIMIT: Duration = Duration::from_secs(20);

fn key_file(folder: &tempfile::TempDir, contents: &[u8], mode: u32) -> PathBuf {
    let path = folder.path().join("key");
    fs::write(&path, contents).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_private_file_of_32_bytes_is_a_key() {
    for mode in [0o400, 0o600] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_key_file(&key_file(&folder, &KEY, mode)).unwrap().expose_secret(), &KEY);
    }
}

#[test]
fn a_file_that_others_can_read_is_refused_with_its_mode() {
    for mode in [0o640, 0o604, 0o620, 0o644, 0o700] {
        let folder = tempfile::tempdir().unwrap();
        let error = read_key_file(&key_file(&folder, &KEY, mode)).unwrap_err().to_string();
        assert!(error.contains(&format!("{mode:04o}")) && error.contains("0400 or 0600"), "{error}");
    }
}

/// Each test is a process of its own.
#[test]
fn a_group_may_read_where_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = key_file(&folder, &KEY, 0o440);
    assert!(matches!(read_key_file(&path), Err(KeyError::Mode { mode: 0o440, .. })));
    allow_group_readable();
    assert_eq!(read_key_file(&path).unwrap().expose_secret(), &KEY);
    for mode in [0o444, 0o460, 0o640, 0o640] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(matches!(read_key_file(&path), Err(KeyError::Mode { .. })), "{mode:o}");
    }
    // Only root can give a file to a group that it is not in.
    fs::set_permissions(&path, Permissions::from_mode(0o440)).unwrap();
    if std::os::unix::fs::chown(&path, None, Some(54_321)).is_ok() {
        assert!(matches!(read_key_file(&path), Err(KeyError::Mode { .. })));
    }
}

#[test]
fn a_wrong_length_is_reported_and_the_bytes_are_not() {
    for length in [0, 31, 33, 64] {
        let folder = tempfile::tempdir().unwrap();
        let error = read_key_file(&key_file(&folder, &vec![b'Q'; length], 0o600)).unwrap_err();
        assert!(error.to_string().contains(&format!("{length} bytes")), "{error}");
        assert!(!format!("{error} {error:?}").contains("QQ"), "{error:?}");
    }
}

#[test]
fn folders_and_missing_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read_key_file(folder.path()), Err(KeyError::NotAFile { .. })));
    let error = read_key_file(&folder.path().join("none")).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
}

#[test]
fn a_credential_is_found_by_its_name_alone() {
    let folder = tempfile::tempdir().unwrap();
    key_file(&folder, &KEY, 0o440);
    let read = |name| read_credential_in(Some(folder.path()), name);
    assert_eq!(read("key").unwrap().expose_secret(), &KEY);
    for bad in ["", ".", "..", "../key", "/key", "a/key"] {
        assert!(matches!(read(bad), Err(KeyError::Credential { .. })), "{bad}");
    }
    assert!(matches!(read("none"), Err(KeyError::Read { .. })));
    assert!(matches!(read_credential_in(None, "key"), Err(KeyError::Credential { .. })));
}

#[test]
fn what_was_not_drawn_at_random_is_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut eleven = [0; KEY_BYTES];
    eleven.iter_mut().zip(0..11).for_each(|(byte, value)| *byte = value);
    let mut twelve = eleven;
    twelve[31] = 200;
    for weak in [[0; KEY_BYTES], [7; KEY_BYTES], *b"01230123012301230123012301230123", eleven] {
        let error = read_key_file(&key_file(&folder, &weak, 0o600)).unwrap_err();
        assert!(matches!(error, KeyError::Weak { .. }), "{error}");
        assert!(error.to_string().contains("rustle key new"), "{error}");
    }
    assert!(read_key_file(&key_file(&folder, &twelve, 0o600)).is_ok());
}

#[test]
#[cfg(target_os = "linux")]
fn a_pipe_can_hand_over_a_key() {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(&KEY).unwrap();
    drop(writer);
    let key = read_key_descriptor(reader.as_raw_fd().try_into().unwrap()).unwrap();
    assert_eq!(key.expose_secret(), &KEY);
}

#[test]
fn outputs_and_closed_descriptors_are_refused() {
    assert!(matches!(read_key_descriptor(1), Err(KeyError::OutputDescriptor { descriptor: 1 })));
    assert!(matches!(read_key_descriptor(900_000), Err(KeyError::Read { .. })));
}

#[tokio::test]
async fn a_command_can_print_a_key() {
    let key = read_key_command("printf QWERTYUIOPASDFGH; printf %s JKLZXCVBNMQWERTY", LIMIT);
    assert_eq!(key.await.unwrap().expose_secret(), &KEY);
}

#[tokio::test]
async fn a_command_that_fails_stalls_or_prints_too_much_gives_no_key() {
    let failed =
        read_key_command("printf QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ; exit 3", LIMIT).await.unwrap_err();
    assert!(matches!(failed, KeyError::CommandFailed { .. }) && failed.to_string().contains('3'), "{failed}");
    let stalled = read_key_command("exec sleep 60", Duration::from_millis(50)).await;
    assert!(matches!(stalled, Err(KeyError::CommandTimeout { .. })));
    let endless = read_key_command("exec cat /dev/zero", LIMIT).await;
    assert!(matches!(endless, Err(KeyError::CommandFailed { .. } | KeyError::Length { .. })));
}

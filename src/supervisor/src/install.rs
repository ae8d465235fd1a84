//! `install PATH`: puts a copy of this program where the app's container can run it.

use crate::error::Error;
use crate::preload;
use crate::sys::process::effective_uid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const OWN_FILE: &str = "/proc/self/exe";

/// Copies this program to `path`: at once or not at all, so that nobody ever runs half a file.
pub(crate) fn install(path: &Path) -> Result<(), Error> {
    let own = File::open(OWN_FILE).map_err(Error::OwnFile)?;
    // The program last: whoever finds it finds the other file too.
    put(preload::TEXT.as_bytes(), &preload::beside(path), 0o644)?;
    put(own, path, 0o755)
}

fn put(content: impl Read, path: &Path, mode: u32) -> Result<(), Error> {
    let temporary = temporary_name(path);
    let result = write(content, &temporary, mode).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // It may never have come into being; the cause of the failure is what counts.
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(|source| Error::Install { path: path.to_owned(), uid: effective_uid(), source })
}

/// In the same directory, so that the rename cannot cross file systems.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write(mut content: impl Read, to: &Path, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(to)?;
    io::copy(&mut content, &mut file)?;
    // The umask may have taken rights away that the app's user needs.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

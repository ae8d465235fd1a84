//! The few lines that are loaded into Node, so that a worker that is to stop ends its connections in an orderly way.
//!
//! `install` puts them beside the binary, so that nothing has to be written where the app runs; a file system there
//! may be read-only. Where they are not found they are written to the first directory for temporary files that allows it.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::launch::{Rule, Variable};

/// What is loaded.
pub(crate) const TEXT: &str = include_str!("preload/node.cjs");
/// When a keep-alive connection ends, at an answer; never by default. Clients then open another one, which may come to a pod that
/// was added meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// `--connection-requests`.
    pub requests: Option<u64>,
    /// `--connection-age`.
    pub age: Option<Duration>,
}

impl Limits {
    /// The variables that tell them to what is loaded.
    pub(crate) fn variables(&self) -> impl Iterator<Item = Variable> {
        let requests = self.requests.map(|most| ("WORKERAPP_CONNECTION_REQUESTS", most.to_string()));
        let age = self.age.map(|age| ("WORKERAPP_CONNECTION_MS", age.as_millis().to_string()));
        [requests, age].into_iter().flatten().map(|(name, value)| Variable {
            name: name.into(),
            value,
            rule: Rule::Replace,
        })
    }
}

/// Added to the name of the binary.
const SUFFIX: &str = ".node.cjs";

/// Where `install` puts the file for a binary at this path.
pub(crate) fn beside(binary: &Path) -> PathBuf {
    let mut name = binary.file_name().unwrap_or_default().to_owned();
    name.push(SUFFIX);
    binary.with_file_name(name)
}

/// A file with [`TEXT`], written if need be.
pub(crate) fn locate() -> io::Result<PathBuf> {
    let installed = std::env::current_exe().map(|binary| beside(&binary));
    if let Some(path) = installed.ok().filter(|path| fs::read(path).is_ok_and(|text| text == TEXT.as_bytes()))
    {
        return Ok(path);
    }
    let temporary = std::env::temp_dir();
    let mut result = Err(io::ErrorKind::NotFound.into());
    for directory in [&*temporary, Path::new("/dev/shm"), Path::new("/tmp"), Path::new("/run")] {
        result = write_below(directory);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn write_below(directory: &Path) -> io::Result<PathBuf> {
    // A directory of our own that did not exist before: in one that others may write to, a name can be a trap.
    let directory = directory.join(format!("workerapp-{}-{:x}", std::process::id(), stamp()));
    DirBuilder::new().mode(0o755).create(&directory)?;
    let path = directory.join(format!("supervisor{SUFFIX}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
    file.write_all(TEXT.as_bytes())?;
    Ok(path)
}

fn stamp() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos()
}

/// Removes what [`locate`] has written.
pub(crate) fn remove(path: &Path) {
    if let Some(directory) = path.parent().filter(|dir| dir.file_name().is_some_and(is_ours)) {
        // If it stays, it stays in a container that ends.
        let _ = fs::remove_dir_all(directory);
    }
}

fn is_ours(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(&format!("workerapp-{}-", std::process::id())))
}

/// The option that is to be added to `NODE_OPTIONS`. `None`: better not.
pub(crate) fn node_option(
    path: &Path,
    own: Option<&OsStr>,
    command: &[std::ffi::OsString],
) -> Option<String> {
    let own = own.map_or(Some(""), OsStr::to_str)?;
    let path = path.to_str()?;
    // Under Node's permission model our file may not be readable, and then the app would not start.
    let mut words = command.iter().filter_map(|word| word.to_str()).chain(own.split_ascii_whitespace());
    if words.any(|word| word.starts_with("--permission") || word.starts_with("--experimental-permission")) {
        return None;
    }
    // Node understands quotes, but frameworks that take the variable apart (Next.js) may not.
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if is_plain {
        return Some(format!("--require={path}"));
    }
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"");
    Some(format!("--require=\"{escaped}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option() {
        let path = Path::new("/a b/x.cjs");
        let options = |own: Option<&str>, command: &[&str]| {
            let command: Vec<_> = command.iter().map(Into::into).collect();
            node_option(path, own.map(OsStr::new), &command)
        };
        assert_eq!(options(None, &["node", "x"]).as_deref(), Some("--require=\"/a b/x.cjs\""));

        let plain = node_option(Path::new("/workerapp/x.cjs"), None, &[]);
        assert_eq!(plain.as_deref(), Some("--require=/workerapp/x.cjs"));
        assert_eq!(options(None, &["node", "--permission", "x"]), None);
        assert_eq!(options(Some("--experimental-permission"), &["npm", "start"]), None);
    }

    #[test]
    fn a_written_file_is_removed_again() {
        let path = write_below(&std::env::temp_dir()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);
        remove(&path);
        assert!(!path.exists());
    }
}

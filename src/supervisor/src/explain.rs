//! Why a command could not be run, in words that lead to the remedy.

use crate::launch::Launch;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A command that could not be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CannotRun {
    /// What a shell would exit with: 127 not found, 126 not executable.
    pub(crate) code: i32,
    /// Trying again will not help.
    pub(crate) permanent: bool,
    pub(crate) why: String,
}

/// Looks for the cause of a failed start.
pub(crate) fn explain(launch: &Launch, error: &io::Error) -> CannotRun {
    let name = launch.program.display();
    let file = find(launch);
    match error.raw_os_error() {
        Some(libc::ENOENT) => CannotRun {
            code: 127,
            permanent: true,
            why: match &file {
                Some(path) => match interpreter(path) {
                    Some(program) => {
                        format!("{} is a script for {program}, which does not exist here", path.display())
                    }
                    None => {
                        format!("{} was built for another libc, which does not exist here", path.display())
                    }
                },
                None if is_path(&launch.program) => {
                    format!("{name}: no such file{}; check the command", place(&launch.program))
                }
                None => format!(
                    "{name}: not found in PATH ({}); check the command",
                    variable(launch, "PATH").unwrap_or(OsStr::new("not set")).display()
                ),
            },
        },
        Some(libc::EACCES) => CannotRun {
            code: 126,
            permanent: true,
            why: match file.as_ref().and_then(|path| Some((path, fs::metadata(path).ok()?))) {
                Some((path, about)) if about.is_dir() => format!("{} is a directory", path.display()),
                Some((path, about)) if about.permissions().mode() & 0o111 == 0 => format!(
                    "{} is not executable (mode {:04o}); make it so (chmod +x), or start it through its interpreter",
                    path.display(),
                    about.permissions().mode() & 0o7777
                ),
                _ => {
                    format!("{name} may not be run by this user, or lies on a volume that is mounted noexec")
                }
            },
        },
        Some(libc::ENOEXEC) => CannotRun {
            code: 126,
            permanent: true,
            why: format!("{name} is no program for this machine; was it built for another CPU architecture?"),
        },
        Some(libc::EAGAIN) => CannotRun {
            code: 126,
            permanent: false,
            why: format!("{name}: no further process may be started (the limit of the pod or of the user)"),
        },
        _ => CannotRun { code: 126, permanent: false, why: format!("{name}: {error}") },
    }
}

fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Where a relative path was looked for: a container's working directory, or a person's, is often another than they think.
fn place(program: &OsStr) -> String {
    match std::env::current_dir() {
        Ok(directory) if Path::new(program).is_relative() => format!(" in {}", directory.display()),
        _ => String::new(),
    }
}

fn variable<'a>(launch: &'a Launch, name: &str) -> Option<&'a OsStr> {
    launch.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}

/// The file that the program's name means.
fn find(launch: &Launch) -> Option<PathBuf> {
    if is_path(&launch.program) {
        return Some(PathBuf::from(&launch.program)).filter(|path| path.exists());
    }
    let path = variable(launch, "PATH")?;
    std::env::split_paths(path).map(|directory| directory.join(&launch.program)).find(|path| path.exists())
}

/// The interpreter in a script's first line.
fn interpreter(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    // A line feed alone ends the line: a script from Windows names an interpreter that ends with a carriage return.
    let line = String::from_utf8_lossy(line).trim_matches([' ', '\t']).to_owned();
    let program = line.split([' ', '\t']).next()?;
    Some(program.escape_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(program: &str) -> Launch {
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        Launch { program: program.into(), arguments: Vec::new(), environment }
    }

    fn why(program: &str, errno: i32) -> (i32, String) {
        let explained = explain(&launch(program), &io::Error::from_raw_os_error(errno));
        (explained.code, explained.why)
    }

    #[test]
    fn causes() {
        let directory = std::env::temp_dir().join(format!("explain-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let script = directory.join("start.sh");
        fs::write(&script, "#!/nowhere/bash\r\necho\n").unwrap();
        let script = script.to_str().unwrap();
        let here = std::env::current_dir().unwrap();
        for (program, errno, code, part) in [
            ("nodee", libc::ENOENT, 127, "nodee: not found in PATH (/usr/bin:/bin)"),
            ("/nowhere/node", libc::ENOENT, 127, "/nowhere/node: no such file; check the command"),
            (
                "./nowhere/node",
                libc::ENOENT,
                127,
                &format!("./nowhere/node: no such file in {}; check", here.display()),
            ),
            (script, libc::ENOENT, 127, "is a script for /nowhere/bash\\r, which does not exist"),
            ("/", libc::EACCES, 126, "/ is a directory"),
            (script, libc::EACCES, 126, "is not executable (mode 06"),
            (script, libc::ENOEXEC, 126, "another CPU architecture"),
        ] {
            let (found, text) = why(program, errno);
            assert!(found == code && text.contains(part), "{program} {errno}: {found} {text}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}

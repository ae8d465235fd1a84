//! What the Tab key offers, in a shell and through kubectl's script; and what krew installs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may, like the tests")]

mod common;

use common::{Folder, said, text};
use serde_json::Value;
use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

fn krew(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../krew").join(file)
}

/// A folder for the PATH with the program in it, as an installation has it.
fn installed(name: &str) -> Folder {
    let folder = Folder::new(name);
    symlink(env!("CARGO_BIN_EXE_kubectl-workerapp"), folder.0.join("kubectl-workerapp")).unwrap();
    folder
}

fn run(command: &mut Command, folder: &Folder) -> String {
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
    let output =
        command.env("PATH", path).env("HOME", "/nonexistent").env_remove("KUBECONFIG").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn bash_completes_commands_and_flags_by_the_script() {
    let folder = installed("bash");
    let script = folder.file("script", &text(&said(&["completion", "bash"]).stdout));
    for (words, wanted) in
        [("re", "render restart resume"), ("bench --sea", "--search --search-from --search-most")]
    {
        let typed = format!(
            "source {script}; COMP_WORDS=(kubectl-workerapp {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             $(complete -p kubectl-workerapp | sed 's/.*-F \\([^ ]*\\).*/\\1/') kubectl-workerapp \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             echo ${{COMPREPLY[@]}}"
        );
        assert_eq!(run(Command::new("bash").args(["-c", &typed]), &folder).trim(), wanted, "{words}");
    }
}

#[test]
fn the_script_that_kubectl_asks_answers_as_kubectl_wants_it() {
    let folder = installed("script");
    let script = krew("kubectl_complete-workerapp");
    assert!(script.metadata().unwrap().permissions().mode() & 0o111 == 0o111, "it is not executable");
    assert_eq!(run(Command::new(&script).args(["re"]), &folder), "render\nrestart\nresume\n:4\n");
    assert_eq!(run(Command::new(&script).args(["plan", ""]), &folder), ":0\n");
}

#[test]
fn the_krew_manifest_is_of_this_version_and_names_what_there_is() {
    let manifest = std::fs::read_to_string(krew("workerapp.yaml")).unwrap();
    let manifest: Value = serde_saphyr::from_str(&manifest).unwrap();
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let head = ["apiVersion", "kind"].map(|field| manifest[field].as_str().unwrap());
    assert_eq!(head, ["krew.googlecontainertools.github.com/v1alpha2", "Plugin"]);
    assert_eq!(manifest["metadata"]["name"], "workerapp");
    assert_eq!(manifest["spec"]["version"], version.as_str());
    let description = manifest["spec"]["description"].as_str().unwrap();
    let commands = description.lines().filter_map(|line| line.trim().strip_prefix("kubectl workerapp "));
    for command in commands {
        let first = command.split(' ').next().unwrap();
        assert!(said(&[first, "--help"]).status.success(), "{command}");
    }
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 2);
    for platform in platforms {
        let (uri, arch) = (platform["uri"].as_str().unwrap(), &platform["selector"]["matchLabels"]["arch"]);
        let archive = format!("/{version}/kubectl-workerapp_linux_{}.tar.gz", arch.as_str().unwrap());
        assert!(uri.starts_with("https://") && uri.ends_with(&archive), "{uri}");
        let sum = platform["sha256"].as_str().unwrap();
        assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{sum}");
        let files: Vec<_> =
            platform["files"].as_array().unwrap().iter().map(|file| file["from"].as_str().unwrap()).collect();
        assert!(files.contains(&platform["bin"].as_str().unwrap()), "{files:?}");
        for file in files {
            let program = ["kubectl-workerapp", "workerapp-supervisor"].contains(&file);
            let here = krew(file).exists() || krew("..").join(file).exists();
            assert!(program || here, "{file} is neither built nor in the checkout");
        }
    }
}

//! What keeps a container from running, in its own words, and what to do about it.

use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus},
    jiff::{SignedDuration, Timestamp},
};
use workerapp_api::{condition::Reason, names};

/// How much of a container's last words is passed on.
const TAIL: usize = 300;
/// The remedy where it doesn't suffice.
const MORE_MEMORY: &str = "raise spec.resources.limits.memory, or lower the number of workers";
/// How the supervisor's own lines begin.
const SUPERVISOR: &str = "[workerapp]";

/// The reason and the text for a container of `pod` that doesn't run; `None` if nothing is known to be wrong with it.
pub(super) fn trouble(pod: &str, container: &ContainerStatus) -> Option<(Reason, String)> {
    let state = container.state.as_ref()?;
    let waiting = state.waiting.as_ref();
    let words = waiting.and_then(|waiting| waiting.message.as_deref()).unwrap_or_default();
    let (name, image) = (&container.name, &container.image);
    match waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default() {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "RegistryUnavailable" => {
            let cause = pull_error(words).trim().trim_end_matches('.');
            let remedy = if is_app(container) {
                "check spec.image and spec.imagePullSecrets"
            } else {
                "this is the operator's own image, which must be in a registry that the nodes reach: check the operator's --supervisor-image and spec.imagePullSecrets"
            };
            let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
            Some((Reason::ImagePullBackOff, format!("image {image} can't be pulled{cause}; {remedy}")))
        }
        "InvalidImageName" => {
            Some((Reason::InvalidImageName, format!("{image:?} is no image name; correct spec.image")))
        }
        "CreateContainerConfigError" => Some((
            Reason::CreateContainerConfigError,
            format!(
                "container {name} can't be made: {words}; create it, or correct spec.env, spec.envFrom or spec.volumes"
            ),
        )),
        "CreateContainerError" => {
            Some((Reason::CreateContainerConfigError, format!("container {name} can't be made: {words}")))
        }
        "RunContainerError" => {
            Some((Reason::StartError, format!("container {name} can't be started: {words}")))
        }
        _ => ended(pod, container, state),
    }
}

/// A container that has ended and is not back: now, or the time before while its successor isn't ready.
fn ended(pod: &str, container: &ContainerStatus, state: &ContainerState) -> Option<(Reason, String)> {
    let now = state.terminated.as_ref();
    let before = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let end = now.or(before).filter(|end| !container.ready && (end.exit_code != 0 || is_app(container)))?;
    let name = &container.name;
    let code = end.exit_code;
    let words = last_words(end);
    Some(match end.reason.as_deref() {
        Some("OOMKilled") => (
            Reason::OOMKilled,
            format!(
                "container {name} was killed since it used more memory than its limit{words}; {MORE_MEMORY}"
            ),
        ),
        Some("StartError" | "ContainerCannotRun") => {
            (Reason::StartError, format!("container {name} can't be started{words}"))
        }
        _ => {
            let remedy = remedy(code);
            let message = format!(
                "container {name} ends with exit code {code} again and again{words}{remedy}; see `kubectl logs {pod} -c {name} --previous`"
            );
            (Reason::CrashLoopBackOff, message)
        }
    })
}

/// What to do about an end with this code, where the code alone tells it. Shells and the supervisor use these two for a program that
/// isn't there or can't be run; where that stands in the spec, only the operator knows.
fn remedy(code: i32) -> &'static str {
    match code {
        126 | 127 => "; correct spec.command, or the image",
        _ => "",
    }
}

/// A container that runs again after it was killed for its memory, which it had filled within `soon` of its start, and less than that
/// before `now`; not the first time.
pub(super) fn memory_loop(
    container: &ContainerStatus,
    soon: SignedDuration,
    now: Timestamp,
) -> Option<(Reason, String)> {
    let end = container.last_state.as_ref()?.terminated.as_ref()?;
    let (started, finished) = (end.started_at.as_ref()?.0, end.finished_at.as_ref()?.0);
    let looping = end.reason.as_deref() == Some("OOMKilled")
        && container.restart_count >= 2
        && finished.duration_since(started) < soon
        && now.duration_since(finished) < soon;
    let name = &container.name;
    looping.then(|| {
        let message = format!(
            "container {name} is killed again and again since it uses more memory than its limit, and serves only in between; {MORE_MEMORY}"
        );
        (Reason::OOMKilled, message)
    })
}

/// An init container that has ended with 0 has done its work.
fn is_app(container: &ContainerStatus) -> bool {
    container.name != names::CONTAINER_INSTALL
}

/// The end of what a container left behind as its termination message, or what it says from its last error on: the app's own
/// lines, which say more than the supervisor's about the same end, unless there are only those.
fn last_words(end: &ContainerStateTerminated) -> String {
    let text = end.message.as_deref().unwrap_or_default();
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut kept: Vec<_> = lines().filter(|line| !line.starts_with(SUPERVISOR)).collect();
    if kept.is_empty() {
        kept = lines().collect();
    }
    let cause = kept.iter().rposition(|line| names_an_error(line));
    let length = |lines: &[&str]| lines.iter().map(|line| line.chars().count() + 1).sum::<usize>();
    let whole = length(&kept);
    let tail = whole.saturating_sub(TAIL);
    // A stack trace may be longer than what is passed on, and its cause stands above it.
    let skip = cause.and_then(|at| kept.get(..at)).map_or(tail, |above| length(above).min(tail));
    let text = kept.join("\n");
    if text.is_empty() {
        return String::new();
    }
    let shown: String = text.chars().skip(skip).take(TAIL).collect();
    let (before, after) = (dots(skip > 0), dots(skip + TAIL < whole));
    format!(": {before}{}{after}", shown.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn dots(cut: bool) -> &'static str {
    if cut { "…" } else { "" }
}

/// Whether a line is one like `TypeError: x is not a function`, `Exception in thread "main" …` or `panic: …`.
fn names_an_error(line: &str) -> bool {
    const WORDS: [&str; 4] = ["error", "exception", "panic", "fatal"];
    let head = line.split_once(':').map(|(head, _)| head.to_lowercase());
    line.starts_with("Exception in thread")
        || head.is_some_and(|head| WORDS.iter().any(|word| head.ends_with(word)))
}

/// The cause of a failed pull. The kubelet's message takes turns between it and the same behind a prefix, and the status
/// is not to be rewritten at each turn.
fn pull_error(message: &str) -> &str {
    message.split_once("ErrImagePull: ").map_or(message, |(_, cause)| cause)
}

//! Asks the supervisor of a pod that runs and isn't ready what it waits for: it knows, and nobody else in the cluster does.
//!
//! One plain request to one pod per look, bounded in time and size. How often follows from how long the pod has been so; the
//! looks between use the answer again. Where a `NetworkPolicy` keeps the operator out, there is just no answer.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Mutex,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

use crate::{cache::Key, status::pods::Unready, sync::lock};

/// How long a pod may take to become ready before that is a trouble.
const LASTING: Duration = Duration::from_secs(15);
/// How long a pod has not been ready when it is looked at again; after the last, every [`AGAIN`].
const LOOKS: [Duration; 4] =
    [Duration::from_secs(5), LASTING, Duration::from_secs(35), Duration::from_secs(75)];
const AGAIN: Duration = Duration::from_mins(1);
/// How long a request may take, all included.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How much of an answer is read: 4 KiB of text, and its head.
const LONGEST_ANSWER: u64 = 5 * 1024;
/// How much of it is passed on, in characters.
const LONGEST_WORDS: usize = 400;

/// Whom to ask, if anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The supervisor, at this port.
    Supervisor(u16),
    /// Nobody: the app has a readiness probe of its own.
    Own,
    /// Nobody: the spec can't be read.
    Unknown,
}

/// What is known about a pod that isn't ready.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) words: Option<String>,
    /// Whether it has been so for longer than a start takes.
    pub(crate) lasting: bool,
    /// When it is worth another look.
    pub(crate) again: Option<Duration>,
}

/// The last answers, by app.
#[derive(Debug, Default)]
pub(crate) struct Inquiries(Mutex<HashMap<Key, Answer>>);

#[derive(Clone, Debug)]
struct Answer {
    uid: String,
    since: Option<Timestamp>,
    until: Instant,
    words: Option<String>,
}

impl Inquiries {
    /// What keeps the pod of `app` from being ready.
    pub(crate) async fn hear(&self, app: &Key, unready: Option<&Unready>, probe: Probe) -> Heard {
        // A pod that is to go isn't worth the question.
        let Some(unready) = unready.filter(|unready| unready.newest) else {
            self.forget(app);
            return Heard::default();
        };
        let age = unready.since.map_or(LASTING, age);
        let lasting = age >= LASTING;
        let next = next_look(age);
        let heard = |words, again| Heard { words, lasting, again };
        let port = match probe {
            Probe::Supervisor(port) => port,
            Probe::Own => {
                return heard(Some("spec.readinessProbe fails".into()), (!lasting).then_some(next));
            }
            Probe::Unknown => return heard(None, (!lasting).then_some(next)),
        };
        // Most pods are ready by then, and nobody is asked about them.
        let (Some(address), true) = (unready.address, age >= LOOKS[0]) else {
            return heard(None, Some(next));
        };

        let now = Instant::now();
        let former = lock(&self.0).get(app).cloned();
        let former = former.filter(|former| former.uid == unready.uid && former.since == unready.since);
        if let Some(former) = &former
            && now < former.until
        {
            return heard(former.words.clone(), Some(former.until - now));
        }
        let words = match tokio::time::timeout(TIMEOUT, readyz(address, port)).await {
            Ok(Ok(words)) => words,
            // One answer that is lost on the way doesn't change what is known.
            failed => {
                tracing::debug!("the supervisor at {address} port {port} can't be asked: {failed:?}");
                former.and_then(|former| former.words)
            }
        };
        let (uid, since) = (unready.uid.clone(), unready.since);
        lock(&self.0).insert(app.clone(), Answer { uid, since, until: now + next, words: words.clone() });
        heard(words, Some(next))
    }

    /// Forgets an app that is gone or has nothing to be asked.
    pub(crate) fn forget(&self, app: &Key) {
        lock(&self.0).remove(app);
    }
}

/// How long ago that was; a moment to come, by a node's clock that is ahead, is now.
fn age(since: Timestamp) -> Duration {
    Timestamp::now().duration_since(since).try_into().unwrap_or_default()
}

fn next_look(age: Duration) -> Duration {
    LOOKS.into_iter().find(|look| *look > age).map_or(AGAIN, |look| look.saturating_sub(age))
}

/// What the supervisor says to `GET /readyz`; `None` if it has nothing to complain of, or isn't the supervisor.
async fn readyz(address: IpAddr, port: u16) -> std::io::Result<Option<String>> {
    let address = SocketAddr::new(address, port);
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let complaint = answer.strip_prefix("HTTP/1.1 503 ").and_then(|rest| rest.split_once("\r\n\r\n"));
    Ok(complaint.and_then(|(_, body)| summary(body)))
}

/// The reasons as one line that stays the same while nothing happens: without what counts the seconds or the starts, and once
/// for all workers of which the same is true.
fn summary(body: &str) -> Option<String> {
    let mut groups: Vec<(String, String, usize)> = Vec::new();
    for line in body.lines() {
        let line: String = line.chars().filter(|char| !char.is_control()).collect();
        let (subject, words) = subject(line.trim());
        let words = uncounted(words);
        match groups.iter_mut().find(|(_, known, _)| *known == words) {
            Some((_, _, others)) => *others += 1,
            None if words.is_empty() => {}
            None => groups.push((subject.into(), words, 0)),
        }
    }
    // A worker that listens in the wrong place is the cause, and the others often only end since that place is taken.
    let cause = |words: &str| words.starts_with("listens on ");
    if groups.iter().any(|(_, words, _)| cause(words)) {
        groups.retain(|(_, words, _)| cause(words));
    }
    let texts = groups.iter().map(|(subject, words, others)| match others {
        0 => format!("{subject}{words}"),
        1 => format!("{subject}{words} (and 1 other worker)"),
        _ => format!("{subject}{words} (and {others} other workers)"),
    });
    let text = texts.collect::<Vec<_>>().join("; ");
    let short: String = text.chars().take(LONGEST_WORDS).collect();
    let end = if short.len() < text.len() { "…" } else { "" };
    (!text.is_empty()).then(|| format!("{short}{end}"))
}

/// Splits `worker N ` off, if the line begins with it.
fn subject(line: &str) -> (&str, &str) {
    let rest = line.strip_prefix("worker ").unwrap_or_default();
    match rest.split_once(' ') {
        Some((number, words)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            line.split_at(line.len() - words.len())
        }
        _ => ("", line),
    }
}

/// Without ` (12 s)` at the end, and how often it has happened.
fn uncounted(words: &str) -> String {
    let seconds = |inner: &str| {
        let number = inner.strip_suffix(" s)")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(())
    };
    if let Some((before, inner)) = words.rsplit_once(" (")
        && seconds(inner).is_some()
    {
        return before.into();
    }
    for counted in [" times in a row", " starts in a row"] {
        if let Some((before, after)) = words.split_once(counted) {
            let before = before.trim_end_matches(|char: char| char.is_ascii_digit());
            return format!("{before}several{counted}{after}");
        }
    }
    words.into()
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc, time::Duration};

    use k8s_openapi::jiff::{SignedDuration, Timestamp};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::Mutex,
    };

    use super::{Heard, Inquiries, LONGEST_WORDS, Probe, next_look, summary};
    use crate::{cache::Key, status::pods::Unready};

    #[test]
    fn an_answer_becomes_one_line_without_what_counts() {
        for (body, words) in [
            ("worker 1 has not listened yet (12 s)\n", Some("worker 1 has not listened yet")),
            (
                "worker 0 listens on port 8080; the declared port is 3000: set spec.port or the app's PORT\nworker 1 listens on port 8080; the declared port is 3000: set spec.port or the app's PORT\n",
                Some(
                    "worker 0 listens on port 8080; the declared port is 3000: set spec.port or the app's PORT (and 1 other worker)",
                ),
            ),
            (
                "worker 0 has not listened yet (3 s)\nworker 1 ended (exit code 1) soon after its start, 3 times in a row; see its own log\nworker 2 has not listened yet (4 s)\nworker 3 has not listened yet (4 s)\n",
                Some(
                    "worker 0 has not listened yet (and 2 other workers); worker 1 ended (exit code 1) soon after its start, several times in a row; see its own log",
                ),
            ),
            (
                "worker 0 ended (exit code 1), 9 starts in a row have failed\nworker 1 listens on port 4000; the declared port is 3000\n",
                Some("worker 1 listens on port 4000; the declared port is 3000"),
            ),
            (
                "worker 0 ended (exit code 1), 12 starts in a row have failed\n",
                Some("worker 0 ended (exit code 1), several starts in a row have failed"),
            ),
            ("stopping\n", Some("stopping")),
            ("a\u{1b}[31mred\u{7}\n", Some("a[31mred")),
            ("\n \n", None),
        ] {
            assert_eq!(summary(body).as_deref(), words);
        }
        assert_eq!(summary(&"x".repeat(5000)).unwrap().chars().count(), LONGEST_WORDS + 1);
    }

    #[test]
    fn looks_become_rarer() {
        for (age, next) in [(0, 5), (4, 1), (5, 10), (15, 20), (34, 1), (35, 40), (75, 60), (9999, 60)] {
            assert_eq!(next_look(Duration::from_secs(age)), Duration::from_secs(next));
        }
    }

    fn unready(seconds: i64) -> Unready {
        Unready {
            pod: "p".into(),
            container: "app".into(),
            newest: true,
            uid: "u".into(),
            address: Some(Ipv4Addr::LOCALHOST.into()),
            since: Some(Timestamp::now() - SignedDuration::from_secs(seconds)),
        }
    }

    /// Answers each connection with the next of `answers`, then takes no more.
    async fn supervisor(answers: &'static [&'static str]) -> (u16, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                *count.lock().await += 1;
                let mut request = [0; 1024];
                let size = stream.read(&mut request).await.unwrap();
                assert!(request[..size].starts_with(b"GET /readyz HTTP/1.1\r\n"));
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (port, asked)
    }

    const WAITS: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 37\r\n\r\nworker 0 has not listened yet (12 s)\n";

    #[tokio::test]
    async fn an_answer_is_used_again_until_it_is_due() {
        let (port, asked) = supervisor(&[WAITS, WAITS]).await;
        let (inquiries, app, pod) = (Inquiries::default(), Key::new("ns", "app"), unready(20));
        for _ in 0..3 {
            let heard = inquiries.hear(&app, Some(&pod), Probe::Supervisor(port)).await;
            assert_eq!(heard.words.as_deref(), Some("worker 0 has not listened yet"));
            assert!(heard.lasting && heard.again.unwrap() <= Duration::from_secs(15), "{heard:?}");
        }
        assert_eq!(*asked.lock().await, 1);
        // Another pod's answer is not this one's.
        let other = Unready { uid: "v".into(), ..pod };
        inquiries.hear(&app, Some(&other), Probe::Supervisor(port)).await;
        assert_eq!(*asked.lock().await, 2);
    }

    #[tokio::test]
    async fn nobody_is_asked_without_need() {
        let (port, asked) = supervisor(&[WAITS]).await;
        let (inquiries, app, probe) = (Inquiries::default(), Key::new("ns", "app"), Probe::Supervisor(port));
        assert_eq!(inquiries.hear(&app, None, probe).await, Heard::default());
        let old = Unready { newest: false, ..unready(60) };
        assert_eq!(inquiries.hear(&app, Some(&old), probe).await, Heard::default());
        let young = inquiries.hear(&app, Some(&unready(1)), probe).await;
        assert!(young.words.is_none() && !young.lasting && young.again <= Some(Duration::from_secs(5)));
        let own = inquiries.hear(&app, Some(&unready(60)), Probe::Own).await;
        assert_eq!(own.words.as_deref(), Some("spec.readinessProbe fails"));
        assert!(own.lasting && own.again.is_none());
        assert_eq!(*asked.lock().await, 0);
    }

    #[tokio::test]
    async fn what_is_no_complaint_or_no_answer_says_nothing() {
        for answer in
            ["HTTP/1.1 200 OK\r\n\r\nok\n", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\nx", "", "SSH-2.0"]
        {
            let (port, _) = supervisor(Box::leak(Box::new([answer]))).await;
            let inquiries = Inquiries::default();
            let heard =
                inquiries.hear(&Key::new("ns", "app"), Some(&unready(60)), Probe::Supervisor(port)).await;
            assert!(heard.words.is_none() && heard.again.is_some(), "{heard:?}");
        }
    }

    #[tokio::test]
    async fn a_pod_that_never_answers_holds_nobody_up() {
        // Connections are taken by the kernel, and nobody answers.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let begin = std::time::Instant::now();
        let heard = Inquiries::default()
            .hear(&Key::new("ns", "app"), Some(&unready(60)), Probe::Supervisor(port))
            .await;
        assert!(heard.words.is_none() && begin.elapsed() < Duration::from_secs(5));
    }
}

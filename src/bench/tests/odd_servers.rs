//! The engine against servers that are slow, odd or broken, each on a port of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests may, like the tests")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use workerapp_bench::{Arrivals, Control, Error, Failure, Load, Plan, Report, Target, Template, run};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Serves each connection in a thread; `serve` gets it after each complete request head, with the number of requests before on
/// this connection, and says whether to go on.
fn server(serve: impl Fn(&mut TcpStream, u64) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || {
                let (mut text, mut buffer, mut before) = (Vec::new(), [0; 4096], 0);
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    text.extend_from_slice(&buffer[..length]);
                    if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                        text.drain(..end + 4);
                        if !serve(&mut stream, before) {
                            return;
                        }
                        before += 1;
                    }
                }
            });
        }
    });
    address
}

fn plan(address: SocketAddr, method: &str, keep_alive: bool) -> Plan {
    let target = Target::parse(&format!("http://{address}/")).unwrap();
    let template = Template { method: method.into(), ..Template::default() };
    Plan {
        connections: 4,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(500),
        timeout: Duration::from_secs(5),
        keep_alive,
        ..Plan::new(vec![address], template.build(&target, keep_alive).unwrap())
    }
}

fn go(plan: &Plan) -> Report {
    run(plan, &Control::default()).unwrap()
}

/// An open loop whose requests left in time: on a machine that does other things too, one in a few.
fn undisturbed(plan: &Plan) -> Report {
    let own = |report: &Report| report.counts.late - report.counts.late_for_want_of_a_connection;
    let mut report = go(plan);
    for _ in 0..20 {
        if own(&report) * 50 <= report.counts.sent {
            break;
        }
        report = go(plan);
    }
    report
}

fn rate(per_second: f64) -> Load {
    Load::Rate { per_second, arrivals: Arrivals::Even }
}

/// The only kind of failure there was.
fn only(report: &Report) -> Failure {
    let kinds: Vec<_> = report.failures.keys().copied().collect();
    assert_eq!(kinds.len(), 1, "{:?}", report.failures);
    assert_eq!(report.counts.answered, 0);
    kinds[0]
}

#[test]
fn a_good_server_in_every_mode() {
    let address = server(|stream, _| stream.write_all(OK).is_ok());
    for threads in [1, 2] {
        for keep_alive in [true, false] {
            for load in [Load::Capacity, rate(200.0)] {
                let plan = Plan { load, threads, ..plan(address, "GET", keep_alive) };
                let plan = Plan { warm_up: Duration::from_millis(200), ..plan };
                let report = go(&plan);
                assert!(report.failures.is_empty() && !report.partial, "{report:?}");
                assert!(report.counts.answered > 50 && report.warm_up_answers > 0, "{report:?}");
                assert_eq!(report.counts.body_bytes, 2 * report.counts.answered);
                assert_eq!(report.connections.len(), 4);
                assert_eq!(report.connections.iter().sum::<u64>(), report.counts.answered);
                match load {
                    Load::Rate { .. } | Load::Ramp { .. } => {
                        assert_eq!((report.counts.sent, report.counts.dropped), (100, 0));
                    }
                    // Little's law: what is on its way is what there are connections for.
                    Load::Capacity => {
                        assert!((2.0..6.0).contains(&report.in_flight()), "{}", report.in_flight());
                    }
                }
                assert_eq!(report.counts.opened > 50, !keep_alive);
            }
        }
    }
}

#[test]
fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = go(&plan(address, "GET", true));
    assert_eq!(only(&report), Failure::Refused);
    assert!(report.counts.failed < 4 * 60, "it must not spin: {}", report.counts.failed);
    let report = go(&Plan { load: rate(100.0), ..plan(address, "GET", true) });
    assert_eq!((only(&report), report.counts.failed), (Failure::Refused, 50));
    let warm = Plan { warm_up: Duration::from_millis(100), ..plan(address, "GET", true) };
    match run(&warm, &Control::default()) {
        Err(Error::WarmUp { why, .. }) => assert!(why.contains("refused"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_good_answer_is_counted_by_kind() {
    let cases: [(&'static [u8], bool, Failure); 6] = [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", true, Failure::Status),
        (b"HTTP/1.1 302 There\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false, Failure::Status),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", false, Failure::ClosedEarly),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", true, Failure::BadResponse),
        (b"SMTP is not spoken here\r\n", true, Failure::BadResponse),
        (b"", false, Failure::ClosedEarly),
    ];
    for (text, go_on, kind) in cases {
        let address = server(move |stream, _| {
            thread::sleep(Duration::from_millis(1));
            stream.write_all(text).is_ok() && go_on
        });
        assert_eq!(only(&go(&plan(address, "GET", true))), kind);
        let report = go(&Plan { load: rate(100.0), ..plan(address, "GET", true) });
        assert_eq!((only(&report), report.counts.failed), (kind, 50));
    }
}

#[test]
fn a_server_that_never_answers() {
    let address = server(|_, _| true);
    let impatient = Plan { timeout: Duration::from_millis(300), ..plan(address, "GET", true) };
    assert_eq!(only(&go(&impatient)), Failure::Timeout);
    // Four connections for 300 ms each: most of the arrivals find none in time, and are neither sent nor forgotten.
    let begun = Instant::now();
    let report = go(&Plan { load: rate(200.0), ..impatient });
    assert_eq!(only(&report), Failure::Timeout);
    assert_eq!(report.counts.sent + report.counts.dropped, 100);
    assert!(report.counts.dropped > 80, "{:?}", report.counts);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_reset_is_one() {
    let address = server(|stream, _| {
        // Bytes that were never read turn the close into a reset.
        let _ = stream.set_nonblocking(true);
        false
    });
    let target = Target::parse(&format!("http://{address}/")).unwrap();
    let template = Template { method: "POST".into(), body: vec![b'x'; 100_000], ..Template::default() };
    let plan = Plan { requests: vec![template.build(&target, true).unwrap()], ..plan(address, "POST", true) };
    let report = go(&plan);
    assert!(report.failures.keys().all(|kind| matches!(kind, Failure::Reset | Failure::ClosedEarly)));
    assert!(report.failures.contains_key(&Failure::Reset), "{:?}", report.failures);
}

/// The server closes after every third answer, without a word: what was on its way is sent once more, if that is wanted and may be.
#[test]
fn a_connection_closed_between_requests_is_no_failure_to_whoever_sends_again() {
    let address = server(|stream, before| stream.write_all(OK).is_ok() && before % 3 != 2);
    let again = |method| Plan { resend: true, ..plan(address, method, true) };
    let report = go(&again("GET"));
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.counts.reconnects + report.counts.closed_idle > 20, "{:?}", report.counts);
    let report = go(&again("POST"));
    assert!(report.counts.reconnects == 0 && !report.failures.is_empty(), "{:?}", report.counts);
    // Where the connections have nothing to do in between, the end is seen before the next request.
    let report = undisturbed(&Plan { load: rate(100.0), ..plan(address, "POST", true) });
    assert!(report.failures.is_empty() && report.counts.closed_idle >= 12, "{:?}", report.counts);
}

/// Nobody can tell a request that a dying server has lost from one that it never saw: each is a failure, unless the person wants else.
#[test]
fn a_request_that_was_cut_off_has_failed() {
    let cut = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&cut);
    let address = server(move |stream, before| {
        // Read, and never answered.
        if before % 5 == 4 {
            count.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        stream.write_all(OK).is_ok()
    });
    let report = go(&plan(address, "GET", true));
    let cut = cut.load(Ordering::Relaxed);
    // What was cut off when the measurement had ended is in no count.
    let counts = report.counts;
    assert!(counts.failed > 20 && counts.failed <= cut && cut <= counts.failed + 4, "{cut}: {counts:?}");
    assert_eq!(counts.reconnects, 0);
}

#[test]
fn workers_are_counted_by_their_header() {
    let number = AtomicU64::new(0);
    let address = server(move |stream, _| {
        let worker = if number.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) { "a" } else { "b" };
        let text = format!("HTTP/1.1 200 OK\r\nx-worker: {worker}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(text.as_bytes()).is_ok()
    });
    let plan =
        Plan { worker_header: Some("X-Worker".into()), load: rate(400.0), ..plan(address, "GET", true) };
    let report = go(&plan);
    assert_eq!(report.workers, BTreeMap::from([("a".into(), 50), ("b".into(), 150)]));
    assert!((report.busiest_over_mean(2).unwrap() - 1.5).abs() < 1e-9);
}

/// A server that stands still for a second in three: one request in three finds it so, and waits half a second on average.
/// Only an open loop that counts from the planned start sees that; latencies corrected by interpolation afterwards are wrong
/// (scylla-bench#46).
#[test]
fn a_stall_is_seen_by_all_that_were_due_in_it() {
    let begun = Instant::now();
    let address = server(move |stream, _| {
        let at = begun.elapsed().as_millis() % 1500;
        if (500..1000).contains(&at) {
            thread::sleep(Duration::from_millis(u64::try_from(1000 - at).unwrap()));
        }
        stream.write_all(OK).is_ok()
    });
    let open =
        Plan { load: rate(200.0), duration: Duration::from_millis(1500), ..plan(address, "GET", true) };
    let report = undisturbed(&open);
    assert_eq!(report.counts.answered, 300, "{:?}", report.failures);
    for (quantile, expected) in [(0.99, 485.0), (0.9, 350.0), (0.75, 125.0)] {
        let seen = report.quantile_ms(quantile);
        assert!((expected - 60.0..expected + 80.0).contains(&seen), "p{quantile}: {seen}");
    }
    assert!(report.quantile_ms(0.6) < 60.0);
    let waited = report.counts.late_for_want_of_a_connection;
    assert!((80..120).contains(&waited), "{:?}", report.counts);
}

#[test]
fn stopped_in_the_middle() {
    let address = server(|stream, _| stream.write_all(OK).is_ok());
    for load in [Load::Capacity, rate(100.0)] {
        let plan = Plan { load, duration: Duration::from_mins(10), ..plan(address, "GET", true) };
        let control = Control::default();
        let report = thread::scope(|scope| {
            let running = scope.spawn(|| run(&plan, &control));
            thread::sleep(Duration::from_millis(700));
            assert!(control.progress().answered > 10);
            control.stop();
            running.join().unwrap().unwrap()
        });
        assert!(report.partial && report.counts.answered > 10);
        assert!((0.6..3.0).contains(&report.elapsed.as_secs_f64()), "{:?}", report.elapsed);
    }
}

/// Memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_endless_body_is_a_timeout_and_no_memory() {
    let address = server(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 16000]).is_ok() {}
        false
    });
    let before = resident_kib();
    let report = go(&Plan { timeout: Duration::from_millis(300), ..plan(address, "GET", true) });
    assert_eq!(only(&report), Failure::Timeout);
    assert!(report.counts.bytes_received > 10_000_000, "{:?}", report.counts);
    // Much less than came; the other tests in this process need some too.
    let more = resident_kib().saturating_sub(before) * 1024;
    assert!(more < 8_000_000.max(report.counts.bytes_received / 4), "{more} of {:?}", report.counts);
}

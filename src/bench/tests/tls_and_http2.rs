//! The engine over TLS and HTTP/2, against servers that are good, slow, odd or broken.
#![allow(clippy::unwrap_used, reason = "helpers of tests may, like the tests")]

mod common;

use common::{Answer, http1, http2, http2_until, identity, nonsense, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use workerapp_bench::results::Run;
use workerapp_bench::{
    Arrivals, Control, Error, Failure, Load, Plan, Protocol, Report, Target, Template, Tls, Trust, run,
};

fn plan(address: SocketAddr, protocol: Protocol, trust: Option<&Trust>) -> Plan {
    plan_of(address, protocol, trust, &Template::default())
}

fn plan_of(address: SocketAddr, protocol: Protocol, trust: Option<&Trust>, template: &Template) -> Plan {
    let scheme = if trust.is_some() { "https" } else { "http" };
    let target = Target::parse(&format!("{scheme}://{address}/")).unwrap();
    let request = match protocol {
        Protocol::Http1 => template.build(&target, true).unwrap(),
        Protocol::Http2 => template.build_http2(&target).unwrap(),
    };
    Plan {
        protocol,
        tls: trust.and_then(|trust| Tls::new(&target, trust, protocol).unwrap()),
        connections: 4,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(400),
        timeout: Duration::from_secs(30),
        ..Plan::new(vec![address], request)
    }
}

/// An open loop ends with its last answer; a closed one here once so many requests have an end, however slow the machine is.
fn until(requests: u64, plan: &Plan) -> Report {
    let control = Control::default();
    if plan.load != Load::Capacity {
        return run(plan, &control).unwrap();
    }
    let plan = Plan { duration: Duration::from_mins(2), ..plan.clone() };
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&plan, &control));
        let ended = || control.progress().answered + control.progress().failed;
        while !running.is_finished() && ended() < requests {
            std::thread::sleep(Duration::from_millis(10));
        }
        control.stop();
        running.join().unwrap().unwrap()
    })
}

fn go(plan: &Plan) -> Report {
    until(60, plan)
}

/// Kinds of failures, and why the first one came, of a server that gives no answer.
fn refused(plan: &Plan) -> String {
    let report = until(1, plan);
    assert_eq!(report.counts.answered, 0);
    let kinds: Vec<_> = report.failures.keys().map(|kind| kind.name()).collect();
    format!("{}: {}", kinds.join(", "), report.fault.unwrap_or_default())
}

fn rate(per_second: f64) -> Load {
    Load::Rate { per_second, arrivals: Arrivals::Even }
}

fn good(report: &Report) {
    assert!(
        report.failures.is_empty() && report.counts.answered > 10,
        "{:?}",
        (&report.counts, &report.failures)
    );
}

#[test]
fn http_1_over_tls_in_every_mode() {
    let identity = identity("127.0.0.1", &["http/1.1"]);
    let address = serve(Some(&identity), |stream, _| http1(stream, 5));
    let trust = Trust::File(identity.authority.clone());
    for (load, keep_alive) in [(Load::Capacity, true), (rate(100.0), true), (Load::Capacity, false)] {
        let plan = Plan { load, keep_alive, ..plan(address, Protocol::Http1, Some(&trust)) };
        let report = go(&plan);
        good(&report);
        assert_eq!(report.counts.body_bytes, 5 * report.counts.answered);
        assert_eq!(report.counts.opened > 10, !keep_alive, "{:?}", report.counts);
        let run = Run::of(&plan, &report);
        assert!(run.tls && run.protocol == Some(Protocol::Http1) && run.streams.is_none());
    }
}

#[test]
fn http_2_with_tls_and_without_in_every_mode() {
    let identity = identity("127.0.0.1", &["h2"]);
    let trust = Trust::File(identity.authority.clone());
    for trust in [Some(&trust), None] {
        let address = serve(trust.map(|_| &identity), |stream, _| http2(stream, 100, |_| Answer::Body(5)));
        for (load, streams, threads) in [(Load::Capacity, 1, 1), (Load::Capacity, 10, 2), (rate(100.0), 3, 2)]
        {
            let plan = Plan {
                load,
                streams,
                threads,
                worker_header: Some("X-Worker".into()),
                ..plan(address, Protocol::Http2, trust)
            };
            let report = go(&plan);
            good(&report);
            assert_eq!(report.counts.body_bytes, 5 * report.counts.answered);
            assert_eq!((report.counts.opened, report.connections.len()), (4, 4), "{:?}", report.counts);
            assert_eq!(report.workers.get("w1"), Some(&report.counts.answered));
            let run = Run::of(&plan, &report);
            assert_eq!((run.streams, run.places()), (Some(streams as u64), Some(4 * streams as u64)));
            if load == Load::Capacity {
                // An answer takes its way through the kernel; and each slot has a request whenever it may.
                assert!(report.quantile_ms(0.5) > 0.005, "{} ms", report.quantile_ms(0.5));
                assert_eq!(report.counts.unfinished, 4 * streams as u64);
            } else {
                assert_eq!((report.counts.sent, report.counts.dropped), (40, 0));
            }
        }
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_told_and_can_be_ignored() {
    let (theirs, other) = (identity("127.0.0.1", &["http/1.1"]), identity("127.0.0.1", &[]));
    let address = serve(Some(&theirs), |stream, _| http1(stream, 5));
    let with = |trust: &Trust| plan(address, Protocol::Http1, Some(trust));
    let told = refused(&with(&Trust::File(other.authority.clone())));
    assert!(told.contains("TLS: ") && told.contains("UnknownIssuer") && told.contains("--ca"), "{told}");
    good(&go(&with(&Trust::Anybody)));
    // Without a warm-up the gate has the reason; and nobody tries again and again without a pause.
    let plan = with(&Trust::File(other.authority.clone()));
    let report = go(&plan);
    let most = 4 * (report.elapsed.as_millis() / 10 + 1);
    assert!(u128::from(report.counts.failed) <= most, "{} failed, at most {most}", report.counts.failed);
    let verdicts = format!("{:?}", workerapp_bench::gates::judge(&Run::of(&plan, &report)));
    assert!(
        verdicts.contains("no request was answered: TLS ") && verdicts.contains("UnknownIssuer"),
        "{verdicts}"
    );
    // With one it ends the run, and says it too.
    let plan = Plan { warm_up: Duration::from_secs(2), ..plan };
    let Err(error @ Error::WarmUp { .. }) = run(&plan, &Control::default()) else { panic!("it ran") };
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}

#[test]
fn a_certificate_for_another_name_is_told() {
    let identity = identity("shop.example", &["http/1.1"]);
    let address = serve(Some(&identity), |stream, _| http1(stream, 5));
    let told = refused(&plan(address, Protocol::Http1, Some(&Trust::File(identity.authority.clone()))));
    assert!(told.contains("TLS: ") && told.contains("not valid for name"), "{told}");
}

#[test]
fn a_server_without_tls_or_without_http_2_is_told() {
    let plain = serve(None, |stream, _| nonsense(stream));
    let told = refused(&plan(plain, Protocol::Http1, Some(&Trust::Anybody)));
    assert!(told.contains("TLS: "), "{told}");
    // By prior knowledge: it answers that this is nonsense, in HTTP/1.1.
    let told = refused(&plan(plain, Protocol::Http2, None));
    assert!(["bad response: ", "closed early: ", "reset: "].iter().any(|kind| told.contains(kind)), "{told}");
    for alpn in [&["http/1.1"][..], &[]] {
        let identity = identity("127.0.0.1", alpn);
        let address = serve(Some(&identity), |stream, _| http1(stream, 5));
        let told = refused(&plan(address, Protocol::Http2, Some(&Trust::Anybody)));
        let why = if alpn.is_empty() { "takes no HTTP/2" } else { "NoApplicationProtocol" };
        assert!(told.contains("TLS: ") && told.contains(why), "{told}");
    }
}

/// More than the buffers of TLS and the first windows of HTTP/2 hold, in both directions.
#[test]
fn long_bodies_are_sent_and_read() {
    const LENGTH: usize = 3 << 20;
    let identity = identity("127.0.0.1", &["http/1.1", "h2"]);
    let template = Template { method: "POST".into(), body: vec![b'x'; 300 << 10], ..Template::default() };
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let address = serve(Some(&identity), move |stream, _| async move {
            match protocol {
                Protocol::Http1 => http1(stream, LENGTH).await,
                Protocol::Http2 => http2(stream, 100, |_| Answer::Body(LENGTH)).await,
            }
        });
        let plan = plan_of(address, protocol, Some(&Trust::Anybody), &template);
        // An open loop waits for its last answers, however slow the machine is.
        let report = go(&Plan { load: rate(10.0), ..plan });
        assert!(
            report.failures.is_empty() && report.counts.answered == 4,
            "{:?}",
            (&report.counts, &report.failures)
        );
        assert_eq!(report.counts.body_bytes, 4 * LENGTH as u64);
    }
}

#[test]
fn what_is_no_good_answer_of_http_2_is_counted_by_kind() {
    for (answer, allowed) in [
        (Answer::Status(503), &[Failure::Status][..]),
        (Answer::Reset(h2::Reason::INTERNAL_ERROR), &[Failure::Reset]),
        // With requests that nobody read, the kernel resets the connection.
        (Answer::Half, &[Failure::ClosedEarly, Failure::Reset]),
        (Answer::Never, &[Failure::Timeout]),
    ] {
        let address = serve(None, move |stream, _| http2(stream, 100, move |_| answer));
        let plan = Plan {
            timeout: if matches!(answer, Answer::Never) {
                Duration::from_millis(200)
            } else {
                Duration::from_secs(30)
            },
            streams: 2,
            ..plan(address, Protocol::Http2, None)
        };
        for load in [Load::Capacity, rate(50.0)] {
            let report = go(&Plan { load, ..plan.clone() });
            let kinds: Vec<_> = report.failures.keys().copied().collect();
            assert!(
                !kinds.is_empty() && kinds.iter().all(|kind| allowed.contains(kind)),
                "{answer:?}: {kinds:?}"
            );
            assert_eq!(report.counts.answered, 0, "{answer:?}");
        }
    }
}

/// A server that ends connections in order, as nginx does after so many requests, loses nothing: neither do we.
#[test]
fn connections_that_a_server_retires_are_no_failures() {
    let connections = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&connections);
    let address = serve(None, move |stream, _| {
        count.fetch_add(1, Ordering::Relaxed);
        http2(stream, 100, |number| if number == 4 { Answer::Last } else { Answer::Body(5) })
    });
    let report = go(&Plan { streams: 3, ..plan(address, Protocol::Http2, None) });
    good(&report);
    assert!(connections.load(Ordering::Relaxed) > 4, "{:?}", (&report.counts, &report.failures));
}

/// What comes after the last request that GOAWAY names goes to a new connection, once, and not back to the old one.
#[test]
fn requests_beyond_the_last_one_served_go_elsewhere() {
    let address = serve(None, |stream, _| http2_until(stream, 5));
    for load in [Load::Capacity, rate(200.0)] {
        let report = go(&Plan { load, streams: 3, ..plan(address, Protocol::Http2, None) });
        good(&report);
        assert!(report.counts.opened > 4, "{:?}", report.counts);
    }
}

#[test]
fn a_stream_that_was_refused_is_asked_once_more() {
    let template = Template { method: "POST".into(), ..Template::default() };
    let refuse =
        |number| if number % 2 == 0 { Answer::Reset(h2::Reason::REFUSED_STREAM) } else { Answer::Body(5) };
    let address = serve(None, move |stream, _| http2(stream, 100, refuse));
    let report = go(&Plan { connections: 1, ..plan_of(address, Protocol::Http2, None, &template) });
    good(&report);
    assert!(report.counts.reconnects >= report.counts.answered, "{:?}", report.counts);
}

/// More requests than the server takes at a time wait for their turn, and that wait is part of their latency.
#[test]
fn a_server_that_takes_few_streams_gets_few() {
    let address = serve(None, |stream, _| http2(stream, 1, |_| Answer::Body(5)));
    let report = go(&Plan { streams: 8, connections: 1, ..plan(address, Protocol::Http2, None) });
    good(&report);
}

#[test]
fn a_server_that_is_gone_is_told_and_found_again() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for trust in [None, Some(&Trust::Anybody)] {
            let told = refused(&plan(nobody, protocol, trust));
            assert!(told.contains("refused: "), "{protocol:?}: {told}");
        }
    }
    // The first connections end at once; the next ones work.
    let address = serve(None, |stream, number| async move {
        if number >= 4 {
            http2(stream, 100, |_| Answer::Body(5)).await;
        }
    });
    let report = go(&plan(address, Protocol::Http2, None));
    assert!(
        report.counts.answered > 10 && report.counts.failed <= 8,
        "{:?}",
        (&report.counts, &report.failures)
    );
}

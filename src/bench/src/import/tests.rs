use super::*;
use crate::gates::Outcome;
use crate::results::{Generator, Mode};

const AUTOCANNON_TEXT: &str = "
Node runner:

Running 40s warmup @ http://10.0.1.210:30000
 100 -d 10 connections
Running 40s test @ http://10.0.1.210:30000
100 connections
┌─────────┬───────┬───────┬───────┬───────┬──────────┬─────────┬────────┐
│ Stat    │ 2.5%  │ 50%   │ 97.5% │ 99%   │ Avg      │ Stdev   │ Max    │
├─────────┼───────┼───────┼───────┼───────┼──────────┼─────────┼────────┤
│ Latency │ 24 ms │ 29 ms │ 57 ms │ 59 ms │ 29.62 ms │ 9.85 ms │ 826 ms │
└─────────┴───────┴───────┴───────┴───────┴──────────┴─────────┴────────┘
┌───────────┬─────────┬─────────┬─────────┬─────────┬─────────┬────────┬─────────┐
│ Stat      │ 1%      │ 2.5%    │ 50%     │ 97.5%   │ Avg     │ Stdev  │ Min     │
├───────────┼─────────┼─────────┼─────────┼─────────┼─────────┼────────┼─────────┤
│ Req/Sec   │ 1,621   │ 1,621   │ 3,479   │ 3,513   │ 3,321.2 │ 417.58 │ 1,621   │
├───────────┼─────────┼─────────┼─────────┼─────────┼─────────┼────────┼─────────┤
│ Bytes/Sec │ 21.3 MB │ 21.3 MB │ 45.8 MB │ 46.3 MB │ 43.7 MB │ 5.5 MB │ 21.3 MB │
└───────────┴─────────┴─────────┴─────────┴─────────┴─────────┴────────┴─────────┘
Req/Bytes counts sampled once per second.
# of samples: 40
133k requests in 40.03s, 1.75 GB read

three workers:

Running 10s warmup @ http://10.0.1.210:30042
100 connections
Running 40s test @ http://10.0.1.210:30042
100 connections
\u{1b}[90m┌─────────┬──────┬───────┬───────┬───────┬──────────┬──────────┬────────┐\u{1b}[39m
│ Stat    │ 2.5% │ 50%   │ 97.5% │ 99%   │ Avg      │ Stdev    │ Max    │
│ Latency │ 7 ms │ 13 ms │ 81 ms │ 99 ms │ 19.54 ms │ 21.77 ms │ 689 ms │
│ Stat      │ 1%      │ 2.5%    │ 50%     │ 97.5%   │ Avg      │ Stdev    │ Min     │
│ Req/Sec   │ 2,025   │ 2,025   │ 5,903   │ 7,451   │ 5,298.25 │ 1,960.19 │ 2,025   │
│ Bytes/Sec │ 26.7 MB │ 26.7 MB │ 77.8 MB │ 98.2 MB │ 69.8 MB  │ 25.8 MB  │ 26.7 MB │
Req/Bytes counts sampled once per second.
# of samples: 40
212k requests in 40.03s, 2.79 GB read
123 errors (5 timeouts)";

const WRK_TEXT: &str = "Running 30s test @ http://127.0.0.1:8080/index.html
  12 threads and 400 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms   1.92s    93.69%
    Req/Sec    56.20k     8.07k   62.00k    86.54%
  Latency Distribution
     50%  250.00us
     99%    5.80ms
  22464657 requests in 30.00s, 17.76GB read
  Socket errors: connect 0, read 2, write 0, timeout 1
  Non-2xx or 3xx responses: 57
Requests/sec: 748868.53
Transfer/sec:    606.33MB
";

const AUTOCANNON_JSON: &str = r#"{"title":"shop","url":"http://localhost:3000","connections":10,"pipelining":1,"duration":10.04,
"samples":10,"start":"2026-01-01T00:00:00.000Z","finish":"2026-01-01T00:00:10.040Z","errors":3,"timeouts":2,"mismatches":0,
"non2xx":4,"resets":0,"1xx":0,"2xx":9996,"3xx":0,"4xx":4,"5xx":0,
"latency":{"average":9.5,"mean":9.5,"stddev":1.2,"min":7,"max":60,"p2_5":8,"p50":9,"p75":10,"p90":11,"p97_5":12,"p99":15,"totalCount":10000},
"requests":{"average":1000,"mean":1000,"stddev":10,"min":900,"max":1100,"total":10000,"p1":900,"p2_5":900,"p50":1001,"p97_5":1100,"sent":10010},
"throughput":{"average":1e6,"mean":1e6,"stddev":1e4,"min":9e5,"max":1.1e6,"total":1e7,"p1":9e5,"p2_5":9e5,"p50":1e6,"p97_5":1.1e6}}"#;

const K6_EXPORT: &str = r#"{"metrics":{"http_reqs":{"count":3000,"rate":100},"vus_max":{"value":50,"min":50,"max":50},
"http_req_failed":{"passes":30,"fails":2970,"value":0.01},"data_received":{"count":123456,"rate":1},"dropped_iterations":{"count":7,"rate":0.1},
"http_req_duration":{"avg":12.5,"min":1,"med":10,"max":99,"p(90)":20,"p(95)":30}}}"#;

const K6_SUMMARY: &str = r#"{"metrics":{"http_reqs":{"type":"counter","contains":"default","values":{"count":3000,"rate":100}},
"http_req_duration":{"type":"trend","contains":"time","values":{"avg":12.5,"min":1,"med":10,"max":99,"p(90)":20,"p(95)":30}}}}"#;

fn source(text: &str) -> Source {
    Source { name: "given".into(), path: "file".into(), text: text.into() }
}

fn one(text: &str) -> Run {
    let mut runs = read(&source(text)).unwrap();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn gate<'a>(run: &'a Run, name: &str) -> &'a Outcome {
    &run.verdicts.iter().find(|verdict| verdict.gate == name).unwrap().outcome
}

fn close(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() < 1e-6 * wanted.max(1.0)
}

#[test]
fn autocannon_text_with_two_runs() {
    let results = results(&[source(AUTOCANNON_TEXT)], Provenance::default(), 1).unwrap();
    assert_eq!(results.targets, ["Node runner", "three workers"]);
    let [node, workers] = results.runs.as_slice() else { panic!("{results:?}") };
    assert_eq!((node.url.as_str(), node.connections), ("http://10.0.1.210:30000", Some(100)));
    let figures = &node.figures;
    assert_eq!((figures.answered, figures.failed, figures.bytes_received), (132_848, 0, Some(1_750_000_000)));
    assert!(close(figures.requests_per_second, 3321.2) && close(figures.elapsed_seconds, 40.03));
    let latency = figures.latency.as_ref().unwrap();
    assert_eq!((latency.at(2.5), latency.at(99.0), latency.max_ms), (Some(24.0), Some(59.0), Some(826.0)));
    assert!(close(figures.bytes_each_second.unwrap().p97_5, 46.3e6));
    assert_eq!((workers.figures.failed, workers.figures.failures["timeout"]), (123, 5));
    // Its arguments were quoted as one, so that it opened no connection.
    assert!(
        matches!(gate(node, "warm-up"), Outcome::Invalid(why) if why.contains("no load")),
        "{:?}",
        node.verdicts
    );
    assert!(matches!(gate(workers, "warm-up"), Outcome::NotChecked(_)));
    assert!(matches!(gate(workers, "errors"), Outcome::Invalid(why) if why.contains("timeout 5")));
    assert_eq!(gate(node, "littles-law"), &Outcome::Passed);
    assert!(matches!(gate(node, "throttling"), Outcome::NotChecked(_)));
}

/// As `--no-progress` leaves it: the tables alone.
#[test]
fn autocannon_text_without_a_head() {
    let from = |text: &'static str| text.get(text.find('┌').unwrap()..).unwrap();
    let tables = from(AUTOCANNON_TEXT.split("three workers:").next().unwrap());
    let run = one(tables);
    assert_eq!((run.target.as_str(), run.connections, run.figures.answered), ("given", None, 132_848));
    assert_eq!(read(&source(&tables.repeat(3))).unwrap().len(), 3);
}

/// What our own report of a run says in autocannon's layout is read as the same figures.
#[test]
fn our_own_tables_can_be_read() {
    let run = one(AUTOCANNON_TEXT.split("three workers:").next().unwrap());
    let again = one(&crate::reports::autocannon::text(&run));
    assert_eq!((again.figures.answered, again.figures.latency), (run.figures.answered, run.figures.latency));
    let wrk = one(WRK_TEXT);
    let again = one(&crate::reports::wrk::text(&wrk));
    assert_eq!((again.figures.failed, again.figures.latency), (60, wrk.figures.latency));
}

#[test]
fn autocannon_json() {
    let run = one(AUTOCANNON_JSON);
    assert_eq!((run.target.as_str(), run.row.as_str(), run.mode), ("shop", "10 connections", Mode::Closed));
    let figures = &run.figures;
    assert_eq!((figures.answered, figures.failed, figures.sent), (9996, 7, Some(10_010)));
    assert_eq!(figures.failures, [("timeout".into(), 2), ("not 2xx".into(), 4), ("error".into(), 1)].into());
    assert_eq!(figures.latency.as_ref().unwrap().at(97.5), Some(12.0));
    assert_eq!(figures.requests_each_second.unwrap().samples, 10);
    let two = format!("[{AUTOCANNON_JSON},{AUTOCANNON_JSON}]");
    assert_eq!(read(&source(&two)).unwrap().len(), 2);
    // As with a warm-up: one document after the other.
    assert_eq!(read(&source(&format!("{AUTOCANNON_JSON}\n{AUTOCANNON_JSON}\n"))).unwrap().len(), 2);
    let piped = one(&AUTOCANNON_JSON.replace("\"pipelining\":1", "\"pipelining\":4"));
    assert_eq!(piped.mode, Mode::Unknown);
}

#[test]
fn wrk_text() {
    let run = one(WRK_TEXT);
    assert_eq!((run.target.as_str(), run.threads, run.connections), ("given", Some(12), Some(400)));
    let figures = &run.figures;
    assert_eq!((figures.generator, figures.answered, figures.failed), (Generator::Wrk, 22_464_600, 60));
    assert_eq!(figures.failures, [("read".into(), 2), ("timeout".into(), 1), ("not 2xx".into(), 57)].into());
    let latency = figures.latency.as_ref().unwrap();
    assert!(close(latency.mean_ms, 0.63591) && close(latency.max_ms.unwrap(), 1920.0));
    assert!(close(latency.at(50.0).unwrap(), 0.25) && close(latency.at(99.0).unwrap(), 5.8));
    assert!(close(figures.requests_per_second, 748_820.0), "{}", figures.requests_per_second);
    assert_eq!(read(&source(&WRK_TEXT.repeat(3))).unwrap().len(), 3);
}

/// wrk adds latencies that it thinks it missed, so their mean may be too long for the throughput, but not too short.
#[test]
fn latencies_that_wrk_added_are_no_fault_of_the_run() {
    let with = |mean: &str| {
        let text = WRK_TEXT.replace("635.91us", mean);
        let all = results(&[source(&text)], Provenance::default(), 1).unwrap();
        gate(&all.runs[0], "littles-law").clone()
    };
    assert_eq!(with("635.91us"), Outcome::Passed);
    assert!(matches!(with("200.00us"), Outcome::Invalid(_)));
}

#[test]
fn k6_summaries_of_both_kinds() {
    let run = one(K6_EXPORT);
    let figures = &run.figures;
    assert_eq!(
        (figures.answered, figures.failed, figures.dropped, run.connections),
        (2970, 30, Some(7), Some(50))
    );
    assert!(close(figures.elapsed_seconds, 30.0) && close(figures.requests_per_second, 99.0));
    assert_eq!(figures.latency.as_ref().unwrap().at(95.0), Some(30.0));
    let run = one(K6_SUMMARY);
    assert_eq!((run.figures.answered, run.figures.failed, run.connections), (3000, 0, None));
}

#[test]
fn our_own_results() {
    let results = results(&[source(WRK_TEXT)], Provenance::default(), 3).unwrap();
    let text = crate::reports::json::text(&results).unwrap();
    assert_eq!(one(&text).figures, results.runs[0].figures);
    assert_eq!(document(&text).unwrap(), results);
    // Alone they stay what they are, whoever reads them when.
    let reader = Provenance { command_line: vec!["later".into()], ..Provenance::default() };
    assert_eq!(super::results(&[source(&text)], reader, 9).unwrap(), results);
    let later = text.replacen("\"version\": 1", "\"version\": 9", 1);
    assert!(read(&source(&later)).unwrap_err().to_string().contains("version: 9"));
    let broken = text.replacen("\"answered\": 22464600", "\"answered\": -1", 1);
    assert!(read(&source(&broken)).unwrap_err().to_string().contains("-1"), "{broken}");
}

/// Five runs of each are enough to tell, and a single pair is not.
#[test]
fn imported_runs_are_compared() {
    let rate = |rate: u32| WRK_TEXT.replace("22464657", &(rate * 30).to_string()).replace(": 57", ": 0");
    let clean = |text: String| text.replace("read 2", "read 0").replace("timeout 1", "timeout 0");
    // As many requests on their way as connections, or the run isn't believed.
    let file = |name: &str, base: u32, fits: &str| Source {
        name: name.into(),
        path: format!("{name}.txt"),
        text: (0..5).map(|n| clean(rate(base + n)).replace("635.91us", fits)).collect(),
    };
    let sources = [file("a", 1000, "399.00ms"), file("b", 2000, "199.00ms")];
    let all = results(&sources, Provenance::default(), 1).unwrap();
    let rates = all.comparisons.iter().find(|one| one.metric == "requests/s").unwrap();
    assert_eq!((rates.finding.sign(), rates.ratio.pairs), ("+", 5), "{rates:?}\n{:?}", all.runs[0].verdicts);
    assert_eq!(all.provenance.sources, ["a.txt", "b.txt"]);
}

#[test]
fn errors_name_the_line_or_the_field() {
    let cases = [
        ("", "none of the formats"),
        ("hello", "none of the formats"),
        ("{", "line 1"),
        ("{}", "none of the formats"),
        ("[]", "no complete run"),
        ("Running 1s test @ x\n  1 threads and 1 connections\n", "no complete run"),
    ];
    let changed = [
        (AUTOCANNON_TEXT, "24 ms", "fast", "line 11: \"│ Latency │ fast"),
        (AUTOCANNON_TEXT, "│ Stat    │ 2.5%", "│ Stat    │ 7.5%", "line 11"),
        (AUTOCANNON_TEXT, "133k requests", "many requests", "line 22"),
        (AUTOCANNON_TEXT, "40.03s, 1.75 GB", "0s, 1.75 GB", "above 0"),
        (AUTOCANNON_TEXT, "test @ http://10.0.1.210:30000", "test", "line 6"),
        (WRK_TEXT, "635.91us", "soon", "line 4"),
        (WRK_TEXT, "22464657", "-5", "line 9"),
        (WRK_TEXT, "connect 0,", "connect x,", "line 10"),
        (AUTOCANNON_JSON, "\"average\":9.5", "\"average\":\"x\"", "latency.average: \"x\" is not allowed"),
        (AUTOCANNON_JSON, "\"p50\":1001", "\"p50\":-1", "requests.p50: -1"),
        (
            AUTOCANNON_JSON,
            "\"duration\":10.04",
            "\"duration\":0",
            "duration: 0 is not allowed; it must be above 0",
        ),
        (AUTOCANNON_JSON, "\"total\":10000,", "", "requests.total: nothing"),
        (K6_EXPORT, "\"rate\":100", "\"rate\":null", "metrics.http_reqs.rate: nothing"),
        (K6_EXPORT, "\"avg\":12.5", "\"avg\":[]", "metrics.http_req_duration.avg: []"),
        (K6_EXPORT, "http_req_duration", "other", "metrics.http_req_duration: nothing"),
    ];
    for (text, part) in cases {
        let message = read(&source(text)).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
    for (text, from, to, part) in changed {
        assert!(text.contains(from), "{from}");
        let message = read(&source(&text.replacen(from, to, 1))).unwrap_err().to_string();
        assert!(message.contains(part), "{from} → {to}: {message}");
    }
    let (path, _) = results(&[source(WRK_TEXT), source("?")], Provenance::default(), 1).unwrap_err();
    assert_eq!(path, "file");
}

/// Whatever is in a file: an answer or an error, and figures without NaN that every format can write.
#[test]
fn garbage_is_survived() {
    let mut random = fastrand::Rng::with_seed(11);
    let texts = [AUTOCANNON_TEXT, WRK_TEXT, AUTOCANNON_JSON, K6_EXPORT, K6_SUMMARY];
    let pieces = [
        "",
        "-1",
        "1e308",
        "9".repeat(40).leak(),
        "│",
        "null",
        "\u{1b}[",
        "Running ",
        "\0",
        "µ",
        ":",
        "nan",
        "%",
    ];
    for round in 0..500 {
        let mut text: Vec<char> = texts[round % texts.len()].chars().collect();
        for _ in 0..=random.usize(..4) {
            let at = random.usize(..text.len());
            let end = (at + random.usize(..12)).min(text.len());
            text.splice(at..end, pieces[random.usize(..pieces.len())].chars());
            if random.u8(..) < 20 {
                text.truncate(random.usize(..=text.len()));
            }
            if text.is_empty() {
                break;
            }
        }
        let text: String = text.into_iter().collect();
        match results(&[source(&text)], Provenance::default(), 1) {
            Err((_, error)) => assert!(!error.to_string().is_empty()),
            Ok(results) => {
                assert!(results.runs.iter().all(|run| run.figures.requests_per_second.is_finite()), "{text}");
                assert!(!crate::reports::json::text(&results).unwrap().is_empty());
                assert!(crate::reports::html::page(&results).ends_with("</html>\n"));
                assert!(!crate::reports::markdown::text(&results, "").contains("NaN"));
            }
        }
    }
}

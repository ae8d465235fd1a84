//! `bench import`: results of other tools, and files that are none.

mod common;

use common::{Folder, said, text};
use serde_json::Value;

const AUTOCANNON_TEXT: &str = "Running 10s test @ http://localhost:3000
10 connections

┌─────────┬──────┬──────┬───────┬───────┬─────────┬─────────┬───────┐
│ Stat    │ 2.5% │ 50%  │ 97.5% │ 99%   │ Avg     │ Stdev   │ Max   │
├─────────┼──────┼──────┼───────┼───────┼─────────┼─────────┼───────┤
│ Latency │ 8 ms │ 9 ms │ 12 ms │ 15 ms │ 9.5 ms  │ 1.2 ms  │ 60 ms │
└─────────┴──────┴──────┴───────┴───────┴─────────┴─────────┴───────┘
┌───────────┬────────┬────────┬────────┬────────┬────────┬─────────┬────────┐
│ Stat      │ 1%     │ 2.5%   │ 50%    │ 97.5%  │ Avg    │ Stdev   │ Min    │
├───────────┼────────┼────────┼────────┼────────┼────────┼─────────┼────────┤
│ Req/Sec   │ 900    │ 900    │ 1,001  │ 1,100  │ 1,000  │ 10      │ 900    │
├───────────┼────────┼────────┼────────┼────────┼────────┼─────────┼────────┤
│ Bytes/Sec │ 90 kB  │ 90 kB  │ 100 kB │ 110 kB │ 100 kB │ 1 kB    │ 90 kB  │
└───────────┴────────┴────────┴────────┴────────┴────────┴─────────┴────────┘

Req/Bytes counts sampled once per second.
# of samples: 10

10k requests in 10.04s, 1 MB read
";

const AUTOCANNON_JSON: &str = r#"{"title":"from json","url":"http://localhost:3000","connections":10,"pipelining":1,"duration":10.04,
"samples":10,"start":"2026-01-01T00:00:00.000Z","finish":"2026-01-01T00:00:10.040Z","errors":0,"timeouts":0,"mismatches":0,
"non2xx":0,"resets":0,"1xx":0,"2xx":10000,"3xx":0,"4xx":0,"5xx":0,
"latency":{"average":9.5,"mean":9.5,"stddev":1.2,"min":7,"max":60,"p2_5":8,"p50":9,"p75":10,"p90":11,"p97_5":12,"p99":15,"totalCount":10000},
"requests":{"average":1000,"mean":1000,"stddev":10,"min":900,"max":1100,"total":10000,"p1":900,"p2_5":900,"p50":1001,"p97_5":1100,"sent":10010},
"throughput":{"average":1e6,"mean":1e6,"stddev":1e4,"min":9e5,"max":1.1e6,"total":1e7,"p1":9e5,"p2_5":9e5,"p50":1e6,"p97_5":1.1e6}}"#;

const WRK_TEXT: &str = "Running 30s test @ http://127.0.0.1:8080/index.html
  2 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    10.00ms    0.89ms   20.00ms    93.69%
    Req/Sec     5.00k     8.07      6.00k    86.54%
  Latency Distribution
     50%   10.00ms
     99%   15.80ms
  300000 requests in 30.00s, 1.00GB read
Requests/sec:  10000.00
Transfer/sec:     33.00MB
";

const K6_SUMMARY: &str = r#"{"metrics":{"http_reqs":{"type":"counter","contains":"default","values":{"count":3000,"rate":100}},
"http_req_duration":{"type":"trend","contains":"time","values":{"avg":12.5,"min":1,"med":10,"max":99,"p(90)":20,"p(95)":30}}}}"#;

#[test]
fn results_of_every_tool_are_read_side_by_side() {
    let folder = Folder::new("import");
    let files = [
        folder.file("text.txt", AUTOCANNON_TEXT),
        folder.file("a.json", AUTOCANNON_JSON),
        format!("other={}", folder.file("wrk.txt", WRK_TEXT)),
        folder.file("k6.json", K6_SUMMARY),
    ];
    let page = folder.0.join("r.html").to_string_lossy().into_owned();
    let mut arguments = vec!["bench", "import", "-o", "json", "--report", &page];
    arguments.extend(files.iter().map(String::as_str));
    let output = said(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Called as the file says, else as the person does, else as the file is.
    assert_eq!(results["targets"], serde_json::json!(["text", "from json", "other", "k6"]));
    let runs = results["runs"].as_array().unwrap();
    let seen: Vec<_> = runs
        .iter()
        .map(|run| {
            let figures = &run["figures"];
            let rate = figures["requests_per_second"].as_f64().unwrap();
            (
                figures["generator"].as_str().unwrap(),
                rate.round(),
                figures["latency"]["max_ms"].as_f64().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("autocannon", 1000.0, 60.0),
        ("autocannon", 996.0, 60.0),
        ("wrk", 10000.0, 20.0),
        ("k6", 100.0, 99.0),
    ];
    assert_eq!(seen, expected);
    assert!(std::fs::read_to_string(page).unwrap().contains("Latency percentiles"));

    // What was read once is read again, from this program's own results.
    let own = folder.file("own.json", &text(&output.stdout));
    let again: Value =
        serde_json::from_slice(&said(&["bench", "import", "-o", "json", &own]).stdout).unwrap();
    assert_eq!(again["runs"], results["runs"]);
}

#[test]
fn files_that_can_not_be_read_are_named_with_what_is_wrong_and_nothing_is_written() {
    let folder = Folder::new("import-wrong");
    let good = folder.file("good.txt", WRK_TEXT);
    let report = folder.0.join("r.json");
    let binary = folder.0.join("binary");
    std::fs::write(&binary, [0xff, 0xfe, 0, 1]).unwrap();
    let cases = [
        (folder.file("empty", ""), "none of the formats"),
        (folder.file("prose.txt", "It was very fast.\n"), "none of the formats"),
        (folder.file("cut.json", AUTOCANNON_JSON.split_at(300).0), "no JSON"),
        (folder.file("other.json", "{\"name\": \"package\"}"), "none of the formats"),
        (
            folder.file("type.json", &AUTOCANNON_JSON.replace("\"average\":9.5", "\"average\":\"fast\"")),
            "latency.average",
        ),
        (folder.file("wrk-cut.txt", WRK_TEXT.split_at(120).0), "wrk"),
        (
            folder
                .file("version.json", "{\"version\": 99, \"provenance\": {}, \"targets\": [], \"runs\": []}"),
            "99",
        ),
        (binary.to_string_lossy().into_owned(), "UTF-8"),
        (folder.0.join("missing").to_string_lossy().into_owned(), "No such file"),
    ];
    for (file, why) in cases {
        let output = said(&["bench", "import", &good, &file, "--report", &report.to_string_lossy()]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file}: {told}");
        assert!(told.contains(&file) && told.contains(why), "{file}: {why}: {told}");
        assert!(output.stdout.is_empty() && !report.exists(), "{file}: something was written");
    }
    assert_eq!(said(&["bench", "import"]).status.code(), Some(2));
}

//! `bench` against servers of this machine, without a cluster.

mod common;

use common::{Folder, Running, answering, program, said, text};
use serde_json::Value;

#[test]
fn two_servers_are_compared_in_turns_and_every_report_is_written() {
    let folder = Folder::new("bench");
    let (one, two) = (answering(), answering());
    let reports = ["json", "md", "html", "txt"]
        .map(|end| folder.0.join(format!("r.{end}")).to_string_lossy().into_owned());
    let mut arguments = vec![
        "bench".to_owned(),
        format!("old=http://127.0.0.1:{one}/"),
        format!("new=http://127.0.0.1:{two}/"),
    ];
    arguments.extend(
        ["-c", "2", "-d", "200ms", "--warm-up", "100ms", "--rounds", "5", "--seed", "7"].map(str::to_owned),
    );
    arguments.extend(reports.iter().flat_map(|report| ["--report".to_owned(), report.clone()]));
    let output = program().args(&arguments).output().unwrap();
    // A busy machine may have made a run invalid; that is no error of this program.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("10 runs, seed 7") && told.contains("run 10 of 10"), "{told}");
    assert!(text(&output.stdout).contains("requests/s"), "{}", text(&output.stdout));

    let results: Value = serde_json::from_str(&std::fs::read_to_string(&reports[0]).unwrap()).unwrap();
    assert_eq!(results["runs"].as_array().unwrap().len(), 10);
    assert_eq!(results["provenance"]["seed"], 7);
    assert_eq!(results["targets"], serde_json::json!(["old", "new"]));
    for report in &reports[1..] {
        assert!(std::fs::metadata(report).unwrap().len() > 100, "{report}");
    }
}

#[test]
fn a_page_about_a_suite_has_its_ratios_what_was_published_and_a_plot() {
    let folder = Folder::new("page");
    let results = folder.0.join("results.json").to_string_lossy().into_owned();
    let targets =
        ["pm2", "watt", "node-cluster"].map(|name| format!("{name}=http://127.0.0.1:{}/", answering()));
    let mut arguments =
        vec!["bench", "-c", "2", "-d", "100ms", "--warm-up", "50ms", "--rounds", "5", "--report", &results];
    arguments.extend(targets.iter().map(String::as_str));
    assert!(matches!(program().args(&arguments).output().unwrap().status.code(), Some(0 | 3)));

    let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/suites/pm2-vs-watt/suite.yaml");
    let page = || {
        let pair = format!("{suite}={results}");
        let mut command = program();
        command.args(["bench", "performance", &pair, "--plots", "plots"]).current_dir(&folder.0);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let first = page();
    for part in [
        "# Performance",
        "## A small JSON handler",
        "![requests a second as ratios](plots/pm2-vs-watt.svg)",
        "| against pm2 | requests/s | mean ms | p99 ms | valid pairs |",
        "| watt, 2 connections |",
        "Watt answered 20 % more requests than pm2",
        "watt-performance-demos",
        "| node-cluster, 2 connections |",
        "as autocannon prints them",
        "Req/Sec",
    ] {
        assert!(first.contains(part), "{part}:\n{first}");
    }
    assert!(std::fs::read_to_string(folder.0.join("plots/pm2-vs-watt.svg")).unwrap().ends_with("</svg>\n"));
    assert_eq!(page(), first);

    let output = said(&["bench", "performance", &format!("{suite}={suite}")]);
    assert!(text(&output.stderr).contains("holds no results of `bench"), "{}", text(&output.stderr));
}

#[test]
fn ctrl_c_leaves_a_partial_report_that_says_so() {
    let port = answering();
    let mut command = program();
    command.args([
        "bench",
        &format!("http://127.0.0.1:{port}/"),
        "-c",
        "1",
        "-d",
        "60s",
        "--warm-up",
        "100ms",
        "-o",
        "json",
    ]);
    let mut running = Running::start(&mut command, "partial");
    running.until("the first run", |text| text.contains("run 1 of 1"));
    std::thread::sleep(std::time::Duration::from_millis(700));
    running.signal("INT");
    assert_eq!(running.ended(), 130, "{}", running.text());
    assert!(running.text().contains("\"interrupted\": true"), "{}", running.text());
}

#[test]
fn wrong_flags_and_servers_that_are_not_there_are_told() {
    for (code, arguments, parts) in [
        (1, &["bench", "http://127.0.0.1:1/", "-d", "1s"][..], &["refused"][..]),
        (2, &["bench", "ftp://x/"], &["ftp://x/", "http://"]),
        (2, &["bench", "http://127.0.0.1:1/", "-d", "5x"], &["duration", "5x"]),
        (2, &["bench", "http://127.0.0.1:1/", "-c", "0"], &["connections", "0"]),
        (2, &["bench", "a=http://127.0.0.1:1/", "a=http://127.0.0.1:2/"], &["\"a\"", "name of its own"]),
        (
            1,
            &["bench", "https://127.0.0.1:1/", "--ca", "/nowhere/ca.pem"],
            &["/nowhere/ca.pem", "No such file"],
        ),
        (2, &["bench", "http://127.0.0.1:1/", "--search", "p99"], &["search", "p99", "p99<50ms"]),
        (2, &["bench", "http://127.0.0.1:1/", "--http2", "--streams", "0"], &["streams", "0"]),
        (
            2,
            &["bench", "a=http://127.0.0.1:1/", "b=http://127.0.0.1:2/", "--rounds", "2"],
            &["rounds", "2", "5"],
        ),
    ] {
        let output = said(arguments);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        for part in parts {
            assert!(told.contains(part), "{arguments:?}: {part}: {told}");
        }
    }
    for flags in [["--streams", "2"], ["--search-from", "5"]] {
        let output = said(&[&["bench", "http://127.0.0.1:1/"], &flags[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", text(&output.stderr));
    }
    let output = said(&["bench", "http://x/", "--report", "x.pdf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(".html"));
}

#[test]
fn the_highest_rate_that_keeps_a_promise_is_searched_for_and_told() {
    let port = answering();
    let url = format!("shop=http://127.0.0.1:{port}/");
    // A promise that any machine keeps: the search ends at the highest rate allowed.
    let flags =
        ["--search", "p50<8s,failed<50%", "--search-from", "20", "--search-most", "40", "-d", "300ms"];
    let output = said(&[&["bench", &url, "--warm-up", "200ms", "-o", "json"], &flags[..]].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("  20/s: kept") && told.contains("  40/s: kept"), "{told}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let search = &results["runs"][0]["search"];
    assert_eq!(
        (&search["highest_per_second"], &search["at_the_most"]),
        (&40.0.into(), &true.into()),
        "{search}"
    );
    assert_eq!(search["promise"], "p50 < 8000 ms, failed < 50 %");
}

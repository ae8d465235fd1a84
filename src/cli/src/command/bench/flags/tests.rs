use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    load: LoadFlags,
}

fn settings(line: &str) -> Result<Settings, Error> {
    let words = std::iter::once("x").chain(line.split(' ').filter(|word| !word.is_empty()));
    Line::try_parse_from(words).unwrap().load.settings()
}

#[test]
fn a_preset_is_where_the_other_flags_say_nothing() {
    let found = settings("--preset watt -d 3s").unwrap();
    assert_eq!((found.ladder.clone(), found.warm_up.as_secs(), found.duration.as_secs()), (vec![100], 10, 3));
    let found = settings("--preset wrk-ladder").unwrap();
    assert_eq!((found.ladder, found.duration.as_secs()), (vec![50, 500, 1000], 60));
    assert_eq!(settings("-c 7").unwrap().ladder, [7]);
}

#[test]
fn a_suite_says_what_a_person_leaves_open() {
    let protocol = Protocol {
        preset: Some("watt".into()),
        duration: Some("7s".into()),
        rounds: Some(6),
        ..Protocol::default()
    };
    let under = |line: &str| {
        let words = std::iter::once("x").chain(line.split(' ').filter(|word| !word.is_empty()));
        Line::try_parse_from(words).unwrap().load.or(&protocol).settings().unwrap()
    };
    let found = under("-c 9");
    assert_eq!((found.ladder, found.duration.as_secs(), found.rounds), (vec![9], 7, Some(6)));
    let found = under("--preset cloudgate -d 3s");
    assert_eq!((found.ladder.len(), found.duration.as_secs(), found.rounds), (3, 3, None));
}

#[test]
fn wrong_values_name_the_field_the_value_and_what_is_allowed() {
    for (line, field, value) in [
        ("-d 5x", "duration", "5x"),
        ("-c 0", "connections", "0"),
        ("--preset x", "preset", "x"),
        ("--rate -1", "rate", "-1"),
        ("--ramp 1-2", "ramp", "1-2"),
        ("--warm-up soon", "warm-up", "soon"),
        ("--search p99", "search", "p99"),
        ("--search p99<1s --search-from 0", "search-from", "0"),
        ("--search p99<1s --search-most 5", "search most", "5"),
    ] {
        let line = line.replace("--rate -1", "--rate=-1");
        let error = settings(&line).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains(value), "{error}");
    }
}

#[test]
fn the_words_of_the_flags_are_the_flags_again() {
    let line = "--preset cloudgate -c 3 --rate 5.5 --even --close -t 2 -X POST --body=b --warm-up 1s";
    let words = |line: &str| {
        let words = std::iter::once("x").chain(line.split(' '));
        Line::try_parse_from(words).unwrap().load.words(9, 5)
    };
    let again = words(line);
    assert_eq!(words(&again.join(" ")), again);
    assert!(again.contains(&"--seed=9".to_owned()) && again.contains(&"--even".to_owned()), "{again:?}");
    let search = "--search p99<5ms --search-from 7 --http2 --streams 3 --insecure --body=b";
    let again = words(search);
    assert_eq!(words(&again.join(" ")), again);
    for word in ["--search=p99<5ms", "--search-from=7", "--http2", "--streams=3", "--insecure"] {
        assert!(again.contains(&word.to_owned()), "{word}: {again:?}");
    }
}

#[test]
fn what_is_spoken_and_looked_for_is_in_every_plan() {
    let target = Target::of_urls("a", vec!["https://127.0.0.1:1/x".to_owned()]);
    let line = "--http2 --streams 5 --insecure --search p99<50ms -H Host:shop.example:8443";
    let campaign = settings(line).unwrap().campaign(&[target]).unwrap();
    let plan = &campaign.contenders[0].plan;
    assert_eq!((plan.protocol, plan.streams), (Spoken::Http2, 5));
    assert!(format!("{:?}", plan.tls).contains("shop.example"), "{:?}", plan.tls);
    assert_eq!(campaign.search.unwrap().promise.within, Duration::from_millis(50));
    assert!(campaign.check().is_ok());
}

#[test]
fn every_address_of_a_target_gets_connections() {
    let target =
        |name: &str, urls: &[&str]| Target::of_urls(name, urls.iter().map(|&url| url.to_owned()).collect());
    let targets = [
        target("a", &["http://10.0.0.1:30000", "http://10.0.0.2:30000"]),
        target("b", &["http://[::1]:1/x"]),
    ];
    let campaign = settings("--seed 5 -t 4 -c 2,8").unwrap().campaign(&targets).unwrap();
    assert_eq!((campaign.rounds, campaign.seed, campaign.turns().len()), (5, 5, 20));
    assert_eq!(campaign.contenders[0].plan.addresses.len(), 2);
    // A row with fewer connections than threads could not be measured.
    assert_eq!(campaign.contenders[0].plan.threads, 2);
    assert!(campaign.check().is_ok());
    assert_eq!(settings("").unwrap().campaign(&targets[..1]).unwrap().rounds, 1);
}

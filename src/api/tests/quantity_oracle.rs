//! Compares every column of `data/quantities.tsv`, which Kubernetes' own code wrote (`e2e/oracle/quantities`), with this
//! crate's quantities; and what the table cannot hold: conversions, messages, the schema.

#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "Clippy knows tests by #[test], which their helpers lack"
)]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde_json::json;
use workerapp_api::{Quantity, QuantityError};

const TABLE: &str = include_str!("data/quantities.tsv");
const HEADER: &str = "input\tresult\tcanonical\tnano\tceil\tmilli\tValue()\tMilliValue()\tstored";

/// One line of the table that is no error.
struct Row {
    input: String,
    columns: Vec<&'static str>,
}

impl Row {
    fn canonical(&self) -> &str {
        self.columns[2]
    }

    fn number(&self, column: usize) -> i128 {
        self.columns[column].parse().unwrap_or_else(|e| panic!("{:?}, column {column}: {e}", self.input))
    }
}

fn rows() -> impl Iterator<Item = Row> {
    let mut lines = TABLE.lines();
    assert_eq!(lines.next(), Some(HEADER), "the test reads the columns by position");
    lines.map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(columns.len(), 9, "{line:?}");
        Row { input: serde_json::from_str(columns[0]).expect(line), columns }
    })
}

fn valid_rows() -> impl Iterator<Item = Row> {
    rows().filter(|row| row.columns[1] == "ok")
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn hash(quantity: &Quantity) -> u64 {
    let mut hasher = DefaultHasher::new();
    quantity.hash(&mut hasher);
    hasher.finish()
}

/// Fails with every difference, not with the first one alone.
fn assert_none(differences: &[String]) {
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn every_row_of_the_table_is_met() {
    let mut differences = Vec::new();
    let (mut valid, mut invalid, mut compared) = (0, 0, 0);
    for row in rows() {
        let input = &row.input;
        let mut expect = |what: &str, ours: String, theirs: &str| {
            if ours != theirs {
                differences.push(format!("{input:?}: {what} is {ours}, apimachinery has {theirs}"));
            }
        };
        let ours = input.parse::<Quantity>();
        expect("the result", if ours.is_ok() { "ok" } else { "error" }.to_owned(), row.columns[1]);
        let Ok(ours) = ours else {
            invalid += 1;
            continue;
        };
        valid += 1;
        if row.columns[1] != "ok" {
            continue;
        }
        expect("the canonical form", ours.to_string(), row.canonical());
        expect("nano", ours.nanos().to_string(), row.columns[3]);
        expect("ceil", ours.ceil().to_string(), row.columns[4]);
        expect("milli", ours.milli_ceil().to_string(), row.columns[5]);
        expect("the stored form", ours.rounded_to_milli().to_string(), row.columns[8]);
        // The two functions overflow silently, and round some negative fractions towards zero against their own promise:
        // there, only the columns above are right.
        for (what, ours, column) in [("Value()", ours.ceil(), 6), ("MilliValue()", ours.milli_ceil(), 7)] {
            if ours >= 0 && i64::try_from(ours).is_ok() {
                compared += 1;
                expect(what, ours.to_string(), row.columns[column]);
            }
        }
    }
    assert_none(&differences);
    assert!(
        valid >= 1800 && invalid >= 200,
        "a table of {valid} valid and {invalid} invalid rows is cut off"
    );
    assert!(compared >= 1500, "only {compared} results of Value() and MilliValue() were compared");
}

#[test]
fn order_equality_and_hash_are_those_of_the_value() {
    let mut quantities: Vec<(i128, Quantity)> =
        valid_rows().map(|row| (row.number(3), quantity(&row.input))).collect();
    quantities.sort_by(|(_, a), (_, b)| a.cmp(b));
    let mut differences = Vec::new();
    for pair in quantities.windows(2) {
        let [(less, a), (more, b)] = pair else { unreachable!("windows of two") };
        // What is clamped in the table is no longer told apart there.
        let clamped = [i128::MIN, i128::MAX].contains(less) && less == more;
        if less > more || (!clamped && (less == more) != (a == b)) || (a == b && hash(a) != hash(b)) {
            differences.push(format!("{a} ({less}) and {b} ({more})"));
        }
    }
    assert_none(&differences);

    assert!(quantity("1e400") < quantity("1.1e400"));
    assert!(quantity("-1e400") < quantity("-1e399"));
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert_eq!(quantity("-0"), Quantity::default());
}

#[test]
fn the_canonical_form_reads_back_to_itself_and_to_the_value() {
    let mut differences = Vec::new();
    for row in valid_rows() {
        let (ours, again) = (quantity(&row.input), quantity(row.canonical()));
        if again.to_string() != row.canonical() {
            differences.push(format!("{} becomes {again}", row.canonical()));
        }
        // From 1000E on apimachinery's own canonical form loses zeros: there is no unit for them.
        let without_unit = ours.nanos().unsigned_abs() >= 10_u128.pow(30) && !row.canonical().contains('e');
        if again != ours && !without_unit {
            differences.push(format!("{:?} reads back as {again}", row.input));
        }
        // Beyond 128 bits both are clamped, and no longer tell of each other.
        let clamped = [i128::MIN, i128::MAX].contains(&ours.nanos());
        if !clamped && ours.floor() != ours.nanos() / 1_000_000_000 {
            differences.push(format!(
                "{:?}: floor is {}, of {} nano units",
                row.input,
                ours.floor(),
                ours.nanos()
            ));
        }
    }
    assert_none(&differences);
}

#[test]
fn any_number_of_digits_is_exact() {
    for length in 1..200 {
        let nines = "9".repeat(length);
        assert_eq!(quantity(&format!("0.{nines}")).ceil(), 1, "0.{nines}");
        assert_eq!(
            quantity(&format!("{nines}.{nines}")).to_string().contains('9'),
            length < 10,
            "{nines}.{nines}"
        );
        let zeros = "0".repeat(length);
        assert_eq!(quantity(&format!("1{zeros}")), quantity(&format!("1e{length}")));
    }
}

#[test]
fn texts_that_would_take_the_api_server_for_ever_are_answered() {
    for text in ["1e-2147483648", "1e2147483648", "-1e-2147483647", "12345678901234567890e-2147483648"] {
        assert_eq!(quantity(text).nanos().abs(), 1, "{text}");
    }
}

#[test]
fn numbers_are_taken_by_their_shortest_text() {
    for (value, canonical) in [
        (json!(2), "2"),
        (json!(-3), "-3"),
        (json!(0), "0"),
        (json!(0.5), "500m"),
        (json!(0.1), "100m"),
        (json!(0.3), "300m"),
        (json!(-1.25), "-1250m"),
        (json!(2.0), "2"),
        (json!(1e3), "1k"),
        (json!(1e21), "1e21"),
        (json!(1e-7), "100e-9"),
        (json!(5e-324), "1e-9"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!("1.5Gi"), "1536Mi"),
    ] {
        let ours: Quantity = serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{value}: {e}"));
        assert_eq!(ours.to_string(), canonical, "{value}");
        assert_eq!(serde_json::to_value(&ours).unwrap(), json!(canonical), "written as a string, always");
    }
}

#[test]
fn errors_name_the_value_and_what_is_allowed() {
    let error = |text: &str| text.parse::<Quantity>().expect_err(text);
    let value = |text: &str| text.to_owned();
    assert_eq!(error(""), QuantityError::Empty);
    for text in ["abc", " 1", "１", "Ei", "NaN", "inf"] {
        assert_eq!(error(text), QuantityError::NotANumber { value: value(text) });
    }
    for (text, character) in [("1 Gi", ' '), ("1.2.3", '.'), ("1_000", '_'), ("1Gi ", ' '), ("1µ", 'µ')] {
        assert_eq!(error(text), QuantityError::UnexpectedCharacter { value: value(text), character });
    }
    for (text, suffix) in [("1kk", "kk"), ("0x10", "x10"), ("1GB", "GB"), ("-1gi", "gi"), ("1-5", "-5")] {
        assert_eq!(error(text), QuantityError::UnknownSuffix { value: value(text), suffix: value(suffix) });
    }
    for (text, exponent) in [("1e", "e"), ("1E+", "E+"), ("1e9223372036854775808", "e9223372036854775808")] {
        assert_eq!(
            error(text),
            QuantityError::InvalidExponent { value: value(text), exponent: value(exponent) }
        );
    }
    for row in rows().filter(|row| row.columns[1] == "error" && !row.input.is_empty()) {
        let message = error(&row.input).to_string();
        assert!(message.starts_with(&format!("{:?} is not a quantity: ", row.input)), "{message}");
        assert!(message.contains(", such as "), "{message}");
    }
    assert_eq!(
        error("1GB").to_string(),
        "\"1GB\" is not a quantity: \"GB\" is not a unit; allowed are n, u, m, k, M, G, T, P, E, \
         Ki, Mi, Gi, Ti, Pi, Ei or none, such as 500m, 2 or 1.5Gi"
    );
    let long = error(&"x".repeat(1_000_000)).to_string();
    assert!(long.len() < 200, "{} bytes", long.len());

    let message = |value| serde_json::from_value::<Quantity>(value).expect_err("no quantity").to_string();
    assert_eq!(message(json!("1GB")), error("1GB").to_string());
    assert_eq!(
        message(json!(true)),
        "invalid type: boolean `true`, expected a quantity: \
         a number or a string with a number and a unit, such as 500m, 2 or 1.5Gi"
    );
    assert!(message(json!(null)).starts_with("invalid type: null, expected a quantity"));
}

#[test]
fn constructors_keep_the_value() {
    for milli in [0, 1, -1, 500, 1000, -1500, i128::from(u64::MAX), i128::MAX, i128::MIN] {
        assert_eq!(Quantity::from_milli(milli).milli_ceil(), milli);
    }
    assert_eq!(Quantity::from_milli(1500).to_string(), "1500m");
    for bytes in [0, 1, 1023, 1024, 1 << 30, 3 << 29, i64::MAX.unsigned_abs()] {
        assert_eq!(Quantity::from_bytes(bytes).bytes(), bytes);
    }
    assert_eq!(Quantity::from_bytes(1 << 30).to_string(), "1Gi");
    assert_eq!(Quantity::from_bytes(u64::MAX).bytes(), i64::MAX.unsigned_abs());
    assert_eq!(quantity("-1Gi").bytes(), 0);
    assert_eq!(quantity("1e400").bytes(), u64::MAX);
    assert!(quantity("1n").is_positive() && !quantity("0").is_positive() && !quantity("-1n").is_positive());
}

#[test]
fn the_type_of_k8s_openapi_converts_both_ways() {
    let ours = Quantity::try_from(ApiQuantity("0.5".to_owned())).unwrap();
    assert_eq!(ours.milli_ceil(), 500);
    assert_eq!(ApiQuantity::from(&ours), ApiQuantity("500m".to_owned()));
    assert_eq!(ApiQuantity::from(ours), ApiQuantity("500m".to_owned()));
    assert!(Quantity::try_from(&ApiQuantity("half".to_owned())).is_err());
}

#[test]
fn the_schema_is_int_or_string() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Holder {
        /// Memory of one replica.
        memory: Quantity,
    }
    let schema = schemars::schema_for!(Holder).to_value();
    assert_eq!(
        schema["properties"]["memory"],
        json!({
            "description": "Memory of one replica.",
            "x-kubernetes-int-or-string": true,
        })
    );
    assert_eq!(schema.get("$defs"), None);
}

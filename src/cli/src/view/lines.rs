//! Lines of logs.

/// Whether a line was written by this worker, as the supervisor's prefix says; any line for no worker in particular.
pub(crate) fn of_worker(line: &str, worker: Option<u32>) -> bool {
    let Some(worker) = worker else { return true };
    line.strip_prefix("[worker ")
        .and_then(|rest| rest.split_once(']'))
        .is_some_and(|(number, _)| number.parse() == Ok(worker))
}

/// The line with the name of who wrote it.
pub(crate) fn named(name: Option<&str>, line: &str) -> String {
    name.map_or_else(|| format!("{line}\n"), |name| format!("[{name}] {line}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_known_by_its_number_and_not_by_a_part_of_it() {
        assert!(of_worker("[worker 1] hello", Some(1)) && of_worker("anything", None));
        for line in ["[worker 12] hello", "worker 1", "[worker x] 1", ""] {
            assert!(!of_worker(line, Some(1)), "{line}");
        }
    }

    #[test]
    fn a_line_says_whose_it_is_among_several() {
        assert_eq!((named(None, "a"), named(Some("p"), "a")), ("a\n".into(), "[p] a\n".into()));
    }
}

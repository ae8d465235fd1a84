//! Prints the JSON schema of the results.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(workerapp_bench::reports::json::schema()?.as_bytes())
}

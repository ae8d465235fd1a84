//! Figures of any tool that can be imported, in any format: `report FORMAT FILE...`, with `text`, `markdown`, `json`, `html`,
//! `autocannon` or `wrk` (of every run) as the format. The first file's target is the base.

use std::error::Error;
use std::io::{self, Write};
use workerapp_bench::import::{self, Source};
use workerapp_bench::reports;
use workerapp_bench::results::{Provenance, Results};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let format = arguments.next().ok_or("which format?")?;
    let mut sources = Vec::new();
    for path in arguments {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let name =
            path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or(&path).to_owned();
        sources.push(Source { name, path, text });
    }
    let provenance = Provenance::here("report", env!("CARGO_PKG_VERSION"), None);
    let results =
        import::results(&sources, provenance, 1).map_err(|(path, error)| format!("{path}: {error}"))?;
    io::stdout().write_all(written(&format, &results)?.as_bytes())?;
    Ok(())
}

fn written(format: &str, results: &Results) -> Result<String, Box<dyn Error>> {
    let each = |text: fn(&workerapp_bench::results::Run) -> String| results.runs.iter().map(text).collect();
    Ok(match format {
        "text" => reports::matrix::text(results) + &reports::matrix::findings(results),
        "markdown" => reports::markdown::text(results, ""),
        "json" => reports::json::text(results)?,
        "html" => reports::html::page(results),
        "autocannon" => each(reports::autocannon::text),
        "wrk" => each(reports::wrk::text),
        other => return Err(format!("format: {other:?} is not known").into()),
    })
}

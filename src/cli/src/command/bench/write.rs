//! Reports: on stdout, and into files.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use workerapp_bench::{
    import,
    reports::{autocannon, html, json, markdown, matrix, wrk},
    results::{Provenance, Results},
};

use crate::{error::Error, output};

/// Which reports are wanted.
#[derive(Args)]
#[command(next_help_heading = "Report")]
pub(crate) struct ReportFlags {
    /// The form of the result on stdout
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    output: Form,
    /// A report as a file: .json, .md, .html or .txt says which; repeatable
    #[arg(long, value_name = "FILE", value_parser = report)]
    report: Vec<(PathBuf, Form)>,
}

/// The forms of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table of metrics and servers, and what can be told
    #[default]
    Text,
    /// Everything, with a published schema
    Json,
    /// For a repository
    Markdown,
    /// One page with plots
    Html,
    /// As autocannon writes it, run by run
    Autocannon,
    /// As wrk writes it, run by run
    Wrk,
}

/// The ends of file names.
const ENDS: [(&str, Form); 5] = [
    ("json", Form::Json),
    ("md", Form::Markdown),
    ("html", Form::Html),
    ("txt", Form::Text),
    ("htm", Form::Html),
];

fn report(text: &str) -> Result<(PathBuf, Form), String> {
    let path = PathBuf::from(text);
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_owned();
    let form = ENDS.iter().find(|(known, _)| *known == end).map(|(_, form)| *form);
    form.map(|form| (path, form)).ok_or_else(|| "its name must end with .json, .md, .html or .txt".to_owned())
}

impl ReportFlags {
    /// Whether stdout is for people.
    pub(crate) fn is_text(&self) -> bool {
        self.output == Form::Text
    }

    /// Writes all of them. What stands on stdout stands there even if a file can't be written.
    pub(crate) fn write(&self, results: &Results) -> Result<(), Error> {
        output::print(&self.output.text(results)?)?;
        for (path, form) in &self.report {
            write(path, &form.text(results)?)?;
            output::note(&format!("written: {}", path.display()));
        }
        Ok(())
    }
}

/// Resampling needs a seed, and the same files are to say the same.
const SEED: u64 = 1;

/// Reads results of this and other programs. A target is called as the file says, else by the name given, else by the file's.
pub(crate) fn imported(files: &[(Option<String>, PathBuf)]) -> Result<Results, Error> {
    let source = |(name, path): &(Option<String>, PathBuf)| {
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Read { place: path.clone(), source })?;
        let own = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(import::Source { name: name.clone().unwrap_or(own), path: path.display().to_string(), text })
    };
    let sources = files.iter().map(source).collect::<Result<Vec<_>, Error>>()?;
    let provenance = Provenance::here("kubectl-workerapp", env!("CARGO_PKG_VERSION"), None);
    import::results(&sources, provenance, SEED).map_err(|(path, error)| Error::Import { path, error })
}

/// Whole or not at all: a reader may be looking.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::WriteFile { place: path.to_owned(), source };
    let new = path.with_added_extension("new");
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).map_err(failed)
}

impl Form {
    fn text(self, results: &Results) -> Result<String, Error> {
        Ok(match self {
            Self::Text => format!("{}{}", matrix::text(results), matrix::findings(results)),
            Self::Json => json::text(results)
                .map_err(|error| Error::Format { format: "JSON", why: error.to_string() })?,
            Self::Markdown => markdown::text(results, &results.provenance.command_line.join(" ")),
            Self::Html => html::page(results),
            Self::Autocannon => results.runs.iter().map(autocannon::text).collect::<Vec<_>>().join("\n"),
            Self::Wrk => results.runs.iter().map(wrk::text).collect::<Vec<_>>().join("\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_what_is_in_it() {
        assert_eq!(report("a/b.html").unwrap().1, Form::Html);
        for wrong in ["a", "a.pdf", ""] {
            assert!(report(wrong).unwrap_err().contains(".json"), "{wrong}");
        }
    }

    #[test]
    fn a_report_that_can_not_be_written_names_its_file() {
        let error = write(Path::new("/nowhere/x.json"), "").unwrap_err().to_string();
        assert!(error.contains("/nowhere/x.json"), "{error}");
    }
}

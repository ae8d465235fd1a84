//! `status`: an app and everything that stands for it.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::jiff::Timestamp;

use crate::{
    cluster::{Cluster, Place, Scope},
    error::Error,
    output::{self, Color, Format},
    view::status::Status,
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp status shop
  kubectl workerapp status -A
  kubectl workerapp status shop -w
  kubectl workerapp status shop -o json";

/// Between two looks with `-w`.
const AGAIN: Duration = Duration::from_secs(2);
/// Apps that are looked at together.
const AT_ONCE: usize = 4;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The app; default: all of them
    #[arg(value_name = "APP")]
    name: Option<String>,
    /// Look again and again, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// The form of the result
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Format>,
    /// When colours are used
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
}

pub(crate) async fn run(arguments: &Arguments, place: &Place) -> Result<ExitCode, Error> {
    let cluster = place.connect().await?;
    if !arguments.watch {
        output::print(&look(&cluster, arguments).await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut first = true;
    loop {
        let text = look(&cluster, arguments).await?;
        // On a terminal the new look takes the old one's place.
        let clear = arguments.color.wanted();
        let before = if clear {
            "\x1b[H\x1b[2J"
        } else if first {
            ""
        } else {
            "\n"
        };
        output::print(&format!("{before}{text}"))?;
        first = false;
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
    }
}

async fn look(cluster: &Cluster, arguments: &Arguments) -> Result<String, Error> {
    let apps = cluster.selected(arguments.name.as_deref()).await?;
    if apps.is_empty() {
        output::note(&cluster.no_apps());
    }
    let nodes = cluster.nodes().await?;
    let looks: Vec<_> = stream::iter(apps.into_iter().map(|app| cluster.look(app, nodes.clone())))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let now = Timestamp::now();
    let all: Vec<_> = looks.iter().map(|look| Status::of(look, now)).collect();
    let colors = arguments.color.wanted();
    match arguments.output.unwrap_or_default() {
        format @ (Format::Text | Format::Wide) => {
            let text = |one: &Status| {
                let place = match cluster.scope {
                    Scope::All => format!("Namespace {}\n", one.namespace),
                    Scope::Namespace(_) => String::new(),
                };
                place + &one.text(colors, format == Format::Wide)
            };
            Ok(all.iter().map(text).collect::<Vec<_>>().join("\n"))
        }
        Format::Name => Ok(output::lines(all.iter().flat_map(|one| one.app.names()))),
        format if arguments.name.is_some() => output::structured(format, &all.first()),
        format => output::structured(format, &all),
    }
}

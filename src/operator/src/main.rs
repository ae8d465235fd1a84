//! The operator's program.

use std::{io::Write as _, net::SocketAddr, process::ExitCode};

use clap::Parser as _;
use kube::Client;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use workerapp_operator::{
    cli::{Cli, Command, MetricsApi, RunArgs},
    http,
    leader::{Candidate, edge},
    run, run_elected, telemetry,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Crd => crd(),
        Command::Run(args) => operate(&args),
        Command::MetricsApi(args) => metrics_api(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn crd() -> Result<(), Failure> {
    let yaml = serde_saphyr::to_string(&workerapp_api::crd::manifest())?;
    std::io::stdout().write_all(yaml.as_bytes())?;
    Ok(())
}

#[tokio::main]
async fn operate(args: &RunArgs) -> Result<(), Failure> {
    telemetry::start(args.log_format);
    let stop = stop_on_signal()?;
    let config = config().await?;
    let listener = bind("--listen", args.listen).await?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %listener.local_addr()?, "starting");
    if let Some(settings) = args.lease(&config.default_namespace) {
        let fence = settings.fence();
        let client = edge::client(config.clone(), &fence)?;
        let candidate = Candidate { settings, fence, client: Client::try_from(config)? };
        run_elected(args.config(), client, candidate, Some(listener), stop).await?;
    } else {
        run(args.config(), Client::try_from(config)?, Some(listener), stop).await?;
    }
    tracing::info!("stopped");
    Ok(())
}

#[tokio::main]
async fn metrics_api(args: &MetricsApi) -> Result<(), Failure> {
    telemetry::start(args.log_format);
    let stop = stop_on_signal()?;
    let client = Client::try_from(config().await?)?;
    let plain = bind("--listen", args.api.listen).await?;
    let api = bind("--api-listen", args.api.api_listen).await?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %api.local_addr()?, "starting the metrics API");
    workerapp_adapter::run(args.api.config(), client, api, plain, stop).await?;
    tracing::info!("stopped");
    Ok(())
}

async fn config() -> Result<kube::Config, Failure> {
    let mut config = kube::Config::infer()
        .await
        .map_err(|error| format!("no cluster to talk to: {error}; run it in a pod, or set KUBECONFIG"))?;
    // There is a backoff of our own, which counts and is bounded; requests that the client repeats by itself don't show up.
    config.default_retry = false;
    Ok(config)
}

async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    Ok(http::bind(address).await.map_err(|error| format!("{flag} {address}: {error}"))?)
}

/// Is cancelled at the first SIGTERM or SIGINT.
fn stop_on_signal() -> std::io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let told = stop.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop: finishing what runs");
        told.cancel();
    });
    Ok(stop)
}

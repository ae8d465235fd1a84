//! `workerapp-load`: load on one URL, from the command line.

use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use workerapp_bench::report::{QUANTILES, quantile_name};
use workerapp_bench::{
    Arrivals, Control, Error, Load, Plan, Protocol, Report, Target, Template, Tls, Trust, values,
};

/// Puts load on an HTTP server and says what came back.
///
/// Without --rate or --ramp each connection sends its next request as soon as it has an answer (closed loop). With them
/// requests are sent at planned times, and latencies count from those (open loop).
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:\n  workerapp-load http://127.0.0.1:3000/ -c 100 -d 30\n  workerapp-load http://127.0.0.1:3000/ --rate 500 --random-arrivals 1\n  workerapp-load https://127.0.0.1:8443/ --insecure --http2 --streams 10"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Arguments {
    /// Where to send requests: http://HOST:PORT/PATH, or https://
    url: String,
    /// Connections; the most at one time
    #[arg(short, long, default_value_t = 64)]
    connections: usize,
    /// Threads that share the connections
    #[arg(short, long, default_value_t = 1)]
    threads: usize,
    /// Seconds of measurement
    #[arg(short, long, default_value = "10", value_parser = seconds)]
    duration: Duration,
    /// Seconds of load before it, not counted
    #[arg(short, long, default_value = "1", value_parser = seconds)]
    warm_up: Duration,
    /// Seconds after which a request has failed
    #[arg(long, default_value = "10", value_parser = seconds)]
    timeout: Duration,
    /// Requests per second; without it, as many as the server answers
    #[arg(short, long, value_parser = rate)]
    rate: Option<f64>,
    /// Requests per second that go evenly from one rate to another: FROM..TO
    #[arg(long, value_parser = ramp, conflicts_with = "rate")]
    ramp: Option<(f64, f64)>,
    /// With --rate or --ramp: times as if many people asked, each by themselves, from this seed; else evenly spaced
    #[arg(long, value_name = "SEED")]
    random_arrivals: Option<u64>,
    /// A new connection for each request
    #[arg(long)]
    close: bool,
    /// Send a GET once more where its kept connection ended before an answer, as browsers do; else it has failed
    #[arg(long, conflicts_with = "close")]
    resend: bool,
    /// Speak HTTP/2; without TLS by prior knowledge
    #[arg(long)]
    http2: bool,
    /// With --http2: requests at a time on each connection
    #[arg(long, default_value_t = 1, requires = "http2")]
    streams: usize,
    /// Trust the certificate authorities in this PEM file, and no others
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Check no certificate
    #[arg(long)]
    insecure: bool,
    /// GET, POST, …
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// A header, "Name: value"; repeatable
    #[arg(short = 'H', long = "header", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The request's body
    #[arg(long, default_value = "")]
    body: String,
    /// The header of the answers that names the worker
    #[arg(long)]
    worker_header: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, Error> {
    values::duration("seconds", text)
}

fn rate(text: &str) -> Result<f64, Error> {
    values::rate("rate", text)
}

fn ramp(text: &str) -> Result<(f64, f64), Error> {
    values::ramp("ramp", text)
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("it has no colon")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = measure(&arguments).map_err(|error| error.to_string());
    let result = result.and_then(|report| print(&arguments, &report).map_err(|error| error.to_string()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // There is nowhere left to say that this failed too.
            let _ = writeln!(io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<Report, Error> {
    let target = Target::parse(&arguments.url)?;
    let template = Template {
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body: arguments.body.clone().into_bytes(),
    };
    let protocol = if arguments.http2 { Protocol::Http2 } else { Protocol::Http1 };
    let request = template.build_for(protocol, &target, !arguments.close)?;
    let trust = Trust::of(arguments.ca.as_deref(), arguments.insecure);
    let arrivals = arguments.random_arrivals.map_or(Arrivals::Even, |seed| Arrivals::Random { seed });
    let load = match (arguments.rate, arguments.ramp) {
        (Some(per_second), _) => Load::Rate { per_second, arrivals },
        (None, Some((from, to))) => Load::Ramp { from, to, arrivals },
        (None, None) => Load::Capacity,
    };
    let plan = Plan {
        protocol,
        streams: arguments.streams,
        tls: Tls::new(&target, &trust, protocol)?,
        load,
        connections: arguments.connections,
        threads: arguments.threads,
        keep_alive: !arguments.close,
        resend: arguments.resend,
        warm_up: arguments.warm_up,
        duration: arguments.duration,
        timeout: arguments.timeout,
        worker_header: arguments.worker_header.clone(),
        ..Plan::new(target.addresses()?, request)
    };
    workerapp_bench::run(&plan, &Control::default())
}

fn print(arguments: &Arguments, report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    let counts = &report.counts;
    writeln!(
        out,
        "{:.0} answers/s, {} in {:.2} s",
        report.per_second(),
        counts.answered,
        report.elapsed.as_secs_f64()
    )?;
    write!(out, "latency ms: mean {:.3}", report.mean_ms())?;
    for quantile in QUANTILES {
        write!(out, ", {} {:.3}", quantile_name(quantile), report.quantile_ms(quantile))?;
    }
    writeln!(out)?;
    write!(out, "sent {}, failed {}", counts.sent, counts.failed)?;
    for (kind, count) in &report.failures {
        write!(out, ", {} {count}", kind.name())?;
    }
    if let Some(fault) = &report.fault {
        write!(out, ", the first: {fault}")?;
    }
    writeln!(out, ", sent once more {}, closed while idle {}", counts.reconnects, counts.closed_idle)?;
    if arguments.rate.is_some() || arguments.ramp.is_some() {
        writeln!(
            out,
            "over 1 ms late {}, of these for want of a connection {}; never sent {}",
            counts.late, counts.late_for_want_of_a_connection, counts.dropped
        )?;
    }
    if !report.workers.is_empty() {
        let ratio = report.busiest_over_mean(0).unwrap_or_default();
        writeln!(out, "workers {}, busiest/mean {ratio:.3}", report.workers.len())?;
    }
    writeln!(
        out,
        "generator: {:.2} CPU, busiest thread {:.2}",
        report.cpu.div_duration_f64(report.elapsed),
        report.busiest_thread
    )
}

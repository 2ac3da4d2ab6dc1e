//! `millstream serve`: the Spark Connect server.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use millstream::serve::ServeHost;
use millstream::wiring::Wiring;
use millstream_core::options::parse_duration;
use millstream_core::{Error, ErrorKind, Result};
use millstream_spark::connect::{ServeOptions, Timeouts, serve};
use millstream_spark::python::PythonOptions;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{finish, stop_on_signal};

/// Arguments of `millstream serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:15002", value_name = "ADDRESS")]
    bind: SocketAddr,

    /// The root of tables: a folder or a URL (s3://, gs://, az://)
    #[arg(long, env = "MILLSTREAM_WAREHOUSE", default_value = "spark-warehouse", value_name = "DIR")]
    warehouse: String,

    /// The server's certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// What clients must present as a bearer token
    #[arg(long, env = "SPARK_CONNECT_AUTHENTICATE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,

    /// Allow an address that others can reach without a certificate and a token
    #[arg(long)]
    insecure: bool,

    /// How long a session lives without requests, running operations and queries
    #[arg(long, default_value = "1h", value_parser = span, value_name = "TIME")]
    session_timeout: Duration,

    /// How long an operation waits for a client that went away
    #[arg(long, default_value = "5m", value_parser = span, value_name = "TIME")]
    detached_timeout: Duration,

    /// The Python that runs clients' functions; PySpark must be installed in it
    #[arg(long, value_name = "PATH")]
    python: Option<String>,

    /// Do not run clients' Python functions
    #[arg(long, conflicts_with = "python")]
    no_python: bool,

    /// The most Python workers that a session keeps busy at once
    #[arg(long, value_name = "N", default_value_t = PythonOptions::default().workers)]
    python_workers: usize,
}

/// Serves until Ctrl-C or SIGTERM.
pub(super) async fn run(args: ServeArgs) -> Result<()> {
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some((read(certificates)?, read(key)?)),
        _ => None,
    };
    let options = ServeOptions {
        tls,
        token: args.token.filter(|token| !token.is_empty()),
        insecure: args.insecure,
        timeouts: Timeouts { session: args.session_timeout, detached: args.detached_timeout },
    };
    options.check(args.bind)?;
    let python = PythonOptions { enabled: !args.no_python, executable: args.python, workers: args.python_workers };
    let host = Arc::new(ServeHost::new(Wiring::system(), &args.warehouse, python)?);
    let listener = TcpListener::bind(args.bind).await.map_err(|error| {
        let message = format!("cannot listen on {}: is another server running there?", args.bind);
        Error::new(ErrorKind::Invalid, "BIND_FAILED", message).caused_by(error)
    })?;
    let address = listener.local_addr().map_err(|error| Error::internal("the listener has no address").caused_by(error))?;
    let secure = if options.tls.is_some() { "/;use_ssl=true" } else { "" };
    host.set_address(format!("sc://{address}"));
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone()));
    let mut serving = std::pin::pin!(serve(host, listener, options, stop));
    // What cannot be served is refused before it is said to listen.
    if let Poll::Ready(refused) = futures::poll!(serving.as_mut()) {
        return refused;
    }
    finish(writeln!(std::io::stdout(), "listening on sc://{address}{secure}").and_then(|()| std::io::stdout().flush()))?;
    serving.await
}

fn span(text: &str) -> Result<Duration, String> {
    parse_duration("the time", text).map_err(|error| error.message().to_owned())
}

fn read(file: &PathBuf) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| Error::invalid("INVALID_CERTIFICATE", format!("cannot read {}", file.display())).caused_by(error))
}

//! `millstream serve`: the Spark Connect server.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use millstream::memory::default_limit;
use millstream::serve::ServeHost;
use millstream::wiring::Wiring;
use millstream_core::options::{parse_bytes, parse_duration};
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::memory::set_process_limit;
use millstream_spark::connect::{ServeOptions, Timeouts, serve};
use millstream_spark::python::PythonOptions;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{finish, stop_on_signal};

/// Arguments of `millstream serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where to listen: an address or a name of this machine, and a port
    #[arg(long, default_value = "127.0.0.1:15002", value_name = "HOST:PORT")]
    bind: String,

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

    /// The most memory that the server takes; requests that need more fail. Four fifths of the machine's by default
    #[arg(long, env = "MILLSTREAM_MEMORY", value_parser = bytes, value_name = "SIZE")]
    memory: Option<u64>,

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
    let bind = resolve(&args.bind).await?;
    options.check(bind)?;
    if let Some(python) = &args.python {
        check_python(python).await?;
    }
    let python = PythonOptions { enabled: !args.no_python, executable: args.python, workers: args.python_workers };
    let wiring = Wiring::system();
    wiring.make_folder(&args.warehouse, "--warehouse")?;
    let memory = args.memory.unwrap_or_else(default_limit);
    set_process_limit(memory);
    let host = Arc::new(ServeHost::new(wiring, &args.warehouse, python, memory)?);
    let listener = TcpListener::bind(bind).await.map_err(|error| {
        let message = format!("cannot listen on {bind}: is another server running there?");
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

/// The address that a host and port mean. A name is only taken if all that it means is ours alone: what others could reach is named by its
/// address.
async fn resolve(bind: &str) -> Result<SocketAddr> {
    if let Ok(address) = bind.parse() {
        return Ok(address);
    }
    let wrong = |why: &str| Error::invalid("INVALID_ARGUMENT", format!("--bind '{bind}' {why}: write 127.0.0.1:15002 or localhost:15002"));
    if bind.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
        return Err(wrong("is no host and port"));
    }
    let found = tokio::net::lookup_host(bind).await.map_err(|error| wrong("names no host that is known").caused_by(error))?;
    let addresses: Vec<SocketAddr> = found.collect();
    let chosen = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()).copied();
    // Others can reach the server if any address of the name is one that they can reach.
    addresses.into_iter().find(|address| !address.ip().is_loopback()).or(chosen).ok_or_else(|| wrong("names no host that is known"))
}

/// Refuses an interpreter that does not run, or cannot import PySpark.
async fn check_python(python: &str) -> Result<()> {
    let refuse = |what: String| {
        Error::invalid(
            "PYTHON_WORKER_UNAVAILABLE",
            format!("--python '{python}' {what}: name a Python in which the clients' pyspark is installed, or use --no-python"),
        )
    };
    let script = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('pyspark') else 3)";
    let ran = tokio::process::Command::new(python).args(["-c", script]).output().await;
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) if output.status.code() == Some(3) => Err(refuse("has no pyspark".to_owned())),
        Ok(output) => Err(refuse(format!("is no Python that runs ({})", output.status))),
        Err(error) => Err(refuse("cannot be run".to_owned()).caused_by(error)),
    }
}

fn span(text: &str) -> Result<Duration, String> {
    parse_duration("the time", text).map_err(|error| error.message().to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes("the size", text).map_err(|error| error.message().to_owned())
}

fn read(file: &PathBuf) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| Error::invalid("INVALID_CERTIFICATE", format!("cannot read {}", file.display())).caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_of_this_machine_are_addresses_to_listen_on() {
        for (bind, expected) in [("127.0.0.1:1", Ok("127.0.0.1:1")), ("[::1]:2", Ok("[::1]:2")), ("localhost:3", Ok("127.0.0.1:3"))] {
            assert_eq!(
                resolve(bind).await.map(|address| address.to_string()).map_err(|error| error.to_string()),
                expected.map(str::to_owned)
            );
        }
        for bind in ["localhost", ":15002", "localhost:http"] {
            let error = resolve(bind).await.unwrap_err();
            assert!(error.code() == "INVALID_ARGUMENT" && error.message().contains(bind), "{error}");
        }
    }

    #[tokio::test]
    async fn a_python_that_cannot_run_functions_is_refused() {
        for (python, why) in [("/no/such/python", "cannot be run"), ("false", "is no Python that runs"), ("/", "cannot be run")] {
            let error = check_python(python).await.unwrap_err();
            assert!(error.code() == "PYTHON_WORKER_UNAVAILABLE" && error.message().contains(why), "{error}");
        }
    }
}

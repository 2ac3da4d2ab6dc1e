//! The server: its address, its limits, who may call it, and how it stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, ErrorKind, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::metadata::MetadataMap;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};

use super::generated::spark_connect_service_server::SparkConnectServiceServer;
use super::host::Host;
use super::planner::Planner;
use super::service::Service;
use super::sessions::{Sessions, Timeouts};

/// The largest message that is taken, bytes, as Spark's `spark.connect.grpc.maxInboundMessageSize`.
const MOST_BYTES: usize = 128 << 20;

/// Bytes that a client may send before we have taken what it sent, of one call and of all calls of a connection.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How long calls may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Who may call a server, and how, and how long it waits for those who are gone.
#[derive(Clone, Default)]
pub struct ServeOptions {
    /// The certificate chain and its key, both PEM; without it the server speaks plain text.
    pub tls: Option<(Vec<u8>, Vec<u8>)>,
    /// What every call has to carry as `authorization: Bearer …`.
    pub token: Option<String>,
    /// Whether an address that others can reach is allowed without both of these.
    pub insecure: bool,
    /// How long clients that are gone are waited for.
    pub timeouts: Timeouts,
}

impl std::fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeOptions").field("tls", &self.tls.is_some()).field("token", &self.token.is_some()).finish_non_exhaustive()
    }
}

impl ServeOptions {
    /// Refuses to be reachable by others without encryption and a token: whoever may call may run programs here.
    ///
    /// # Errors
    /// `INSECURE_BIND`.
    pub fn check(&self, address: SocketAddr) -> Result<()> {
        if address.ip().is_loopback() || self.insecure || (self.tls.is_some() && self.token.is_some()) {
            return Ok(());
        }
        Err(Error::invalid(
            "INSECURE_BIND",
            format!(
                "{address} can be reached by others: give the server a certificate (--tls-cert, --tls-key) and a token \
                 (SPARK_CONNECT_AUTHENTICATE_TOKEN), bind it to 127.0.0.1, or say --insecure"
            ),
        ))
    }
}

/// Serves Spark Connect until `shutdown` fires; then operations are cancelled, queries stopped and sessions ended.
///
/// # Errors
/// `INSECURE_BIND`, `INVALID_CERTIFICATE`, and failures of the network.
pub async fn serve(host: Arc<dyn Host>, listener: TcpListener, options: ServeOptions, shutdown: CancellationToken) -> Result<()> {
    let address = listener.local_addr().map_err(|error| network("the listener has no address").caused_by(error))?;
    options.check(address)?;
    let sessions = Arc::new(Sessions::new(host.clone(), options.timeouts));
    let service = SparkConnectServiceServer::new(Service::new(sessions.clone(), Planner::new()?)).max_decoding_message_size(MOST_BYTES);
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        // Windows that follow the network cost a ping for every small request.
        .initial_stream_window_size(Some(STREAM_WINDOW))
        .initial_connection_window_size(Some(CONNECTION_WINDOW));
    if let Some((certificates, key)) = &options.tls {
        // Where several providers of cryptography are compiled in, rustls does not choose. An error says that one was chosen before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificates, key));
        server = server.tls_config(tls).map_err(|error| {
            Error::invalid("INVALID_CERTIFICATE", "the certificate and its key cannot be used: both must be PEM and belong together")
                .caused_by(error)
        })?;
    }
    let maintained = sessions.clone();
    let maintenance = AbortOnDropHandle::new(tokio::spawn(async move { maintained.maintain().await }));
    let ended = sessions.clone();
    let stopping = async move {
        shutdown.cancelled().await;
        // Calls that wait for rows or events end with their sessions.
        ended.close_all().await;
    };
    let (drained, draining) = tokio::sync::oneshot::channel::<()>();
    let stopping = async move {
        stopping.await;
        // Nobody listens any more if the server has ended by itself.
        let _ = drained.send(());
    };
    let router = server.add_service(InterceptedService::new(service, guard(options.token)));
    let serving = router.serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stopping);
    let clock = host.clock();
    let late = async move {
        if draining.await.is_ok() {
            clock.sleep(GRACE).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let outcome = tokio::select! {
        outcome = serving => outcome.map_err(|error| network("the server failed").caused_by(error)),
        () = late => Ok(()),
    };
    drop(maintenance);
    sessions.close_all().await;
    outcome
}

fn network(what: &str) -> Error {
    Error::new(ErrorKind::Internal, "SERVER_FAILED", what)
}

/// Lets calls pass that carry the token, all if there is none.
fn guard(token: Option<String>) -> impl Fn(Request<()>) -> Result<Request<()>, Status> + Clone {
    move |request: Request<()>| match &token {
        Some(token) if !carries(request.metadata(), token) => Err(Status::unauthenticated(
            "the call does not carry the server's token: set SPARK_CONNECT_AUTHENTICATE_TOKEN or ;token= in the URL",
        )),
        _ => Ok(request),
    }
}

fn carries(metadata: &MetadataMap, token: &str) -> bool {
    let Some(given) = metadata.get("authorization").and_then(|value| value.to_str().ok()) else { return false };
    let Some((scheme, given)) = given.split_once(' ') else { return false };
    scheme.eq_ignore_ascii_case("bearer") && same(given.trim().as_bytes(), token.as_bytes())
}

/// Compares without telling by its time where two texts differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_need_a_certificate_and_a_token() {
        let tls = Some((Vec::new(), Vec::new()));
        let token = Some("t".to_owned());
        let cases = [
            ("127.0.0.1:1", ServeOptions::default(), true),
            ("[::1]:1", ServeOptions::default(), true),
            ("0.0.0.0:1", ServeOptions::default(), false),
            ("10.0.0.1:1", ServeOptions { token: token.clone(), ..ServeOptions::default() }, false),
            ("10.0.0.1:1", ServeOptions { tls: tls.clone(), token, ..ServeOptions::default() }, true),
            ("0.0.0.0:1", ServeOptions { insecure: true, ..ServeOptions::default() }, true),
        ];
        for (address, options, allowed) in cases {
            assert_eq!(options.check(address.parse().unwrap()).is_ok(), allowed, "{address} {options:?}");
        }
    }

    #[test]
    fn only_the_token_opens() {
        let call = |value: Option<&'static str>| {
            let mut request = Request::new(());
            if let Some(value) = value {
                request.metadata_mut().insert("authorization", value.parse().unwrap());
            }
            guard(Some("secret".into()))(request).is_ok()
        };
        assert!(call(Some("Bearer secret")) && call(Some("bearer secret")));
        for value in [None, Some("Bearer secre"), Some("Bearer secrets"), Some("secret"), Some("Basic secret")] {
            assert!(!call(value), "{value:?}");
        }
        assert!(guard(None)(Request::new(())).is_ok());
    }
}

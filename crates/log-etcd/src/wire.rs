//! Calls to etcd: one message each way, by endpoint in turn.
//!
//! A call without an answer in time, or with a connection that fails, moves all later calls to the
//! next endpoint. It is not repeated here: its caller decides, as the call may have taken effect.
//!
//! How long a call may take follows how long calls take ([`Pace`]). The answer to one that was
//! given up still counts for that, or a slow etcd would never be known to be one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prost::Message;
use quartet_log_replicated::{Failure, Pace};
use tokio_stream::{Stream, StreamExt};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::options::{EtcdOptions, EtcdTls};

/// An answer that arrives later than this, to a call that was given up, says nothing any more.
const LATE_MAX: Duration = Duration::from_secs(10);
/// A range is given up after this at least, which may have to bring 16 MiB over a slow network.
const RANGE_WITHIN: Duration = Duration::from_secs(5);
const CONNECT_WITHIN: Duration = Duration::from_millis(300);
/// Delay before a failure is reported, so that immediate retries do not spin.
const FAILURE_AFTER: Duration = Duration::from_millis(20);
/// etcd closes connections that ping more often than each five seconds.
const PING_AFTER: Duration = Duration::from_secs(6);
/// As late as any answer may be: a connection whose pong was not awaited took the appends under way
/// with it. Calls notice a silent member by their own limits, and followers call each second beside
/// what is streamed to them.
const PONG_WITHIN: Duration = LATE_MAX;
/// More than a full range of the longest records.
const ANSWER_BYTES_MAX: usize = 32 << 20;

pub(crate) struct Wire {
    channels: Vec<Channel>,
    /// Only ever counts up; the endpoint is the remainder.
    turn: AtomicUsize,
    pace: Arc<Mutex<Pace>>,
}

impl Wire {
    /// Connects when the first call is made. Must be called within the runtime.
    pub fn new(options: &EtcdOptions) -> Result<Wire, tonic::transport::Error> {
        let connect = |address: &String| channel(address, options.tls.as_ref());
        let channels = options.endpoints.iter().map(connect).collect::<Result<_, _>>()?;
        let turn = AtomicUsize::new(0);
        let pace = Arc::default();
        Ok(Wire { channels, turn, pace })
    }

    pub fn endpoints(&self) -> usize {
        self.channels.len()
    }

    /// Calls the current endpoint.
    pub async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call_within(self.answer_within(), path, request).await
    }

    /// Calls the current endpoint, for an answer that may be long.
    pub async fn call_for_range<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call_within(self.answer_within().max(RANGE_WITHIN), path, request)
            .await
    }

    /// Calls one endpoint.
    pub async fn call_at<Q, A>(&self, endpoint: usize, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.unary(self.answer_within(), endpoint, path, request).await
    }

    async fn call_within<Q, A>(&self, within: Duration, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let turn = self.turn.load(Ordering::Relaxed);
        let answer = self.unary(within, turn, path, request).await;
        if let Err(status) = &answer
            && !is_verdict(status)
        {
            self.pass(turn).await;
        }
        answer
    }

    async fn unary<Q, A>(&self, within: Duration, endpoint: usize, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc(endpoint);
        let mut call = Box::pin(async move {
            ready(&mut grpc).await?;
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            grpc.unary(Request::new(request), path, codec).await
        });
        let (began, pace) = (Instant::now(), self.pace.clone());
        let note = move |answer: &Result<tonic::Response<A>, Status>| {
            if answer.is_ok() {
                lock(&pace).answered(began.elapsed());
            }
        };
        match tokio::time::timeout(within, &mut call).await {
            Ok(answer) => {
                note(&answer);
                Ok(answer?.into_inner())
            }
            Err(_) => {
                tokio::spawn(async move {
                    if let Ok(answer) = tokio::time::timeout(LATE_MAX, call).await {
                        note(&answer);
                    }
                });
                Err(silent())
            }
        }
    }

    /// A call without an answer is given up after this.
    fn answer_within(&self) -> Duration {
        lock(&self.pace).answer_within()
    }

    /// Calls with a stream each way, and returns the answers' stream.
    pub async fn stream<Q, A>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let turn = self.turn.load(Ordering::Relaxed);
        let mut grpc = self.grpc(turn);
        let call = async {
            ready(&mut grpc).await?;
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            grpc.streaming(Request::new(requests), path, codec).await
        };
        let answer = tokio::time::timeout(self.answer_within(), call).await;
        match answer.map_err(|_| silent()).flatten() {
            Ok(answers) => Ok(answers.into_inner()),
            Err(status) => {
                self.pass(turn).await;
                Err(status)
            }
        }
    }

    /// One message each way over a method that has streams.
    pub async fn exchange<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let requests = tokio_stream::once(request).chain(tokio_stream::pending());
        let mut answers = self.stream(path, requests).await?;
        let first = tokio::time::timeout(self.answer_within(), answers.next()).await;
        first.map_err(|_| silent())?.unwrap_or_else(|| Err(silent()))
    }

    /// The next endpoint's turn, unless another call has passed it on already.
    async fn pass(&self, turn: usize) {
        let next = turn.wrapping_add(1);
        let _ = self
            .turn
            .compare_exchange(turn, next, Ordering::Relaxed, Ordering::Relaxed);
        tokio::time::sleep(FAILURE_AFTER).await;
    }

    fn grpc(&self, turn: usize) -> Grpc<Channel> {
        let channel = self.channels[turn % self.channels.len()].clone();
        Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}

/// The meaning of a status for the log.
pub(crate) fn failure(status: &Status) -> Failure {
    if status.message().contains("database space exceeded") {
        return Failure::NoRoom;
    }
    match status.code() {
        Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented => {
            Failure::Denied(status.message().to_owned())
        }
        _ => Failure::Unknown(status.message().to_owned()),
    }
}

/// Returns true if the member has answered, so that another member would answer the same.
fn is_verdict(status: &Status) -> bool {
    let about_content = matches!(status.code(), Code::NotFound | Code::OutOfRange);
    about_content || !matches!(failure(status), Failure::Unknown(_))
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))
}

fn lock(pace: &Mutex<Pace>) -> std::sync::MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

fn silent() -> Status {
    Status::deadline_exceeded("no answer in time")
}

fn channel(address: &str, tls: Option<&EtcdTls>) -> Result<Channel, tonic::transport::Error> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
        .connect_timeout(CONNECT_WITHIN)
        .http2_keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN)
        .tcp_nodelay(true);
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls_config(tls))?;
    }
    Ok(endpoint.connect_lazy())
}

fn tls_config(tls: &EtcdTls) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authorities));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name.clone());
    }
    config
}

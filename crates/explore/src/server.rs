//! The server: sockets on the loopback addresses, until it is stopped.

use crate::assets::{self, Asset, PAGE};
use crate::guard::{Rules, seal};
use crate::question::{Answer, Question, Refusal, Source};
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time;

/// Connections that are open at once.
const CONNECTIONS: usize = 64;
/// Time for the head of a request, and for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
const HEAD: usize = 16 << 10;
/// Headers of a request.
const HEADERS: usize = 64;
/// Questions that are worked on at once.
const WORKERS: usize = 8;
/// How often a free port is looked for that both addresses have.
const TRIES: usize = 16;
/// How often it is looked whether nobody asks any more.
const LOOK: Duration = Duration::from_millis(500);

/// Options of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The port; 0 takes any free one.
    pub port: u16,
    /// The secret that every question must carry.
    pub token: String,
    /// Ends the server after this time without a request.
    pub idle: Option<Duration>,
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listeners: Vec<TcpListener>,
    port: u16,
    shared: Arc<Shared>,
    stop: Arc<Notify>,
    idle: Option<Duration>,
}

#[derive(Debug)]
struct Shared {
    source: Arc<dyn Source>,
    rules: Rules,
    last: Mutex<Instant>,
}

impl Server {
    /// Binds the sockets on 127.0.0.1 and, if this machine has it, on ::1.
    ///
    /// # Errors
    ///
    /// Fails if a socket or a thread cannot be made.
    pub fn new(source: Arc<dyn Source>, options: &ServerOptions) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(WORKERS)
            .enable_all()
            .build()?;
        let (listeners, port) = runtime.block_on(bind(options.port))?;
        let rules = Rules::new(port, &options.token);
        let shared = Arc::new(Shared { source, rules, last: Mutex::new(Instant::now()) });
        let stop = Arc::new(Notify::new());
        Ok(Self { runtime, listeners, port, shared, stop, idle: options.idle })
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a function that ends [`Server::run`], from any thread, even before it begins.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let stop = Arc::clone(&self.stop);
        move || stop.notify_one()
    }

    /// Serves until it is stopped, or nobody has asked for long enough.
    pub fn run(self) {
        let Self { runtime, listeners, shared, stop, idle, .. } = self;
        let open = Arc::new(Mutex::new(Open::default()));
        runtime.block_on(async {
            for listener in listeners {
                tokio::spawn(accept(listener, router(&shared), Arc::clone(&open)));
            }
            tokio::select! {
                () = stop.notified() => {}
                () = unused(&shared, idle) => {}
            }
        });
        // An answer that is being worked out is of no use any more.
        runtime.shutdown_background();
    }
}

/// Binds both addresses to one port.
async fn bind(port: u16) -> io::Result<(Vec<TcpListener>, u16)> {
    let mut tries = if port == 0 { TRIES } else { 1 };
    loop {
        tries -= 1;
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = first.local_addr()?.port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
            Ok(second) => return Ok((vec![first, second], port)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if tries == 0 {
                    return Err(error);
                }
            }
            // No IPv6 here.
            Err(_) => return Ok((vec![first], port)),
        }
    }
}

/// Returns once nobody has asked for so long.
async fn unused(shared: &Shared, idle: Option<Duration>) {
    let Some(idle) = idle else { return std::future::pending().await };
    loop {
        time::sleep(LOOK.min(idle)).await;
        let last = *shared.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= idle {
            return;
        }
    }
}

/// The connections that are open, the oldest first.
#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: BTreeMap<u64, (Arc<Busy>, AbortHandle)>,
}

/// Whether a request of a connection is worked on.
#[derive(Debug, Default)]
struct Busy(AtomicBool);

impl Open {
    /// Makes room for a connection: the oldest one without a request in work is closed, so that clients
    /// that hang keep nobody out. Returns whether there is room.
    fn make_room(&mut self) -> bool {
        if self.all.len() < CONNECTIONS {
            return true;
        }
        let is_waiting =
            |(_, (busy, _)): &(&u64, &(Arc<Busy>, AbortHandle))| !busy.0.load(Ordering::Acquire);
        let Some(oldest) = self.all.iter().find(is_waiting).map(|(number, _)| *number) else {
            return false;
        };
        if let Some((_, handle)) = self.all.remove(&oldest) {
            handle.abort();
        }
        true
    }
}

async fn accept(listener: TcpListener, router: Router, open: Arc<Mutex<Open>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free: some connection will end.
            time::sleep(LOOK).await;
            continue;
        };
        let mut table = open.lock().unwrap_or_else(PoisonError::into_inner);
        if !table.make_room() {
            continue;
        }
        let number = table.next;
        table.next += 1;
        let busy = Arc::new(Busy::default());
        let own = router.clone().layer(Extension(Arc::clone(&busy)));
        let at_end = Arc::clone(&open);
        let task = tokio::spawn(async move {
            serve(stream, own).await;
            at_end.lock().unwrap_or_else(PoisonError::into_inner).all.remove(&number);
        });
        table.all.insert(number, (busy, task.abort_handle()));
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.max_buf_size(HEAD).max_headers(HEADERS);
    let service = TowerToHyperService::new(router);
    // A client that breaks off is no event.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(|| async { file(&PAGE) }))
        .route("/{name}", get(asset))
        .route("/api/{*path}", get(api))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(middleware::from_fn_with_state(Arc::clone(shared), guard))
        .with_state(Arc::clone(shared))
}

/// Lets a request in, or refuses it; marks its connection as busy meanwhile.
async fn guard(
    State(shared): State<Arc<Shared>>,
    busy: Extension<Arc<Busy>>,
    request: Request,
    next: Next,
) -> Response {
    busy.0.0.store(true, Ordering::Release);
    let (parts, body) = request.into_parts();
    let mut response = match shared.rules.check(&parts) {
        Ok(()) => {
            *shared.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            let answer = next.run(Request::from_parts(parts, body));
            time::timeout(PATIENCE, answer)
                .await
                .unwrap_or_else(|_| StatusCode::GATEWAY_TIMEOUT.into_response())
        }
        Err(status) => status.into_response(),
    };
    seal(response.headers_mut());
    busy.0.0.store(false, Ordering::Release);
    response
}

fn file(asset: &Asset) -> Response {
    ([(CONTENT_TYPE, asset.kind)], asset.bytes).into_response()
}

async fn asset(Path(name): Path<String>) -> Response {
    assets::named(&name).map_or_else(|| StatusCode::NOT_FOUND.into_response(), file)
}

async fn api(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let path = uri.path().strip_prefix("/api/").unwrap_or_default();
    let question = match Question::parse(path, uri.query().unwrap_or_default()) {
        Ok(question) => question,
        Err(refusal) => return refused(refusal),
    };
    let source = Arc::clone(&shared.source);
    // Reading images takes time: the threads of the sockets never do it.
    match tokio::task::spawn_blocking(move || source.answer(&question)).await {
        Ok(Ok(Answer::Json(bytes))) => {
            ([(CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response()
        }
        Ok(Ok(Answer::Bytes(bytes))) => {
            let head: [(HeaderName, &str); 2] = [
                (CONTENT_TYPE, "application/octet-stream"),
                (CONTENT_DISPOSITION, "attachment; filename=\"content.bin\""),
            ];
            (head, Body::from(bytes)).into_response()
        }
        Ok(Err(refusal)) => refused(refusal),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn refused(refusal: Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = (CONTENT_TYPE, "text/plain; charset=utf-8");
    if status == StatusCode::SERVICE_UNAVAILABLE {
        return (status, [kind, (RETRY_AFTER, "1")], refusal.message).into_response();
    }
    (status, [kind], refusal.message).into_response()
}

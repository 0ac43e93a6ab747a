//! `quartet serve`: assembles a server, says where it listens, and waits for the end.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use quartet_server::{Data, Server};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::cluster_file;
use crate::notify;
use crate::reload::Reload;
use crate::settings::{self, ServeArguments};

pub fn serve(arguments: ServeArguments) -> Result<()> {
    let command_line = arguments;
    let arguments = command_line.clone().with_file()?;
    start_logging(arguments.log_format.as_deref());
    warn_of_secrets_on_the_command_line(std::env::args());
    let mut ending = Ending::new(arguments.stops_with_stdin())?;
    let settings = arguments.validated()?;
    if let Data::Folder(folder) = arguments.data() {
        warn_of_files_of_redis(&folder);
    }
    let server = ending.may_come_before(|| Server::start(settings))?;
    if arguments.data() == Data::Memory {
        println!("DATA ARE IN MEMORY ONLY: all data are lost when this process ends");
    }
    let endpoints = server.endpoints();
    for endpoint in &endpoints {
        println!("{:<9}{}", endpoint.name, endpoint.text);
    }
    let keyvalue = endpoints.iter().find(|endpoint| endpoint.name == "keyvalue");
    if let (Some(endpoint), Data::Folder(folder)) = (keyvalue, arguments.data()) {
        let new_key = server.new_credentials().and_then(|new| new.root_key.as_deref());
        let written = cluster_file::write(
            &folder,
            endpoint.address,
            new_key.or(arguments.root_key()),
            arguments.is_dev(),
        );
        if let Err(error) = written {
            let is_shortage = error.downcast_ref().is_some_and(quartet_env::is_shortage);
            anyhow::ensure!(is_shortage, error);
            // On a full disk the server starts all the same, so that something can be deleted.
            tracing::warn!("no room for the cluster file: {error:#}");
        }
    }
    let stop_limit = arguments.stop_limit();
    println!("ready");
    notify::notify(SERVES);
    ending.wait(&server, Reload::new(command_line, arguments));
    tracing::info!("stopping");
    notify::notify("STOPPING=1\nSTATUS=stopping");
    server.shutdown(stop_limit)
}

/// A folder of another Redis is easily taken for one that this server opens.
fn warn_of_files_of_redis(folder: &Path) {
    for name in ["dump.rdb", "appendonlydir", "appendonly.aof"] {
        let path = folder.join(name);
        if path.exists() {
            let path = path.display();
            tracing::warn!(
                "{path} is Redis' and is not read: `quartet import redis --from {path}` brings what it holds"
            );
        }
    }
}

/// The signals that end the server or make it look at its settings again. They are handled from the
/// first moment on.
struct Ending {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    child: Signal,
    stdin_ended: Option<oneshot::Receiver<()>>,
}

impl Ending {
    fn new(stops_with_stdin: bool) -> Result<Ending> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let [terminate, interrupt, hangup, child] = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::child())?,
        ];
        drop(entered);
        Ok(Ending {
            runtime,
            terminate,
            interrupt,
            hangup,
            child,
            stdin_ended: stops_with_stdin.then(end_of_stdin).transpose()?,
        })
    }

    /// Ends the process on a signal during a long start: everything acknowledged is on disk.
    /// Process 1, as in a container, is not ended by an unhandled signal.
    fn may_come_before<T: Send>(&mut self, begin: impl FnOnce() -> T) -> T {
        let (beginning, begin_signal) = oneshot::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_over = self.runtime.block_on(async {
                    tokio::select! {
                        _ = self.terminate.recv() => true,
                        _ = self.interrupt.recv() => true,
                        _ = until(&mut self.stdin_ended) => true,
                        _ = begin_signal => false,
                    }
                });
                if is_over {
                    tracing::info!("stopping before the server has started");
                    std::process::exit(0);
                }
            });
            // It is dropped in the end, and by a panic as well.
            let _beginning = beginning;
            begin()
        })
    }

    fn wait(mut self, server: &Server, mut reload: Reload) {
        let stop = server.stop_requested();
        let watchdog = notify::watchdog_interval();
        self.runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = self.terminate.recv() => return,
                    _ = self.interrupt.recv() => return,
                    _ = stop.requested() => return,
                    _ = until(&mut self.stdin_ended) => return,
                    Some(()) = self.hangup.recv() => {
                        notify::reloading();
                        reload.run(server);
                        notify::notify(SERVES);
                    }
                    Some(()) = self.child.recv() => collect_orphans(),
                    () = next(watchdog) => notify::notify("WATCHDOG=1"),
                }
            }
        });
    }
}

/// Every user of the machine sees the command line of every process.
fn warn_of_secrets_on_the_command_line(arguments: impl Iterator<Item = String>) {
    let secrets = settings::secrets();
    for argument in arguments {
        let name = argument.split('=').next().unwrap_or_default();
        if secrets.iter().any(|secret| secret == name) {
            tracing::warn!("{name} is on the command line, where others can read it: use {name}-file or its variable");
        }
    }
}

/// Resolves when standard input has ended. A thread of its own reads it, because the kernel closes
/// the pipe of a killed parent for us, even if the parent could do nothing else.
fn end_of_stdin() -> Result<oneshot::Receiver<()>> {
    let (ended, receiver) = oneshot::channel();
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        // An input that cannot be read has ended as well.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    })?;
    Ok(receiver)
}

/// Process 1 inherits the children of ended processes, as in a container, and has to reap them.
fn collect_orphans() {
    if std::process::id() == 1 {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
    }
}

/// The state that systemd sees while requests are served.
const SERVES: &str = "READY=1\nSTATUS=serving";

async fn next(interval: Option<Duration>) {
    match interval {
        Some(interval) => tokio::time::sleep(interval).await,
        None => std::future::pending().await,
    }
}

async fn until(ended: &mut Option<oneshot::Receiver<()>>) {
    match ended {
        Some(receiver) => drop(receiver.await),
        None => std::future::pending().await,
    }
}

/// To standard error; `RUST_LOG` chooses what, `info` by default.
fn start_logging(format: Option<&str>) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if format == Some("json") {
        subscriber.json().init();
    } else {
        subscriber.init();
    }
}

//! `resurgam server`: the API of a database, until told to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam::Client;
use resurgam_core::duration;
use resurgam_server::{Api, Network, Options, Remote, Tls, Token};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::node::{self, Node, NodeArgs, Settings};
use super::{log, metrics};
use crate::actions::Folder;
use crate::database::{Database, DbArgs};
use crate::exit::Exit;
use crate::output::Output;
use crate::signals::Signals;
use crate::trouble::{Mistake, Trouble};

/// Serve the HTTP API of a database until told to stop
///
/// It looks at the database and stores what it is asked for, as every command does, so it can stand
/// beside an app whose workflows it does not know. With --work it works as well. /openapi.json
/// describes the API. SIGTERM or Ctrl-C finishes what has begun; a second one ends at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen: a port of this machine, or an address with one. Other addresses than those
    /// of this machine are served when there are tokens
    #[arg(long, value_name = "ADDR", value_parser = metrics::address, default_value = "8460")]
    listen: SocketAddr,
    /// Ask for a token on this machine, too
    #[arg(long)]
    require_token: bool,
    /// A certificate in PEM, with those that signed it: connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// What paths begin with outside of the proxy that stands before it, such as /resurgam
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// Proxies whose X-Forwarded-Prefix counts, as an address or a network; more than once for
    /// several
    #[arg(long, value_name = "CIDR")]
    trusted_proxy: Vec<Network>,
    /// Work on the database, too: on programs and graphs, with actions and with remote workers
    #[arg(long)]
    work: bool,
    /// The folder of the actions, when it works; the folder `actions` here if there is one
    #[arg(long, value_name = "DIR", requires = "work")]
    actions: Option<PathBuf>,
    /// A queue to work on, more than once for several; all queues unless given
    #[arg(long, value_name = "QUEUE", requires = "work")]
    queue: Vec<String>,
    /// How long a remote worker may be silent before its attempts are lost
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s",
          requires = "work")]
    worker_lease: Duration,
    /// How long actions may go on when the server is told to stop, before they are told as well
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    drain: Duration,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    db: DbArgs,
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        log::begin("info", None);
        match self.work {
            true => self.works().await,
            false => self.database()?.ask_new(async |client| self.serves(client).await).await,
        }
    }

    fn database(&self) -> Result<Database, Trouble> {
        self.db.database("server", "run it where the database can be reached")
    }

    /// Serves beside others who work.
    async fn serves(&self, client: &Client) -> Result<Output, Trouble> {
        let server = self.listen(client, None).await?;
        let mut signals = Signals::new()?;
        signals.wait().await;
        tracing::info!("stopping: requests that have begun are answered");
        let drained = tokio::select! {
            stopped = server.stop() => stopped.map(|()| true)?,
            () = signals.wait() => false,
        };
        Ok(ended(drained))
    }

    /// Serves and works.
    async fn works(&self) -> Result<Output, Trouble> {
        let database = self.database()?;
        let remote = Remote::with_lease(self.worker_lease.max(SHORTEST_LEASE));
        let settings = Settings {
            queues: self.queue.clone(),
            drain: self.drain,
            remote: Some(remote.clone()),
        };
        let node = self.node.begin(&database, self.folder()?, settings).await?;
        let server = match self.listen(node.client(), Some(&remote)).await {
            Ok(server) => server,
            Err(trouble) => return Err(stopped_after(node, trouble).await),
        };
        let mut signals = Signals::new()?;
        tokio::select! {
            () = signals.wait() => {}
            why = node.ended() => return Err(why),
        }
        tracing::info!("stopping: actions that run have {:?} to end by themselves", self.drain);
        let stop = async {
            // Remote workers get nothing new, and may report while the node drains.
            server.api.stop();
            node.stop().await?;
            server.stop().await
        };
        let drained = tokio::select! {
            stopped = stop => stopped.map(|()| true)?,
            () = signals.wait() => false,
        };
        Ok(ended(drained))
    }

    /// The folder of the actions, when there is one.
    fn folder(&self) -> Result<Option<Arc<Folder>>, Trouble> {
        let here = PathBuf::from("actions");
        let path = self.actions.clone().or_else(|| here.is_dir().then_some(here));
        path.map(|path| node::folder(&path)).transpose()
    }

    /// The certificate and its key, when there is one.
    fn tls(&self) -> Result<Option<Tls>, Trouble> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let read = |option: &str, file: &Path| -> Result<Vec<u8>, Trouble> {
            let refused = |error| Mistake::new(format!("{option} {}: {error}", file.display()));
            Ok(std::fs::read(file).map_err(refused)?)
        };
        let (chain, secret) = (read("--tls-cert", certificate)?, read("--tls-key", key)?);
        let refused =
            |error| Mistake::new(format!("--tls-cert {}: {error}", certificate.display()));
        Ok(Some(Tls::from_pem(&chain, &secret).map_err(refused)?))
    }

    async fn listen(&self, client: &Client, remote: Option<&Remote>) -> Result<Server, Trouble> {
        let wanted = self.listen;
        let refused = |error: &dyn std::fmt::Display| {
            Trouble::from(Mistake::new(format!("--listen {wanted}: {error}")))
        };
        let is_local = wanted.ip().is_loopback();
        let mut options = Options::default();
        let admin = admin_token()?;
        let tokens = Token::all(client).await?;
        let lets_in = |token: &Token| token.revoked_at.is_none() && token.role.is_some();
        if !is_local && admin.is_none() && !tokens.iter().any(lets_in) {
            let why = "others than this machine could reach it, and there are no tokens";
            let hint = "`resurgam token create` makes one; or listen at 127.0.0.1";
            let message = format!("--listen {wanted}: {why}");
            return Err(Mistake::new(message).hint(hint).into());
        }
        if let Some(admin) = &admin {
            options = options.admin_token(admin);
        }
        if is_local && !self.require_token {
            options = options.open();
        }
        let tls = self.tls()?;
        let (is_encrypted, scheme) = if tls.is_some() { (true, "https") } else { (false, "http") };
        if let Some(tls) = tls {
            options = options.tls(tls);
        }
        if let Some(base) = &self.base_path {
            options = options.base_path(base);
        }
        for network in &self.trusted_proxy {
            options = options.trusted_proxy(*network);
        }
        if let Some(key) = crate::program::key()? {
            options = options.secrets_key(&key);
        }
        let listener = TcpListener::bind(wanted).await.map_err(|error| refused(&error))?;
        let address = listener.local_addr()?;
        if let Some(remote) = remote {
            options = options.remote(remote);
        }
        let api = Api::new(client, options.metrics(metrics::page()?));
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = resurgam_server::serve(listener, api.clone(), async {
            // A server that is dropped stops as well.
            let _stopped = stopped.await;
        });
        match is_local && !self.require_token {
            true => {
                tracing::info!(
                    "serving at {scheme}://{address}; on this machine no token is asked for"
                );
            }
            false if is_local || is_encrypted => {
                tracing::info!("serving at {scheme}://{address}, for who has a token");
            }
            false => tracing::warn!(
                "serving at http://{address}, for who has a token; tokens and payloads travel as \
                 they are: give --tls-cert, or let a proxy with TLS stand before it"
            ),
        }
        Ok(Server { api, stop, serving: tokio::spawn(serving) })
    }
}

/// The variable that names the file of a token that may do everything, for a container that has no
/// other yet.
const ADMIN_VARIABLE: &str = "RESURGAM_ADMIN_TOKEN_FILE";

/// The shortest lease of a worker: less is no time for a few requests.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// The fewest bytes of such a token.
const SHORTEST: usize = 32;

/// The token of the file that the environment names.
fn admin_token() -> Result<Option<String>, Trouble> {
    let Some(file) = std::env::var_os(ADMIN_VARIABLE).filter(|file| !file.is_empty()) else {
        return Ok(None);
    };
    let refused = |why: String| Trouble::refused(format!("{ADMIN_VARIABLE}: {why}"));
    let text = std::fs::read_to_string(&file).map_err(|error| refused(error.to_string()))?;
    let token = text.trim();
    match token.len() >= SHORTEST {
        true => Ok(Some(token.to_string())),
        false => Err(refused(format!("the token in it has fewer than {SHORTEST} bytes"))),
    }
}

/// A listener that serves.
struct Server {
    api: Api,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Server {
    /// Finishes what has begun.
    async fn stop(self) -> Result<(), Trouble> {
        // It may have ended by itself.
        let _unless_ended = self.stop.send(());
        let served = self.serving.await;
        Ok(served.map_err(std::io::Error::other)??)
    }
}

/// Stops a node for which something else went wrong, which is what is told.
async fn stopped_after(node: Node, trouble: Trouble) -> Trouble {
    let _less_interesting = node.stop().await;
    trouble
}

fn ended(drained: bool) -> Output {
    let exit = if drained { Exit::Done } else { Exit::Stopped };
    Output { stdout: String::new(), stderr: String::new(), exit }
}

//! A network between a client and a server that can be cut, for tests of partitions.

use std::io;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Server;

/// What gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Everything.
    Open,
    /// Everything, but a connection gets its first answer this much later.
    Slow(Duration),
    /// Nothing, and nobody hears why: connections are taken and stay silent.
    Silent,
    /// Nothing: connections end at once.
    Closed,
}

/// A proxy before a server, on a port of its own.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    passage: watch::Sender<Passage>,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// A proxy before a server, which lets everything through.
    pub async fn before(server: &Server) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port for a proxy");
        let port = listener.local_addr().expect("the port of a proxy").port();
        let (passage, to) = (watch::Sender::new(Passage::Open), server.port());
        let watched = passage.subscribe();
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, to, watched.clone()));
            }
        });
        Proxy { port, passage, serving }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Says what gets through from now on. Connections that were made before end with the change,
    /// or fall silent first.
    pub fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves one connection until one side ends it, or the passage changes. A silence is kept up for
/// as long as it lasts; what was said meanwhile is lost, so the connection ends with it.
async fn serve(mut client: TcpStream, port: u16, mut passage: watch::Receiver<Passage>) {
    let mut server = None;
    let now = *passage.borrow_and_update();
    tokio::select! {
        // Who ends it, and why, each side hears from the other.
        _ended = pass(&mut client, &mut server, port, now) => return,
        _changed = passage.changed() => {}
    }
    // An error is the end of the proxy, and of the connection with it.
    let _ended = passage.wait_for(|passage| *passage != Passage::Silent).await;
}

async fn pass(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    port: u16,
    passage: Passage,
) -> io::Result<()> {
    match passage {
        Passage::Open => {
            let server = server.insert(TcpStream::connect(("127.0.0.1", port)).await?);
            copy_bidirectional(client, server).await.map(drop)
        }
        Passage::Slow(delay) => {
            tokio::time::sleep(delay).await;
            Box::pin(pass(client, server, port, Passage::Open)).await
        }
        Passage::Silent => std::future::pending().await,
        Passage::Closed => Ok(()),
    }
}

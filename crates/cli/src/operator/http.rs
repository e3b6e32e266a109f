//! HTTP/1.1 as a client needs it that asks one server: requests with a body of JSON, answers of a
//! known length, in chunks, or up to the end of the connection.
//!
//! The token goes to the address that was given and nowhere else: no redirect is followed, here or
//! elsewhere. Connections are kept for the next request, but not for long, so that a request that
//! changes something never meets one that the server has just given up.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::address::Address;

/// How long a server has to take a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a connection is kept for the next request.
const KEPT: Duration = Duration::from_secs(5);

/// The longest head of an answer, and the most lines in it.
const HEAD: usize = 64 << 10;
const LINES: usize = 100;

/// The longest body of an answer.
const BODY: usize = 512 << 20;

/// A server, and what lets us in.
pub(super) struct Http {
    pub(super) address: Address,
    token: Option<Zeroizing<String>>,
    tls: Option<TlsConnector>,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: &'static str,
    /// The path with its query, without what the address begins paths with.
    pub(super) path: String,
    pub(super) body: Option<Vec<u8>>,
    /// What makes a repeat one request.
    pub(super) key: Option<String>,
    /// How long the answer may take.
    pub(super) patience: Duration,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) why: String,
    /// It may be there later.
    pub(super) is_transient: bool,
    /// Nothing of an answer has come on a connection that was kept.
    is_unanswered: bool,
}

impl Lost {
    fn transient(why: impl Into<String>) -> Self {
        Lost { why: why.into(), is_transient: true, is_unanswered: false }
    }

    fn for_good(why: impl Into<String>) -> Self {
        Lost { why: why.into(), is_transient: false, is_unanswered: false }
    }
}

impl Http {
    pub(super) fn new(address: Address, token: Option<Zeroizing<String>>) -> Result<Self, Lost> {
        let tls = match address.is_encrypted {
            true => Some(TlsConnector::from(Arc::new(tls()?))),
            false => None,
        };
        Ok(Http { address, token, tls, idle: Mutex::new(Vec::new()) })
    }

    /// True when a token is sent.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Sends a request and reads the answer.
    pub(super) async fn ask(&self, request: &Request) -> Result<Answer, Lost> {
        let asked = tokio::time::timeout(request.patience, self.exchange(request));
        asked.await.unwrap_or_else(|_| {
            Err(Lost::transient(format!("no answer within {:?}", request.patience)))
        })
    }

    async fn exchange(&self, request: &Request) -> Result<Answer, Lost> {
        let bytes = self.bytes(request);
        if let Some(kept) = self.kept() {
            match self.on(kept, &bytes).await {
                // What only looks can be asked again; the server has closed what it kept open.
                Err(lost) if lost.is_unanswered && request.method == "GET" => {}
                answered => return answered,
            }
        }
        self.on(self.connect().await?, &bytes).await
    }

    async fn on(&self, mut connection: Connection, bytes: &[u8]) -> Result<Answer, Lost> {
        let (answer, stays) = connection.ask(bytes).await?;
        if stays {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push((connection, Instant::now()));
        }
        Ok(answer)
    }

    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, since)| since.elapsed() < KEPT);
        idle.pop().map(|(connection, _)| connection)
    }

    async fn connect(&self) -> Result<Connection, Lost> {
        let Address { host, port, .. } = &self.address;
        let connecting = TcpStream::connect((host.as_str(), *port));
        let stream = tokio::time::timeout(CONNECT, connecting).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {CONNECT:?}")))
        });
        let stream = stream.map_err(|error| Lost::transient(error.to_string()))?;
        // Requests are small, and each waits for its answer.
        let _best_effort = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return Ok(Connection::new(Box::new(stream))) };
        let name = ServerName::try_from(host.clone())
            .map_err(|_| Lost::for_good(format!("{host:?} is no name that a certificate has")))?;
        let shaken = tokio::time::timeout(CONNECT, tls.connect(name, stream)).await;
        match shaken {
            Ok(Ok(stream)) => Ok(Connection::new(Box::new(stream))),
            Ok(Err(error)) => Err(of_tls(&error)),
            Err(_) => Err(Lost::transient(format!("no encryption within {CONNECT:?}"))),
        }
    }

    fn bytes(&self, request: &Request) -> Zeroizing<Vec<u8>> {
        let Address { base, .. } = &self.address;
        let mut head = Zeroizing::new(format!(
            "{} {base}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: resurgam/{}\r\n\
             Accept: application/json\r\n",
            request.method,
            request.path,
            self.address.authority(),
            env!("CARGO_PKG_VERSION"),
        ));
        // Nothing keeps text from taking more text.
        if let Some(token) = &self.token {
            let _infallible = write!(head, "Authorization: Bearer {}\r\n", **token);
        }
        if let Some(key) = &request.key {
            let _infallible = write!(head, "Idempotency-Key: {key}\r\n");
        }
        let body = request.body.as_deref();
        if let Some(body) = body {
            let _infallible = write!(
                head,
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            );
        }
        let mut bytes = Zeroizing::new(head.as_bytes().to_vec());
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }
}

/// Neither the token nor anything that was sent with it.
impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http({})", self.address)
    }
}

/// Whose certificates are trusted: those that the system trusts, or the file in `SSL_CERT_FILE`.
fn tls() -> Result<ClientConfig, Lost> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Lost::for_good(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// What went wrong with the encryption, and what to do about it.
fn of_tls(error: &io::Error) -> Lost {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => Lost::for_good(format!(
            "its certificate is not trusted ({why:?}); SSL_CERT_FILE names a file with the \
             certificates that are"
        )),
        Some(rustls::Error::InvalidMessage(_)) => {
            Lost::for_good("it does not encrypt; is it http://?")
        }
        Some(error) => Lost::for_good(error.to_string()),
        None => Lost::transient(error.to_string()),
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, and what was read of it and not used.
struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

/// What the head of an answer says.
struct Head {
    status: u16,
    location: Option<String>,
    length: Length,
    stays: bool,
}

/// How the end of a body is known.
enum Length {
    Known(usize),
    Chunks,
    ToTheEnd,
}

impl Connection {
    fn new(stream: Box<dyn Stream>) -> Self {
        Connection { stream, buffer: Vec::new() }
    }

    /// Sends a request and reads the answer; true when the connection can be used again.
    async fn ask(&mut self, bytes: &[u8]) -> Result<(Answer, bool), Lost> {
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        if let Err(error) = sent.await {
            return Err(Lost { is_unanswered: true, ..Lost::transient(error.to_string()) });
        }
        let head = self.head().await?;
        let body = match head.length {
            Length::Known(length) => self.known(length).await?,
            Length::Chunks => self.chunks().await?,
            Length::ToTheEnd => {
                while self.more().await? > 0 {
                    self.bounded(self.buffer.len())?;
                }
                std::mem::take(&mut self.buffer)
            }
        };
        let answer = Answer { status: head.status, location: head.location, body };
        Ok((answer, head.stays && self.buffer.is_empty()))
    }

    /// Reads the head of the answer, and passes over those that only announce it.
    async fn head(&mut self) -> Result<Head, Lost> {
        loop {
            let read = head(&self.buffer).map_err(|why| {
                Lost::for_good(format!(
                    "it does not answer as a web server does ({why}); is it https://?"
                ))
            })?;
            match read {
                Some((head, used)) => {
                    self.buffer.drain(..used);
                    if head.status >= 200 {
                        return Ok(head);
                    }
                }
                None if self.buffer.len() > HEAD => {
                    return Err(Lost::for_good("the head of its answer has no end"));
                }
                None => {
                    let before = self.buffer.len();
                    match self.more().await {
                        Ok(0) if before == 0 => {
                            let lost =
                                Lost::transient("it closed the connection without an answer");
                            return Err(Lost { is_unanswered: true, ..lost });
                        }
                        Ok(0) => return Err(cut()),
                        Ok(_) => {}
                        Err(lost) => return Err(Lost { is_unanswered: before == 0, ..lost }),
                    }
                }
            }
        }
    }

    async fn more(&mut self) -> Result<usize, Lost> {
        self.buffer.reserve(16 << 10);
        let read = self.stream.read_buf(&mut self.buffer).await;
        match read {
            Ok(read) => Ok(read),
            // A server that closes without a farewell: what was there is known by its length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => Err(Lost::transient(error.to_string())),
        }
    }

    async fn known(&mut self, length: usize) -> Result<Vec<u8>, Lost> {
        self.bounded(length)?;
        while self.buffer.len() < length {
            if self.more().await? == 0 {
                return Err(cut());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, Lost> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| Lost::for_good("its answer comes in pieces without a length"))?;
            self.bounded(body.len().saturating_add(size))?;
            if size == 0 {
                // What may stand behind the last piece is of no use.
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.known(size).await?);
            self.line().await?;
        }
    }

    async fn line(&mut self) -> Result<String, Lost> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Ok(line);
            }
            if self.buffer.len() > HEAD {
                return Err(Lost::for_good("a line of its answer has no end"));
            }
            if self.more().await? == 0 {
                return Err(cut());
            }
        }
    }

    fn bounded(&self, length: usize) -> Result<(), Lost> {
        match length > BODY {
            true => Err(Lost::for_good(format!("its answer is larger than {} MiB", BODY >> 20))),
            false => Ok(()),
        }
    }
}

fn cut() -> Lost {
    Lost::transient("the connection was cut off in the middle of an answer")
}

/// Reads the head of an answer, and how many bytes it has; `None` while it is not all there.
fn head(bytes: &[u8]) -> Result<Option<(Head, usize)>, httparse::Error> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut read = httparse::Response::new(&mut lines);
    let httparse::Status::Complete(used) = read.parse(bytes)? else { return Ok(None) };
    let named = |name: &str| {
        let mut lines = read.headers.iter();
        let line = lines.find(|line| line.name.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(line.value).trim().to_string())
    };
    let status = read.code.unwrap_or_default();
    let chunked = named("transfer-encoding");
    let length = match (chunked, named("content-length")) {
        _ if status < 200 || status == 204 || status == 304 => Length::Known(0),
        (Some(coding), _) if coding.to_ascii_lowercase().ends_with("chunked") => Length::Chunks,
        (None, Some(length)) => match length.parse() {
            Ok(length) => Length::Known(length),
            Err(_) => return Err(httparse::Error::HeaderValue),
        },
        _ => Length::ToTheEnd,
    };
    let closes =
        named("connection").is_some_and(|line| line.to_ascii_lowercase().contains("close"));
    let stays = !closes && read.version == Some(1) && !matches!(length, Length::ToTheEnd);
    Ok(Some((Head { status, location: named("location"), length, stays }, used)))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use tokio::net::TcpListener;

    use super::*;

    /// What is made of an answer that stands so on the wire, and what was asked for it.
    async fn answered(answer: &'static str) -> (Result<Answer, Lost>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/ops", listener.local_addr().unwrap());
        let http = Http::new(
            Address::parse(&address).unwrap(),
            Some(Zeroizing::new("rsg_1_secret".to_string())),
        );
        let http = http.unwrap();
        assert!(!format!("{http:?}").contains("secret"));
        let request = Request {
            method: "POST",
            path: "/api/v1/bulk".to_string(),
            body: Some(b"{}".to_vec()),
            key: Some("form-1".to_string()),
            patience: Duration::from_secs(30),
        };
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"{}") {
                assert!(stream.read_buf(&mut asked).await.unwrap() > 0);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(asked).unwrap()
        };
        tokio::join!(http.ask(&request), serve)
    }

    #[test]
    async fn a_request_has_its_base_its_token_and_its_key() {
        let (answer, asked) = answered("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
        assert_eq!((answer.as_ref().unwrap().status, &*answer.unwrap().body), (200, &b"{}"[..]));
        assert!(asked.starts_with("POST /ops/api/v1/bulk HTTP/1.1\r\nHost: 127.0.0.1:"), "{asked}");
        for line in [
            "Authorization: Bearer rsg_1_secret",
            "Idempotency-Key: form-1",
            "Content-Type: application/json",
            "Content-Length: 2",
        ] {
            assert!(asked.contains(&format!("\r\n{line}\r\n")), "{asked}");
        }
    }

    #[test]
    async fn an_answer_is_read_in_pieces_and_up_to_the_end() {
        let pieces = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\
                      \r\n\r\n3;x=1\r\n[1,\r\n2\r\n2]\r\n0\r\nAge: 1\r\n\r\n";
        assert_eq!(answered(pieces).await.0.unwrap().body, b"[1,2]");
        let (answer, _) = answered("HTTP/1.0 404 No\r\nLocation: /there\r\n\r\nnothing").await;
        let answer = answer.unwrap();
        assert_eq!((answer.status, &*answer.body), (404, &b"nothing"[..]));
        assert_eq!(answer.location.as_deref(), Some("/there"));
    }

    #[test]
    async fn what_is_no_answer_says_what_is_wrong() {
        for (answer, why, is_transient) in [
            ("", "closed the connection without an answer", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "in the middle of an answer", true),
            ("SSH-2.0-OpenSSH\r\n", "as a web server does", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "as a web server does", false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
                "without a length",
                false,
            ),
        ] {
            let lost = answered(answer).await.0.unwrap_err();
            assert!(lost.why.contains(why) && lost.is_transient == is_transient, "{lost:?}");
        }
    }
}

//! Numbers for those who watch many workers, as an OpenMetrics page.
//!
//! One page for one kind of reader needs no web server: a request is read up to its first line, and
//! answered. It is off unless an address is given, and that is one of this machine unless it says
//! otherwise.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long a reader may take with its request and with our answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest request that is read.
const LONGEST: usize = 8 << 10;

/// How often old samples are dropped.
const UPKEEP: Duration = Duration::from_secs(5);

const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Reads an address: a port alone is one of this machine.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    let local = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    local.or_else(|_| text.parse()).map_err(|_| {
        "write a port, such as 9464, or an address with one, such as 0.0.0.0:9464".to_string()
    })
}

/// Serves the page from now on. Answers with the address, for who gave port 0.
pub(super) async fn serve(address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(listen(listener, begin()?));
    Ok(address)
}

/// Keeps numbers from now on. Answers with what renders the page.
pub(super) fn page() -> io::Result<impl Fn() -> String + Send + Sync + 'static> {
    let handle = begin()?;
    let kept = handle.clone();
    tokio::spawn(async move {
        let mut upkeep = tokio::time::interval(UPKEEP);
        loop {
            upkeep.tick().await;
            kept.run_upkeep();
        }
    });
    Ok(move || openmetrics(&handle.render()))
}

fn begin() -> io::Result<PrometheusHandle> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(handle)
}

async fn listen(listener: TcpListener, handle: PrometheusHandle) {
    let mut upkeep = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let page = handle.clone();
                    tokio::spawn(tokio::time::timeout(PATIENCE, answer(stream, page)));
                }
                // Out of file descriptors, for example: others give some back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            _ = upkeep.tick() => handle.run_upkeep(),
        }
    }
}

/// Answers one request. A reader that goes away is no trouble of ours.
async fn answer(mut stream: TcpStream, handle: PrometheusHandle) -> io::Result<()> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            break;
        }
        request.extend_from_slice(&chunk[..count]);
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, kind, body) = match is_for_metrics(line) {
        true => ("200 OK", TYPE, openmetrics(&handle.render())),
        false => ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_string()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn is_for_metrics(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let path = words.nth(1).unwrap_or_default();
    line.starts_with("GET ") && path.split('?').next() == Some("/metrics")
}

/// The page in the words of OpenMetrics: samples of a counter end in `_total`, and the page has an
/// end.
fn openmetrics(page: &str) -> String {
    let mut counter = None;
    let mut out = String::with_capacity(page.len() + 64);
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            counter = about.strip_suffix(" counter");
        }
        let sample = counter.and_then(|name| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with([' ', '{']).then(|| format!("{name}_total{rest}"))
        });
        let line = sample.as_deref().unwrap_or(line);
        out.push_str(&canonical(line));
        out.push('\n');
    }
    out + "# EOF\n"
}

/// Whole numbers in labels that are numbers have a point.
fn canonical(line: &str) -> String {
    line.replace("{quantile=\"0\"}", "{quantile=\"0.0\"}")
        .replace("{quantile=\"1\"}", "{quantile=\"1.0\"}")
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        assert_eq!(address("9464").unwrap().to_string(), "127.0.0.1:9464");
        assert_eq!(address(":9464").unwrap().to_string(), "127.0.0.1:9464");
        assert_eq!(address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
        assert!(address("here").is_err());
    }

    #[test]
    fn samples_of_counters_end_in_total_and_the_page_has_an_end() {
        let page = "# TYPE a counter\na 1\na{x=\"y\"} 2\n\n# TYPE a_b gauge\na_b 3\n";
        assert_eq!(
            openmetrics(page),
            "# TYPE a counter\na_total 1\na_total{x=\"y\"} 2\n# TYPE a_b gauge\na_b 3\n# EOF\n"
        );
    }

    #[test]
    fn the_least_and_the_most_of_a_summary_are_written_as_readers_compare_them() {
        let page = "# TYPE a summary\na{quantile=\"0\"} 1\na{quantile=\"0.5\"} 1\na{quantile=\"1\"} 2\n\
                    a_sum 3\na_count 2\n";
        let canonical = page.replace("\"0\"", "\"0.0\"").replace("\"1\"", "\"1.0\"");
        assert_eq!(openmetrics(page), canonical + "# EOF\n");
    }

    #[test]
    fn only_the_page_is_served() {
        assert!(is_for_metrics(b"GET /metrics HTTP/1.1"));
        assert!(is_for_metrics(b"GET /metrics?x=1 HTTP/1.1"));
        assert!(!is_for_metrics(b"GET / HTTP/1.1") && !is_for_metrics(b"POST /metrics HTTP/1.1"));
    }
}

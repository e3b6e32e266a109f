//! What a process prints, within bounds.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The most that an action may print: the largest value of a workflow.
pub(super) const STDOUT: usize = 2 << 20;

/// How much of standard error is kept.
pub(super) const STDERR: usize = 64 << 10;

const CHUNK: usize = 16 << 10;

/// More was printed than is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// Everything that is printed, unless it is too much.
pub(super) async fn head(
    mut from: impl AsyncRead + Unpin,
    most: usize,
) -> io::Result<Result<Vec<u8>, TooMuch>> {
    let mut kept = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return Ok(Ok(kept));
        }
        if kept.len() + count > most {
            return Ok(Err(TooMuch));
        }
        kept.extend_from_slice(&chunk[..count]);
    }
}

/// The end of what is printed, however much it is.
pub(super) async fn tail(mut from: impl AsyncRead + Unpin, most: usize) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            kept.drain(..kept.len().saturating_sub(most));
            return Ok(kept);
        }
        kept.extend_from_slice(&chunk[..count]);
        // Not at every chunk: moving what is kept costs as much as reading it.
        if kept.len() > 2 * most {
            kept.drain(..kept.len() - most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_printed_is_kept_up_to_its_bound_and_not_a_byte_more() {
        let printed = vec![7; 100_000];
        assert_eq!(head(&printed[..], 100_000).await.unwrap(), Ok(printed.clone()));
        assert_eq!(head(&printed[..], 99_999).await.unwrap(), Err(TooMuch));
    }

    #[tokio::test]
    async fn of_standard_error_the_end_is_kept() {
        let lines: String = (0..100_000).map(|n| format!("{n}\n")).collect();
        let kept = tail(lines.as_bytes(), 1_000).await.unwrap();
        assert_eq!(kept, lines.as_bytes()[lines.len() - 1_000..]);
        assert_eq!(tail(&b"short"[..], 1_000).await.unwrap(), b"short");
    }
}

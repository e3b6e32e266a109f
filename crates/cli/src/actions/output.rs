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

/// Keeps everything that is printed, unless it is too much. What was kept is there also when nobody
/// waits for the end.
pub(super) async fn head(
    mut from: impl AsyncRead + Unpin,
    most: usize,
    kept: &mut Vec<u8>,
) -> io::Result<Result<(), TooMuch>> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return Ok(Ok(()));
        }
        if kept.len() + count > most {
            return Ok(Err(TooMuch));
        }
        kept.extend_from_slice(&chunk[..count]);
    }
}

/// Keeps the end of what is printed, however much it is; more than that, until it is [`cut`].
pub(super) async fn tail(
    mut from: impl AsyncRead + Unpin,
    most: usize,
    kept: &mut Vec<u8>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        kept.extend_from_slice(&chunk[..count]);
        // Not at every chunk: moving what is kept costs as much as reading it.
        if kept.len() > 2 * most {
            cut(kept, most);
        }
    }
}

/// Leaves the end of what was kept.
pub(super) fn cut(kept: &mut Vec<u8>, most: usize) {
    kept.drain(..kept.len().saturating_sub(most));
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    async fn what_is_printed_is_kept_up_to_its_bound_and_not_a_byte_more() {
        let printed = vec![7; 100_000];
        let mut kept = Vec::new();
        assert_eq!(head(&printed[..], 100_000, &mut kept).await.unwrap(), Ok(()));
        assert_eq!(kept, printed);
        let mut kept = Vec::new();
        assert_eq!(head(&printed[..], 99_999, &mut kept).await.unwrap(), Err(TooMuch));
    }

    #[test]
    async fn of_standard_error_the_end_is_kept() {
        let lines: String = (0..100_000).map(|n| format!("{n}\n")).collect();
        let mut kept = Vec::new();
        tail(lines.as_bytes(), 1_000, &mut kept).await.unwrap();
        assert!(kept.len() <= 2_000, "{}", kept.len());
        cut(&mut kept, 1_000);
        assert_eq!(kept, lines.as_bytes()[lines.len() - 1_000..]);
        let mut kept = Vec::new();
        tail(&b"short"[..], 1_000, &mut kept).await.unwrap();
        cut(&mut kept, 1_000);
        assert_eq!(kept, b"short");
    }
}

//! Drives a connection beside those who ask on it, and keeps what the server says unasked.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{AsyncMessage, Connection, Notification, Socket};

/// What a server notifies of on one connection, until that ends.
pub(crate) type Notifications = mpsc::UnboundedReceiver<Notification>;

/// How many warnings have come on a connection. One that comes with an answer is counted before the
/// answer is there.
pub(crate) type Warnings = Arc<AtomicU64>;

/// What keeps a connection driven, for as long as it lives.
pub(crate) type Held = oneshot::Sender<()>;

/// How long a connection may take to end when nobody holds it any more. It says goodbye, unless it
/// waits for an answer that does not come.
const FAREWELL: Duration = Duration::from_secs(1);

/// Drives a connection until it ends, or is not held any more. Whoever waits for an answer hears of
/// its end there.
pub(super) fn spawn<T>(mut connection: Connection<Socket, T>) -> (Held, Warnings, Notifications)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let warnings = Warnings::default();
    let (told, notifications) = mpsc::unbounded_channel();
    let counted = warnings.clone();
    let (held, released) = oneshot::channel();
    let drive = async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                AsyncMessage::Notice(notice) if is_warning(&notice) => {
                    tracing::warn!(notice = notice.message(), "the server warns");
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                AsyncMessage::Notification(notification) => {
                    // Most connections listen to nothing, and nobody hears what comes there.
                    let _nobody = told.send(notification);
                }
                _ => {}
            }
        }
    };
    let given_up = async move {
        // An error is the drop of what holds it, which is what is waited for.
        let _dropped = released.await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::spawn(async move {
        tokio::select! {
            () = drive => {}
            () = given_up => {}
        }
    });
    (held, warnings, notifications)
}

/// A commit that does not wait for the standby any more says so with a general warning. Its words
/// depend on the server's language.
fn is_warning(notice: &DbError) -> bool {
    *notice.code() == SqlState::WARNING
}

//! `ctx.join_all(..)`, `ctx.race(..)`, and [`Crowd`], which both are made of.
//!
//! Only futures that were woken are polled: ten thousand results are ten thousand polls, not a
//! hundred million. The order of polling follows the order of waking, which follows the history.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Futures of which only the woken ones are polled. More can be added while others are waited for.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_sdk::Crowd;
/// use resurgam_testing::TestApp;
/// use std::future::IntoFuture;
///
/// /// The pages that a page leads to.
/// #[activity]
/// async fn links(page: u64) -> Result<Vec<u64>, Failure> {
///     Ok(if page < 4 { vec![page * 2, page * 2 + 1] } else { Vec::new() })
/// }
///
/// #[workflow]
/// async fn crawl(ctx: WorkflowContext) -> Result<usize, Failure> {
///     let mut open = Crowd::new();
///     let mut seen = open.push(ctx.call(links(1)).into_future()) + 1;
///     while let Some((_place, found)) = open.next().await {
///         for page in found? {
///             seen = open.push(ctx.call(links(page)).into_future()) + 1;
///         }
///     }
///     assert_eq!(open.open(), 0);
///     Ok(seen)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow(crawl).activity(links).start().await;
/// assert_eq!(app.start("crawl-1", crawl()).await.result().await.unwrap(), 7);
/// # }
/// ```
pub struct Crowd<F> {
    futures: Vec<Option<Pin<Box<F>>>>,
    wakers: Vec<Waker>,
    woken: Arc<WokenList>,
    open: usize,
}

/// The places of the futures that were woken, in order.
#[derive(Default)]
struct WokenList(Mutex<(VecDeque<usize>, Option<Waker>)>);

struct Member {
    place: usize,
    list: Arc<WokenList>,
}

impl<F: Future> Crowd<F> {
    /// Nobody yet.
    pub fn new() -> Self {
        let (futures, wakers, woken) = (Vec::new(), Vec::new(), Arc::default());
        Crowd { futures, wakers, woken, open: 0 }
    }

    /// Adds a future, and answers with its place: how many were added before it. It is polled for
    /// the first time by [`Crowd::next`], those that were added earlier first.
    pub fn push(&mut self, future: F) -> usize {
        let place = self.futures.len();
        self.futures.push(Some(Box::pin(future)));
        self.wakers.push(Waker::from(Arc::new(Member { place, list: self.woken.clone() })));
        self.woken.lock().0.push_back(place);
        self.open += 1;
        place
    }

    /// How many are not done yet.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Waits until one is done, and answers with its place and its value; `None` when nobody is
    /// left.
    pub async fn next(&mut self) -> Option<(usize, F::Output)> {
        std::future::poll_fn(|context| match self.poll_next(context) {
            None if self.open > 0 => Poll::Pending,
            done => Poll::Ready(done),
        })
        .await
    }

    /// The next future that is done, as long as there is one.
    fn poll_next(&mut self, context: &Context<'_>) -> Option<(usize, F::Output)> {
        self.woken.lock().1 = Some(context.waker().clone());
        loop {
            let place = self.woken.lock().0.pop_front()?;
            let mut context = Context::from_waker(&self.wakers[place]);
            let Some(future) = &mut self.futures[place] else { continue };
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                self.futures[place] = None;
                self.open -= 1;
                return Some((place, output));
            }
        }
    }
}

impl<F: Future> Default for Crowd<F> {
    fn default() -> Self {
        Crowd::new()
    }
}

impl<F: Future> FromIterator<F> for Crowd<F> {
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut crowd = Crowd::new();
        for future in futures {
            crowd.push(future);
        }
        crowd
    }
}

impl<F> fmt::Debug for Crowd<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crowd of {}", self.open)
    }
}

impl WokenList {
    fn lock(&self) -> std::sync::MutexGuard<'_, (VecDeque<usize>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Member {
    fn wake(self: Arc<Self>) {
        let parent = {
            let mut list = self.list.lock();
            list.0.push_back(self.place);
            list.1.clone()
        };
        parent.into_iter().for_each(Waker::wake);
    }
}

/// Waits until all are done.
#[must_use = "nothing happens until it is awaited"]
pub struct JoinAll<F: Future> {
    crowd: Crowd<F>,
    outputs: Vec<Option<F::Output>>,
}

impl<F: Future> JoinAll<F> {
    pub(super) fn new(futures: impl Iterator<Item = F>) -> Self {
        let crowd: Crowd<F> = futures.collect();
        let outputs = (0..crowd.open).map(|_| None).collect();
        JoinAll { crowd, outputs }
    }
}

// The futures are in boxes of their own; nothing here is pinned in place.
impl<F: Future> Unpin for JoinAll<F> {}

impl<F, T, E> Future for JoinAll<F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<Vec<T>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some((place, output)) = self.crowd.poll_next(context) {
            self.outputs[place] = Some(output);
        }
        if self.crowd.open > 0 {
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut self.outputs).into_iter().flatten().collect())
    }
}

/// Waits until one is done.
#[must_use = "nothing happens until it is awaited"]
pub struct Race<F: Future>(Crowd<F>);

impl<F: Future> Race<F> {
    pub(super) fn new(futures: impl Iterator<Item = F>) -> Self {
        let crowd: Crowd<F> = futures.collect();
        assert!(crowd.open > 0, "ctx.race of nothing would wait for ever: nobody can win it");
        Race(crowd)
    }
}

impl<F: Future> Unpin for Race<F> {}

impl<F: Future> Future for Race<F> {
    type Output = (usize, F::Output);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.poll_next(context) {
            Some(winner) => {
                // The losers are cancelled now, in order, and not when the caller's scope ends.
                self.0.futures.clear();
                Poll::Ready(winner)
            }
            None => Poll::Pending,
        }
    }
}

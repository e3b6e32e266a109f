//! `ctx.join_all(..)` and `ctx.race(..)`.
//!
//! Only futures that were woken are polled: ten thousand results are ten thousand polls, not a
//! hundred million. The order of polling follows the order of waking, which follows the history.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Futures of which only the woken ones are polled.
struct Crowd<F> {
    futures: Vec<Option<Pin<Box<F>>>>,
    wakers: Vec<Waker>,
    woken: Arc<WokenList>,
}

/// The places of the futures that were woken, in order.
#[derive(Default)]
struct WokenList(Mutex<(VecDeque<usize>, Option<Waker>)>);

struct Member {
    place: usize,
    list: Arc<WokenList>,
}

impl<F: Future> Crowd<F> {
    fn new(futures: impl Iterator<Item = F>) -> Self {
        let woken = Arc::new(WokenList::default());
        let futures: Vec<_> = futures.map(|future| Some(Box::pin(future))).collect();
        let member = |place| Waker::from(Arc::new(Member { place, list: woken.clone() }));
        let wakers = (0..futures.len()).map(member).collect();
        woken.lock().0.extend(0..futures.len());
        Crowd { futures, wakers, woken }
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
                return Some((place, output));
            }
        }
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
    open: usize,
}

impl<F: Future> JoinAll<F> {
    pub(super) fn new(futures: impl Iterator<Item = F>) -> Self {
        let crowd = Crowd::new(futures);
        let open = crowd.futures.len();
        JoinAll { crowd, outputs: (0..open).map(|_| None).collect(), open }
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
            self.open -= 1;
        }
        if self.open > 0 {
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
        let crowd = Crowd::new(futures);
        assert!(
            !crowd.futures.is_empty(),
            "ctx.race of nothing would wait for ever: nobody can win it"
        );
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

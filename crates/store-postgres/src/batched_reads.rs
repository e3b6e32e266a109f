//! Reads of one kind that are asked for at the same time go to the server together, as commits do:
//! the more there are, the less each of them costs. A node that takes over shards reads hundreds of
//! runs at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use resurgam_store::Result;
use tokio::sync::oneshot;

/// How many are read at once.
const MOST: usize = 64;

/// What was found of each key; what is not there is not in it.
pub(crate) type Answers<K, V> = HashMap<K, Result<V>>;

type Asked<K, V> = (K, oneshot::Sender<Result<Option<V>>>);

/// Those who wait to read something of one kind.
pub(crate) struct BatchedReads<K, V> {
    asked: Mutex<Vec<Asked<K, V>>>,
    /// Who has the turn reads for everybody.
    turn: tokio::sync::Mutex<()>,
}

impl<K, V> Default for BatchedReads<K, V> {
    fn default() -> Self {
        BatchedReads { asked: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }
}

impl<K: Copy + Eq + Hash, V> BatchedReads<K, V> {
    /// Reads what belongs to a key, together with whatever others ask for.
    pub(crate) async fn ask<F>(&self, key: K, read: impl Fn(Vec<K>) -> F) -> Result<Option<V>>
    where
        F: Future<Output = Result<Answers<K, V>>>,
    {
        let mut answer = self.wait(key);
        loop {
            tokio::select! {
                biased;
                answered = &mut answer => match answered {
                    Ok(answered) => return answered,
                    // Whoever read for everybody was dropped meanwhile.
                    Err(_) => answer = self.wait(key),
                },
                // In a box, so that those who only wait do not carry the room of who reads.
                _turn = self.turn.lock() => Box::pin(self.read(&read)).await,
            }
        }
    }

    fn wait(&self, key: K) -> oneshot::Receiver<Result<Option<V>>> {
        let (sender, answer) = oneshot::channel();
        self.asked().push((key, sender));
        answer
    }

    async fn read<F>(&self, read: impl Fn(Vec<K>) -> F)
    where
        F: Future<Output = Result<Answers<K, V>>>,
    {
        let mut asked = self.take();
        if asked.is_empty() {
            return;
        }
        match read(asked.keys().copied().collect()).await {
            Ok(mut found) => {
                for (key, sender) in asked {
                    let _ = sender.send(found.remove(&key).transpose());
                }
            }
            Err(error) => {
                for (_, sender) in asked.drain() {
                    let _ = sender.send(Err(error.to_another()));
                }
            }
        }
    }

    /// Those who have waited longest. Who asks for the same as another has a turn after it.
    fn take(&self) -> HashMap<K, oneshot::Sender<Result<Option<V>>>> {
        let mut waiting = self.asked();
        let mut taken = HashMap::new();
        let mut left = Vec::new();
        for (key, sender) in waiting.drain(..) {
            // Whoever does not wait any more is let go.
            if sender.is_closed() {
                continue;
            }
            match taken.len() < MOST && !taken.contains_key(&key) {
                true => drop(taken.insert(key, sender)),
                false => left.push((key, sender)),
            }
        }
        *waiting = left;
        taken
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Asked<K, V>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use resurgam_store::Error;

    use super::*;

    /// Answers with the keys themselves, not at once, and counts how often it is asked.
    async fn echo(keys: Vec<u32>, reads: &AtomicUsize) -> Result<Answers<u32, u32>> {
        reads.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        Ok(keys.into_iter().filter(|key| *key != 7).map(|key| (key, Ok(key))).collect())
    }

    #[test]
    async fn what_is_asked_for_meanwhile_is_read_at_once() {
        let (batched, reads) = (BatchedReads::default(), AtomicUsize::new(0));
        let asks = (0..50).map(|key| batched.ask(key, |keys| echo(keys, &reads)));
        let answers = all(asks).await;
        for (key, answer) in (0..).zip(answers) {
            assert_eq!(answer.unwrap(), (key != 7).then_some(key));
        }
        assert!(reads.load(Ordering::SeqCst) <= 2, "{reads:?}");
    }

    #[test]
    async fn more_than_fit_and_the_same_twice_are_read_one_after_another() {
        let (batched, reads) = (BatchedReads::default(), AtomicUsize::new(0));
        let keys = (0..200).map(|number| number % 100);
        let answers = all(keys.map(|key| batched.ask(key, |keys| echo(keys, &reads)))).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 200);
        assert!((4..=6).contains(&reads.load(Ordering::SeqCst)), "{reads:?}");
    }

    #[test]
    async fn trouble_is_told_to_everybody() {
        let batched: BatchedReads<u32, u32> = BatchedReads::default();
        let refuse = |_| async { Err(Error::transient("read: no")) };
        let answers = all((0..10).map(|key| batched.ask(key, refuse))).await;
        for answer in answers {
            assert!(answer.unwrap_err().is_transient());
        }
    }

    #[test]
    async fn who_is_dropped_while_it_reads_for_others_takes_nothing_from_them() {
        let (batched, reads) = (BatchedReads::default(), AtomicUsize::new(0));
        let never = |_: Vec<u32>| std::future::pending::<Result<Answers<u32, u32>>>();
        let mut leader = Box::pin(batched.ask(1, never));
        let mut follower = Box::pin(batched.ask(2, |keys| echo(keys, &reads)));
        std::future::poll_fn(|context| {
            assert!(leader.as_mut().poll(context).is_pending());
            assert!(follower.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(leader);
        assert_eq!(follower.await.unwrap(), Some(2));
    }

    /// Waits for all of them, at the same time.
    async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
        let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
        std::future::poll_fn(|context| {
            for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
                if let Poll::Ready(answer) = future.as_mut().poll(context) {
                    *output = Some(answer);
                }
            }
            match futures.iter().all(|(_, output)| output.is_some()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        futures.into_iter().filter_map(|(_, output)| output).collect()
    }
}

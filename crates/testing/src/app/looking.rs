//! What tests look at.

use resurgam::{Activity, AttemptRow, Constructor, Description};

use super::TestApp;

impl TestApp {
    /// The history of one run of an instance with its attempts, one line each.
    pub async fn run_history(&self, id: &str, run: u32) -> String {
        let history = self.client().run_history(id, run).await.expect("a store that answers");
        history.unwrap_or_else(|| panic!("there is no instance {id}"))
    }

    /// The history of an instance with its attempts, one line each.
    pub async fn history(&self, id: &str) -> String {
        let history = self.client().history(id).await.expect("a store that answers");
        history.unwrap_or_else(|| panic!("there is no instance {id}"))
    }

    /// The ledger of an instance.
    pub async fn ledger(&self, id: &str) -> Vec<AttemptRow> {
        self.client().attempts(id).await.expect("a store that answers")
    }

    /// What an instance is waiting for.
    pub async fn describe(&self, id: &str) -> Description {
        let description = self.client().describe(id).await.expect("a store that answers");
        description.unwrap_or_else(|| panic!("there is no instance {id}"))
    }

    /// How often an activity was attempted.
    pub fn attempts<Args, F>(&self, _constructor: F) -> u32
    where
        F: Constructor<Args>,
        F::Built: Activity,
    {
        self.attempts_of(<F::Built as Activity>::NAME)
    }

    /// How often an activity that is known by its name only was attempted.
    pub fn attempts_of(&self, activity: &str) -> u32 {
        self.recipe().counts.of(activity)
    }

    /// How often anything woke up because the time had come for it.
    #[doc(hidden)]
    pub fn wakes(&self) -> u64 {
        self.0.clock.jumps()
    }

    /// How many commits were made.
    pub fn commits(&self) -> u64 {
        self.0.faults.commits()
    }
}

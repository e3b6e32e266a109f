//! Reads of what others may have written: one at a time, and what changes meanwhile is read after.

/// What is being read because somebody else has committed. One read at a time: what changes
/// meanwhile is read after it.
#[derive(Debug, Default)]
pub(crate) struct CoalescedRead {
    /// The read that is under way.
    reading: Option<u64>,
    again: bool,
}

impl CoalescedRead {
    /// The number of a read that is to begin; otherwise it follows the one that is under way.
    pub(crate) fn begin(&mut self, numbers: &mut u64) -> Option<u64> {
        if self.reading.is_some() {
            self.again = true;
            return None;
        }
        *numbers += 1;
        self.reading = Some(*numbers);
        self.reading
    }

    /// The read is over. True when another one is to follow.
    pub(crate) fn end(&mut self) -> bool {
        self.reading = None;
        std::mem::take(&mut self.again)
    }

    pub(crate) fn is(&self, read: u64) -> bool {
        self.reading == Some(read)
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }
}

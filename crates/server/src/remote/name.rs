//! What workers call an attempt by.
//!
//! The name of an attempt is made of its call and of the token of its claim, so any server on the
//! database knows what it is about, before and after a restart. The token is a secret: whoever
//! names it was given the attempt. Workers take names as they are.

use std::fmt;

use resurgam::CallKey;
use resurgam_core::{RunKey, Seq, Uid};

/// What an attempt is called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) call: CallKey,
    pub(crate) token: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallKey { run: RunKey { uid, run }, seq } = self.call;
        write!(f, "{:x}.{run:x}.{:x}.{:016x}", uid.0, seq.0, self.token)
    }
}

impl Name {
    /// Reads what was written; none for what nobody wrote.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let uid = Uid(u128::from_str_radix(parts.next()?, 16).ok()?);
        let run = u32::from_str_radix(parts.next()?, 16).ok()?;
        let seq = Seq(u64::from_str_radix(parts.next()?, 16).ok()?);
        let token = u64::from_str_radix(parts.next()?, 16).ok()?;
        let name = Name { call: RunKey { uid, run }.call(seq), token };
        parts.next().is_none().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written_and_nothing_else_is_one() {
        let call = RunKey { uid: Uid(u128::MAX - 7), run: 3 }.call(Seq(12));
        let name = Name { call, token: 0x1f2e };
        assert_eq!(name.to_string(), "fffffffffffffffffffffffffffffff8.3.c.0000000000001f2e");
        assert_eq!(Name::read(&name.to_string()), Some(name));
        for text in ["", "x.1", "1.2.3", "1.2.3.4.5", "1.2.3.4g"] {
            assert_eq!(Name::read(text), None, "{text}");
        }
    }
}

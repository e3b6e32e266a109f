//! How instances and calls are named in paths: `UID`, and `UID.RUN.SEQ`.

use resurgam::{CallKey, RunKey, Seq, Uid};

/// A call as paths name it.
pub(crate) fn call_name(call: CallKey) -> String {
    format!("{}.{}.{}", call.run.uid, call.run.run, call.seq)
}

/// Reads the name of a call.
pub(crate) fn call(name: &str) -> Result<CallKey, String> {
    let read = || {
        let mut parts = name.splitn(3, '.');
        let uid: Uid = parts.next()?.parse().ok()?;
        let run = RunKey { uid, run: parts.next()?.parse().ok()? };
        Some(run.call(Seq(parts.next()?.parse().ok()?)))
    };
    read().ok_or_else(|| {
        format!("{name:?} names no call; write UID.RUN.SEQ, as lists of calls have it")
    })
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn the_name_of_a_call_is_read_back() {
        let key = RunKey { uid: Uid(7), run: 2 }.call(Seq(6));
        assert_eq!(call_name(key), "00000000000000000000000000000007.2.6");
        assert_eq!(call(&call_name(key)), Ok(key));
        for wrong in ["", "7.2.6", "00000000000000000000000000000007.2", "x.1.1"] {
            assert!(call(wrong).unwrap_err().contains("UID.RUN.SEQ"), "{wrong}");
        }
    }
}

//! What an action leaves in a history, however often a process crashed meanwhile.

/// Somebody's action, which was answered so, is in the history once, and so is what the answer says
/// of its call.
pub(crate) fn takes_effect_once(answer: &str, story: &str, by: &str) {
    let acted = format!("operator {by}: {answer}");
    assert_eq!(story.matches(&acted).count(), 1, "{acted}\n{story}");
    let (before, after) = story.split_once(&acted).unwrap_or_default();
    let words = answer.split(' ').collect::<Vec<_>>();
    let (verb, call) = (words[0], words.get(1).copied().unwrap_or_default());
    let seq = call.split_once('#').map_or_else(String::new, |(_, seq)| format!("#{seq}"));
    let is_end = |line: &&str| {
        ["ActivityCompleted", "ActivityFailed", "ActivityCancelled"]
            .iter()
            .any(|end| format!("{line} ").contains(&format!(" {end} {seq} ")))
    };
    // That an attempt was lost is told when somebody sees it, and may be so behind the action.
    let is_attempt =
        |line: &&str| line.contains(&format!("{call} attempt ")) && !line.contains(" lost: ");
    let ends: Vec<&str> = story.lines().filter(is_end).collect();
    let follows = || after.lines().find(|line| is_end(line) || is_attempt(line));
    match verb {
        "completed" | "failed" => {
            assert_eq!(ends.len(), 1, "it ends once\n{story}");
            assert_eq!(before.lines().filter(is_end).count(), 0, "by the action\n{story}");
            let end = if verb == "completed" { "ActivityCompleted" } else { "ActivityFailed" };
            assert!(ends[0].contains(end), "{answer}\n{story}");
        }
        "retried" => assert!(follows().is_some(), "an attempt follows\n{story}"),
        "paused" => assert_eq!(follows(), None, "nothing begins\n{story}"),
        _ => assert!(ends.len() <= 1, "it ends once at most\n{story}"),
    }
}

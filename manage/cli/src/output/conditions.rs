//! Conditions of objects as lines: a cause behind a `!`, and below it what to do next.

use holdfast_api::Condition;

use super::harmless;

/// How many causes with one remedy are shown.
const SHOWN_CAUSES: usize = 3;

/// Conditions as lines, each remedy once: behind the first causes that it is for, and how many more there are.
pub fn grouped<'a>(conditions: impl Iterator<Item = &'a Condition>) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for condition in conditions {
        let (next, cause) = (condition.next_action.as_str(), condition.cause.as_str());
        match groups.iter_mut().find(|(other, _)| *other == next) {
            Some((_, causes)) if causes.contains(&cause) => {}
            Some((_, causes)) => causes.push(cause),
            None => groups.push((next, vec![cause])),
        }
    }
    let mut lines = Vec::new();
    for (next, causes) in groups {
        lines.extend(causes.iter().take(SHOWN_CAUSES).map(|cause| format!("! {}", harmless(cause))));
        if causes.len() > SHOWN_CAUSES {
            lines.push(format!("! and {} more like these; 'holdfast status' shows all", causes.len() - SHOWN_CAUSES));
        }
        if !next.is_empty() {
            lines.push(format!("  next: {}", harmless(next)));
        }
    }
    lines
}

/// A text, and under it what there is to say.
pub fn with_conditions(text: String, conditions: &[Condition]) -> String {
    let lines = conditions.iter().map(|condition| match condition.next_action.as_str() {
        "" => format!("\n! {}", harmless(&condition.cause)),
        next => format!("\n! {}\n  next: {}", harmless(&condition.cause), harmless(next)),
    });
    text + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_printed_once_for_all_causes_that_it_is_for() {
        let condition = |cause: String, next: &str| Condition::new(cause, next);
        let mut conditions: Vec<Condition> =
            (1..=6).map(|disk| condition(format!("disk d{disk} is missing"), "attach it again")).collect();
        conditions.insert(1, condition("pool tank is read-only".into(), ""));
        conditions.push(conditions[0].clone());
        let expected = [
            "! disk d1 is missing",
            "! disk d2 is missing",
            "! disk d3 is missing",
            "! and 3 more like these; 'holdfast status' shows all",
            "  next: attach it again",
            "! pool tank is read-only",
        ];
        assert_eq!(grouped(conditions.iter()), expected);
    }
}

//! When a space was scrubbed, and when it is next.

use holdfast_api::{SpaceScrub, word};

/// The last scrub: when it ended, and how.
pub(super) fn last(scrub: &SpaceScrub) -> String {
    match (&scrub.last_at, &scrub.last_result, &scrub.last_state) {
        (None, ..) => "none yet".into(),
        (Some(at), Some(result), _) => format!("{at}: {result}"),
        (Some(at), None, state) => format!("{at}: {}", state.as_ref().map(word).unwrap_or_default()),
    }
}

/// The next scrub: when it is due, or which job does it.
pub(super) fn next(scrub: &SpaceScrub) -> String {
    match (scrub.job, &scrub.next_at) {
        (Some(job), _) => format!("under way, job {job}"),
        (None, Some(at)) => at.clone(),
        (None, None) => "not scheduled".into(),
    }
}

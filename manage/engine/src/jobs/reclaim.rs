//! Room that destroyed snapshots of a volume kept, given back while the volume is in use.
//!
//! Invariant: it ends when nothing is to be given back any more, also of snapshots that were destroyed meanwhile.

use holdfast_model::ByteSize;

use super::control::Control;
use super::spec::{Cut, Outcome, Site, Target};
use super::steered::Steered;
use super::volumes::{failed, volume_of};

/// Gives it back.
pub(super) async fn run(site: &Site, target: &Target, control: &Control) -> Result<Outcome, Cut> {
    let volume = volume_of(site, target)?;
    let steps = Steered::new(control);
    let mut freed = 0;
    // What was destroyed meanwhile has this job, too.
    while volume.is_to_be_reclaimed() {
        // Whoever asks once more from here on is seen by the question above, or begins it again.
        control.takes_anew();
        freed += match volume.reclaim(&steps).await {
            Err(_) if steps.is_stopped() => return Err(Cut::Stopped),
            freed => freed.map_err(|error| failed(target, &error))?,
        };
    }
    let left = ByteSize(volume.kept_bytes());
    Ok(Outcome { result: format!("{} given back; snapshots keep {left}", ByteSize(freed)), findings: Vec::new() })
}

//! Reservations of a unit, as people see them.

use crate::ports::{InitiatorPort, TargetPort};

/// A registrant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrantView {
    /// Whose it is.
    pub initiator: InitiatorPort,
    /// Through which port it registered.
    pub target: TargetPort,
    /// Its key.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holder: bool,
}

/// All that is reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationView {
    /// Who is registered.
    pub registrants: Vec<RegistrantView>,
    /// The type of the persistent reservation: "write-exclusive", "exclusive-access", and these with
    /// "-registrants-only" or "-all-registrants".
    pub kind: Option<&'static str>,
    /// How often registrations have changed.
    pub generation: u32,
    /// Whether they outlive a restart.
    pub aptpl: bool,
    /// Who has reserved the unit by the older command, which no restart outlives.
    pub reserved_by: Option<InitiatorPort>,
    /// Why the unit is not ready: what was kept cannot be read.
    pub unreadable: Option<String>,
}

//! Which instructions do the work: found out once, and handed around as a small value.
//!
//! Invariant: a [`Kernel`] exists only where the processor has what it needs, so using one is safe.

use crate::lanes::portable::Words;
use crate::pass::{Differs, Pass};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx2Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// From the best to the one that always works.
const KINDS: &[Kind] = &[
    #[cfg(target_arch = "x86_64")]
    Kind::Avx512Gfni,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx2Gfni,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx2,
    Kind::Portable,
];

impl Kind {
    fn is_there(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Gfni => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("gfni"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Gfni => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Portable => true,
        }
    }
}

/// The instructions that parity is calculated with.
///
/// All kernels give the same bytes. [`Kernel::best`] costs next to nothing, but may as well be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Kind);

impl Kernel {
    /// The one that works everywhere, without a word of assembly.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best that this processor has.
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::PORTABLE)
    }

    /// All that this processor has, the best first.
    pub fn available() -> impl Iterator<Item = Self> {
        KINDS.iter().copied().filter(|kind| kind.is_there()).map(Self)
    }

    /// What it is called in logs and reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Gfni => "avx512-gfni",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2Gfni => "avx2-gfni",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            Kind::Portable => "portable",
        }
    }

    pub(crate) fn walk(self, pass: &mut Pass) -> Differs {
        match self.0 {
            // SAFETY: this kind exists only where the processor has its features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Gfni => unsafe { walk_avx512_gfni(pass) },
            // SAFETY: this kind exists only where the processor has its features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2Gfni => unsafe { walk_avx2_gfni(pass) },
            // SAFETY: this kind exists only where the processor has its features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { walk_avx2(pass) },
            // SAFETY: plain words need nothing of the processor.
            Kind::Portable => unsafe { pass.walk::<Words, 2>() },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,gfni")]
fn walk_avx512_gfni(pass: &mut Pass) -> Differs {
    // SAFETY: the features that these lanes need are those of this function.
    unsafe { pass.walk::<crate::lanes::x86::Wide, 4>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,gfni")]
fn walk_avx2_gfni(pass: &mut Pass) -> Differs {
    // SAFETY: the features that these lanes need are those of this function.
    unsafe { pass.walk::<crate::lanes::x86::Affine, 4>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn walk_avx2(pass: &mut Pass) -> Differs {
    // SAFETY: the features that these lanes need are those of this function.
    unsafe { pass.walk::<crate::lanes::x86::Plain, 4>() }
}

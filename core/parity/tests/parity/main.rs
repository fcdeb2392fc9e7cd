//! Parity from outside: every kernel against arithmetic byte by byte, and against Intel ISA-L.

mod checks;
#[cfg(not(miri))]
mod isal;
mod locate;
#[cfg(not(miri))]
mod oracle;
mod reference;
mod shapes;

//! Parity from outside: every kernel against arithmetic byte by byte, and against Intel ISA-L.

mod checks;
mod isal;
mod oracle;
mod reference;
mod shapes;

//! The window of commands (RFC 7143 4.2.2.1): which numbers a session takes next.
//!
//! ```text
//!        ExpCmdSN              MaxCmdSN
//!   taken ──┤ may come, in order ├── ignored
//! ```
//!
//! Invariant: MaxCmdSN never goes back, and so many commands are in flight at most as the window was opened for.

/// `a` comes before `b` among numbers that wrap around (RFC 1982).
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is taken up.
    Now,
    /// It waits for those before it.
    Early,
    /// It came before, or nobody allowed it: nothing happens.
    Ignored,
}

/// The window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    expected: u32,
    limit: u32,
    in_flight: u32,
}

impl Window {
    /// One that expects `first` and has `limit` commands in flight at most.
    pub fn new(first: u32, limit: u32) -> Self {
        Self { expected: first, limit: limit.max(1), in_flight: 0 }
    }

    /// The number that is expected next.
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// The last that may come.
    pub fn last(&self) -> u32 {
        self.expected.wrapping_add(self.limit - self.in_flight).wrapping_sub(1)
    }

    /// What becomes of a command of this number, which is not immediate.
    pub fn look(&self, number: u32) -> Turn {
        if number == self.expected && self.in_flight < self.limit {
            Turn::Now
        } else if before(number, self.expected) || before(self.last(), number) {
            Turn::Ignored
        } else {
            Turn::Early
        }
    }

    /// The expected command was taken up; it is in flight until [`ended`](Self::ended).
    pub fn take(&mut self) {
        self.expected = self.expected.wrapping_add(1);
        self.in_flight += 1;
    }

    /// The expected number was of something that is over at once, or given up.
    pub fn pass(&mut self) {
        self.take();
        self.ended();
    }

    /// A command that was taken up is answered.
    pub fn ended(&mut self) {
        debug_assert!(self.in_flight > 0);
        self.in_flight -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_wrap_around() {
        assert!(before(u32::MAX, 0) && before(1, 2) && !before(2, 2) && !before(3, 2));
        let mut window = Window::new(u32::MAX, 4);
        assert_eq!((window.look(u32::MAX), window.look(0)), (Turn::Now, Turn::Early));
        assert_eq!((window.look(3), window.look(u32::MAX - 1)), (Turn::Ignored, Turn::Ignored));
        window.take();
        assert_eq!((window.expected(), window.last(), window.look(0)), (0, 2, Turn::Now));
    }

    #[test]
    fn a_full_window_is_closed() {
        let mut window = Window::new(10, 2);
        window.take();
        window.take();
        assert_eq!((window.expected(), window.last()), (12, 11));
        assert_eq!(window.look(12), Turn::Ignored);
        window.ended();
        assert_eq!((window.last(), window.look(12)), (12, Turn::Now));
    }

    proptest! {
        #[test]
        fn the_last_never_goes_back(first: u32, steps in prop::collection::vec(any::<bool>(), 0..200)) {
            let mut window = Window::new(first, 8);
            let mut last = window.last();
            for begin in steps {
                if begin && window.look(window.expected()) == Turn::Now {
                    window.take();
                } else if !begin && window.in_flight > 0 {
                    window.ended();
                }
                prop_assert!(!before(window.last(), last));
                prop_assert!(window.in_flight <= 8);
                last = window.last();
            }
        }
    }
}

//! CHAP (RFC 1994) as iSCSI has it (RFC 7143 12.1.3): a challenge, and the digest that only who has the secret can make.
//!
//! Invariant: an answer is compared in constant time, and no challenge is used twice.

use md5::Md5;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::account::Secret;

/// The longest challenge and response that are read.
pub const BINARY_BYTES: usize = 1024;

/// A digest that both sides know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Which every implementation has.
    Md5,
    /// The better one.
    Sha256,
}

impl Algorithm {
    /// The first of the initiator's list that is known.
    pub fn choose(list: &str) -> Option<Self> {
        list.split(',').find_map(|choice| match choice {
            "5" => Some(Self::Md5),
            "7" => Some(Self::Sha256),
            _ => None,
        })
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Self::Md5 => 5,
            Self::Sha256 => 7,
        }
    }

    /// Bytes of a challenge: as many as the digest has.
    fn challenge_bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }

    /// What proves the secret.
    pub fn response(self, identifier: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
        let parts = [&[identifier], secret.expose(), challenge];
        match self {
            Self::Md5 => parts.iter().fold(Md5::new(), |digest, part| digest.chain_update(part)).finalize().to_vec(),
            Self::Sha256 => {
                parts.iter().fold(Sha256::new(), |digest, part| digest.chain_update(part)).finalize().to_vec()
            }
        }
    }
}

/// A challenge that waits for its answer.
#[derive(Debug)]
pub struct Challenge {
    /// How it is answered.
    pub algorithm: Algorithm,
    /// Its number.
    pub identifier: u8,
    /// Its random bytes.
    pub bytes: Vec<u8>,
}

impl Challenge {
    /// A new one; none where the system has no random numbers.
    pub fn new(algorithm: Algorithm) -> Option<Self> {
        let mut random = vec![0; algorithm.challenge_bytes() + 1];
        getrandom::fill(&mut random).ok()?;
        let identifier = random.pop()?;
        Some(Self { algorithm, identifier, bytes: random })
    }

    /// Whether `response` proves `secret`.
    pub fn is_answered_by(&self, response: &[u8], secret: &Secret) -> bool {
        self.algorithm.response(self.identifier, secret, &self.bytes).ct_eq(response).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::text::as_hexadecimal;

    #[test]
    fn digests_are_the_known_ones() {
        // MD5 of "abc" and SHA-256 of "abc", cut where CHAP puts its parts together.
        let secret = Secret::new("b");
        let md5 = Algorithm::Md5.response(b'a', &secret, b"c");
        assert_eq!(as_hexadecimal(&md5), "0x900150983cd24fb0d6963f7d28e17f72");
        let sha = Algorithm::Sha256.response(b'a', &secret, b"c");
        assert_eq!(as_hexadecimal(&sha), "0xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn the_first_known_algorithm_is_taken() {
        assert_eq!(Algorithm::choose("6,7,5"), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::choose("5,6,7,8"), Some(Algorithm::Md5));
        assert_eq!(["56", "", "6", " 5"].map(Algorithm::choose), [None; 4]);
    }

    #[test]
    fn only_the_right_answer_passes() {
        let challenge = Challenge::new(Algorithm::Md5).unwrap();
        let secret = Secret::new("twelve bytes");
        let right = Algorithm::Md5.response(challenge.identifier, &secret, &challenge.bytes);
        assert!(challenge.is_answered_by(&right, &secret));
        assert!(!challenge.is_answered_by(&right[..15], &secret) && !challenge.is_answered_by(&[], &secret));
        assert!(!challenge.is_answered_by(&right, &Secret::new("other secret")));
        assert_ne!(Challenge::new(Algorithm::Sha256).unwrap().bytes, Challenge::new(Algorithm::Sha256).unwrap().bytes);
    }
}

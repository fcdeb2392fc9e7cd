//! Reads SDDL.
//!
//! Invariant: every byte of the text is read as what it means or is the place of an error.

use super::{FLAGS, KINDS, LIST_FLAGS, MAX_TEXT_BYTES, NULL, Problem, RIGHTS, SddlError};
use crate::ace::{Ace, AceFlags, AceKind};
use crate::acl::{Acl, AclState};
use crate::descriptor::SecurityDescriptor;
use crate::mask::AccessMask;
use crate::sid::Sid;
use crate::well_known::{Aliased, aliased};

/// The descriptor that a text stands for. `domain` is the one that aliases as DA (Domain Admins) belong to. Space
/// between parts, and the case of letters, do not matter; parts come in any order, each once.
///
/// # Errors
/// [`SddlError`], which names the place.
pub fn parse(text: &str, domain: Option<&Sid>) -> Result<SecurityDescriptor, SddlError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(SddlError::TooLong(text.len()));
    }
    let mut parser = Parser { text, at: 0, domain };
    let mut descriptor = SecurityDescriptor::default();
    loop {
        parser.skip_space();
        let at = parser.at;
        let Some(letter) = parser.rest().chars().next().map(|letter| letter.to_ascii_uppercase()) else {
            return Ok(descriptor);
        };
        if !"OGDS".contains(letter) || !parser.rest()[1..].starts_with(':') {
            return parser.expected("O:, G:, D: or S:");
        }
        parser.at += 2;
        let is_there = match letter {
            'O' => descriptor.owner.replace(parser.sid()?).is_some(),
            'G' => descriptor.group.replace(parser.sid()?).is_some(),
            'D' => {
                let list = parser.list(&mut descriptor, 0)?;
                std::mem::replace(&mut descriptor.dacl, list) != AclState::Absent
            }
            _ => {
                let list = parser.list(&mut descriptor, 1)?;
                std::mem::replace(&mut descriptor.sacl, list) != AclState::Absent
            }
        };
        if is_there {
            return Err(SddlError::Syntax { at, problem: Problem::Twice(letter) });
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    domain: Option<&'a Sid>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, SddlError> {
        self.wrong(Problem::Expected(what))
    }

    fn wrong<T>(&self, problem: Problem) -> Result<T, SddlError> {
        Err(SddlError::Syntax { at: self.at, problem })
    }

    /// Passes over a word, whatever its case, if it comes next.
    fn passes(&mut self, word: &str) -> bool {
        let is_next = self.rest().get(..word.len()).is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    /// Passes over the first word of a table that comes next.
    fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        table.iter().find(|(word, _)| self.passes(word)).map(|(_, value)| *value)
    }

    /// Space, a mark, and space.
    fn mark(&mut self, mark: &'static str, what: &'static str) -> Result<(), SddlError> {
        self.skip_space();
        if !self.passes(mark) {
            return self.expected(what);
        }
        self.skip_space();
        Ok(())
    }

    /// An identifier: two letters, or S-1-…
    fn sid(&mut self) -> Result<Sid, SddlError> {
        const WHAT: &str = "an identifier, S-1-… or two letters as BA";
        self.skip_space();
        let rest = self.rest();
        if rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("S-")) {
            let is_part = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, '-' | 'x' | 'X');
            let mut len = 2 + rest[2..].find(|letter| !is_part(letter)).unwrap_or(rest.len() - 2);
            // A D that ends it begins the DACL.
            if rest[len..].starts_with(':') && rest[..len].ends_with(['D', 'd']) {
                len -= 1;
            }
            return match rest[..len].parse() {
                Ok(sid) => {
                    self.at += len;
                    Ok(sid)
                }
                Err(error) => self.wrong(Problem::Sid(error)),
            };
        }
        let Some(letters) = rest.get(..2) else { return self.expected(WHAT) };
        let sid = match (aliased(letters), self.domain) {
            (Some(Aliased::Sid(sid)), _) => sid,
            (Some(Aliased::Rid(rid)), Some(domain)) => match domain.with_rid(rid) {
                Ok(sid) => sid,
                Err(error) => return self.wrong(Problem::Sid(error)),
            },
            (Some(Aliased::Rid(_)), None) => return self.wrong(Problem::NoDomain(letters.to_owned())),
            (None, _) => return self.expected(WHAT),
        };
        self.at += 2;
        Ok(sid)
    }

    /// Flags and entries of the DACL (0) or SACL (1).
    fn list(&mut self, descriptor: &mut SecurityDescriptor, which: usize) -> Result<AclState, SddlError> {
        let mut is_null = false;
        loop {
            self.skip_space();
            if self.passes(NULL) {
                is_null = true;
            } else if let Some(bits) = self.one_of(LIST_FLAGS) {
                descriptor.control |= bits[which];
            } else {
                break;
            }
        }
        let mut entries = Vec::new();
        while self.rest().starts_with('(') {
            if is_null {
                return self.expected("no entries behind NO_ACCESS_CONTROL");
            }
            entries.push(self.entry()?);
            self.skip_space();
        }
        Ok(if is_null { AclState::Null } else { AclState::Present(Acl::new(entries)?) })
    }

    fn entry(&mut self) -> Result<Ace, SddlError> {
        self.mark("(", "(")?;
        let kind = self.kind()?;
        self.mark(";", "; behind the type")?;
        let mut flags = AceFlags::empty();
        while let Some(flag) = self.one_of(FLAGS) {
            flags |= flag;
        }
        self.mark(";", "flags as OI, CI, NP, IO, ID, SA, FA, or ;")?;
        let mask = self.rights()?;
        self.mark(";", "rights as FA, FR, 0x1200a9, or ;")?;
        self.mark(";", "; : files have no object types")?;
        self.mark(";", "; : files have no object types")?;
        let sid = self.sid()?;
        self.mark(")", ")")?;
        Ok(Ace::plain(kind, sid, mask).with_flags(flags))
    }

    fn kind(&mut self) -> Result<AceKind, SddlError> {
        let rest = self.rest();
        let word = rest.split([';', ')']).next().unwrap_or_default().trim_ascii_end();
        match KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
            Some((_, kind)) => {
                self.at += word.len();
                Ok(*kind)
            }
            None => self.wrong(Problem::Type(word.chars().take(8).collect())),
        }
    }

    /// Letters, or one number: hexadecimal behind 0x, octal behind 0, otherwise decimal.
    fn rights(&mut self) -> Result<AccessMask, SddlError> {
        let rest = self.rest();
        if !rest.starts_with(|first: char| first.is_ascii_digit()) {
            let mut mask = AccessMask::empty();
            while let Some(right) = self.one_of(RIGHTS) {
                mask |= right;
            }
            return Ok(mask);
        }
        let len = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = rest[..len].to_ascii_lowercase();
        let (digits, radix) = match word.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None if word.len() > 1 && word.starts_with('0') => (&word[1..], 8),
            None => (word.as_str(), 10),
        };
        let Ok(bits) = u32::from_str_radix(digits, radix) else { return self.expected("a number of 32 bits") };
        self.at += len;
        Ok(AccessMask::from_bits_retain(bits))
    }
}

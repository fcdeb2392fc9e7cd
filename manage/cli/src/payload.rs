//! Data for the demonstration: files that no compression and no luck can fake, and their comparison.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// Fills the file at `path` with `bytes` bytes that follow from `seed`.
pub fn fill(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("file {}: it cannot be written", path.display()))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..bytes / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    file.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    Ok(())
}

/// Whether the file `whole` begins with all that is in the file `front`.
pub fn same_front(front: &Path, whole: &Path) -> Result<bool> {
    let mut front = BufReader::with_capacity(1 << 20, File::open(front)?);
    let mut whole = BufReader::with_capacity(1 << 20, File::open(whole)?);
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = front.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        match whole.read_exact(&mut right[..count]) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            result => result?,
        }
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_byte_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        fill(&one, 3 << 20, 7).unwrap();
        let mut bytes = std::fs::read(&one).unwrap();
        bytes.extend([0; 100]);
        std::fs::write(&two, &bytes).unwrap();
        assert!(same_front(&one, &two).unwrap());
        bytes[2 << 20] ^= 1;
        std::fs::write(&two, &bytes).unwrap();
        assert!(!same_front(&one, &two).unwrap());
        assert!(!same_front(&two, &one).unwrap());
    }
}

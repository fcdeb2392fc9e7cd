//! What `/sys` and `/proc` say about block devices.
//!
//! Invariant: whatever is missing there reads as unknown, never as an error.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A slot of an enclosure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnclosureSlot {
    /// The enclosure: its maker, model and id.
    pub enclosure: String,
    /// The number of the slot.
    pub slot: u32,
}

/// A block device's directory in `/sys`, and that of the whole disk that it is part of.
pub(super) struct BlockDirectory {
    own: PathBuf,
    disk: PathBuf,
}

/// The trimmed content of a file, unless it is empty or unreadable.
fn text(path: impl AsRef<Path>) -> Option<String> {
    let content = fs::read_to_string(path).ok()?;
    let content = content.trim_matches(|character: char| character.is_whitespace() || character == '\0');
    (!content.is_empty()).then(|| content.to_owned())
}

fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Names of all whole block devices.
pub(super) fn disk_names() -> Vec<String> {
    names("/sys/block")
}

/// `major:minor` as `/sys` and `/proc` write it.
fn number_text(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

impl BlockDirectory {
    /// The device with a number, as `st_rdev` or `st_dev` give it. `None` for file systems without a disk.
    pub(super) fn of_number(device: u64) -> Option<Self> {
        let own = fs::canonicalize(format!("/sys/dev/block/{}", number_text(device))).ok()?;
        let disk = if own.join("partition").exists() { own.parent()?.to_path_buf() } else { own.clone() };
        Some(Self { own, disk })
    }

    /// A limit or trait of the request queue.
    pub(super) fn queue(&self, name: &str) -> Option<String> {
        text(self.disk.join("queue").join(name))
    }

    pub(super) fn model(&self) -> Option<String> {
        let device = self.disk.join("device");
        let model = text(device.join("model"))?;
        match text(device.join("vendor")).filter(|vendor| !vendor.starts_with("0x") && vendor != "ATA") {
            Some(vendor) => Some(format!("{vendor} {model}")),
            None => Some(model),
        }
    }

    /// NVMe and virtio name it plainly, SCSI in a vital product data page, device mapper by its UUID, and udev knows
    /// it of the rest.
    pub(super) fn serial(&self) -> Option<String> {
        text(self.disk.join("device/serial"))
            .or_else(|| text(self.disk.join("serial")))
            .or_else(|| page_80(&fs::read(self.disk.join("device/vpd_pg80")).ok()?))
            .or_else(|| text(self.disk.join("dm/uuid")))
            .or_else(|| self.udev("ID_SERIAL_SHORT"))
    }

    /// The slot that the disk sits in, as its enclosure (SES-3) tells the kernel: named by maker, model and id of the
    /// enclosure.
    pub(super) fn slot(&self) -> Option<EnclosureSlot> {
        let device = self.disk.join("device");
        let link = names(&device).into_iter().find(|name| name.starts_with("enclosure_device:"))?;
        let component = fs::canonicalize(device.join(link)).ok()?;
        let slot = text(component.join("slot"))?.parse().ok()?;
        let enclosure = component.parent()?;
        let maker = ["device/vendor", "device/model"].map(|name| text(enclosure.join(name)));
        let id = text(enclosure.join("id")).or_else(|| Some(enclosure.file_name()?.to_string_lossy().into_owned()))?;
        let id = id.trim_start_matches("0x").to_owned();
        let words: Vec<String> = maker.into_iter().flatten().chain([id]).collect();
        Some(EnclosureSlot { enclosure: words.join(" "), slot })
    }

    fn udev(&self, key: &str) -> Option<String> {
        let number = text(self.disk.join("dev"))?;
        let content = fs::read_to_string(format!("/run/udev/data/b{number}")).ok()?;
        content
            .lines()
            .find_map(|line| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
    }

    /// Who uses it or one of its partitions: a mount, swap, or a device on top.
    pub(super) fn used_by(&self) -> Option<String> {
        let mut directories = vec![self.own.clone()];
        for name in names(&self.own) {
            let directory = self.own.join(name);
            if directory.join("partition").exists() {
                directories.push(directory);
            }
        }
        directories.iter().find_map(|directory| {
            let name = directory.file_name()?.to_string_lossy().into_owned();
            let on = if *directory == self.own { String::new() } else { format!("partition {name} ") };
            if let Some(holder) = names(directory.join("holders")).first() {
                return Some(format!("{on}part of {holder}"));
            }
            let number = text(directory.join("dev"))?;
            if let Some(place) = mounted_at(&fs::read_to_string("/proc/self/mountinfo").ok()?, &number) {
                return Some(format!("{on}mounted at {place}"));
            }
            let swaps = fs::read_to_string("/proc/swaps").ok()?;
            let path = format!("/dev/{name}");
            swaps.lines().any(|line| line.split_whitespace().next() == Some(&path)).then(|| format!("{on}used as swap"))
        })
    }
}

/// SCSI serial number page (SPC-5 7.7.16): four bytes of header, then text.
fn page_80(page: &[u8]) -> Option<String> {
    let len = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let serial = String::from_utf8_lossy(page.get(4..4 + len)?).trim_matches([' ', '\0']).to_owned();
    (!serial.is_empty()).then_some(serial)
}

/// The first place at which the device `number` is mounted (proc(5), mountinfo).
fn mounted_at(mountinfo: &str, number: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ');
        (fields.nth(2)? == number).then_some(())?;
        fields.nth(1).map(|place| place.replace("\\040", " "))
    })
}

/// The loop device that stands on a file.
pub(super) fn loop_over(file: &Path) -> Option<String> {
    disk_names().into_iter().filter(|name| name.starts_with("loop")).find(|name| {
        text(format!("/sys/block/{name}/loop/backing_file")).is_some_and(|backing| Path::new(&backing) == file)
    })
}

/// Whether somebody holds a lock on a whole file (proc(5), locks).
pub(super) fn is_locked(file: &Metadata) -> bool {
    let (device, inode) = (file.dev(), file.ino());
    let wanted = format!("{:02x}:{:02x}:{inode}", libc::major(device), libc::minor(device));
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| line.contains(" FLOCK ") && line.split_whitespace().any(|field| field == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_pages_are_bounds_checked() {
        assert_eq!(page_80(b"\0\x80\0\x06  AB12"), Some("AB12".into()));
        assert_eq!(page_80(b"\0\x80\0\x09  AB12"), None);
        assert_eq!(page_80(b"\0\x80"), None);
        assert_eq!(page_80(b"\0\x80\0\x02  "), None);
    }

    /// A disk in a tree as `/sys` has it: the enclosure knows the disk, and the disk the component that holds it.
    #[test]
    fn a_slot_is_what_the_enclosure_tells() {
        let root = tempfile::tempdir().unwrap();
        let (enclosure, disk) = (root.path().join("enclosure/6:0:12:0"), root.path().join("block/sdc"));
        let component = enclosure.join("Slot 03");
        for folder in [&component, &enclosure.join("device"), &disk.join("device")] {
            fs::create_dir_all(folder).unwrap();
        }
        let directory = BlockDirectory { own: disk.clone(), disk: disk.clone() };
        assert_eq!(directory.slot(), None);
        std::os::unix::fs::symlink(&component, disk.join("device/enclosure_device:Slot 03")).unwrap();
        assert_eq!(directory.slot(), None, "a component without a number");
        fs::write(component.join("slot"), "3\n").unwrap();
        assert_eq!(directory.slot(), Some(EnclosureSlot { enclosure: "6:0:12:0".into(), slot: 3 }));
        fs::write(enclosure.join("id"), "0x500605b0000272b7\n").unwrap();
        fs::write(enclosure.join("device/vendor"), "ACME    \n").unwrap();
        fs::write(enclosure.join("device/model"), "JBOD-24         \n").unwrap();
        assert_eq!(
            directory.slot(),
            Some(EnclosureSlot { enclosure: "ACME JBOD-24 500605b0000272b7".into(), slot: 3 })
        );
    }

    #[test]
    fn mounts_are_found_by_number() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:17 / /srv/my\\040disk rw - ext4 /dev/sdb1 rw\n";
        assert_eq!(mounted_at(table, "8:17"), Some("/srv/my disk".into()));
        assert_eq!(mounted_at(table, "8:1"), Some("/".into()));
        assert_eq!(mounted_at(table, "8:2"), None);
    }

    #[test]
    fn numbers_without_a_disk_have_no_directory() {
        assert!(BlockDirectory::of_number(libc::makedev(0, 1)).is_none());
    }
}

//! Who may do what, and what a write takes away.
//!
//! Another user is another process: `setpriv` runs one where a test needs it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;

use crate::support::Scene;

/// Runs a shell as a user without privileges. The path of the mount is its `$1`.
fn as_user(script: &str, path: &Path) -> bool {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-c", script, "sh"]).arg(path);
    command.output().expect("setpriv runs").status.success()
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("set");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("facts").mode() & 0o7777
}

#[test]
fn the_kernel_checks_modes_for_every_user() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.directory();
    open_to_all(&root);
    fs::write(root.join("secret"), b"secret").expect("written");
    fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o640)).expect("set");
    assert!(!as_user("cat $1/secret", &root));
    assert!(!as_user("echo more >> $1/secret", &root));
    chown(root.join("secret"), None, Some(1000)).expect("set");
    assert!(as_user("cat $1/secret", &root) && !as_user("echo more >> $1/secret", &root));
    assert!(as_user("echo own > $1/own && chmod 600 $1/own && ! chown 0 $1/own", &root));
    assert_eq!(fs::metadata(root.join("own")).expect("facts").uid(), 1000);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o1777)).expect("set");
    assert!(!as_user("rm -f $1/secret", &root), "the directory is sticky");
    assert!(as_user("rm -f $1/own", &root));
}

#[test]
fn a_direct_write_takes_privileges_away_and_that_is_seen_at_once() {
    let Some(scene) = Scene::new() else { return };
    open_to_all(&scene.directory());
    let path = scene.path("program");
    fs::write(&path, [0; 8192]).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).expect("set");
    assert_eq!(mode(&path), 0o6777);
    let write = "dd if=/dev/zero of=$1/program oflag=direct conv=notrunc bs=4096 count=1";
    assert!(as_user(write, &scene.directory()));
    assert_eq!(mode(&path), 0o777);
}

#[test]
fn a_group_is_inherited_where_the_directory_says_so() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.directory();
    open_to_all(&root);
    chown(&root, None, Some(77)).expect("set");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o2777)).expect("set");
    assert!(as_user("touch $1/file && mkdir $1/directory", &root));
    let (file, directory) = (fs::metadata(root.join("file")), fs::metadata(root.join("directory")));
    let (file, directory) = (file.expect("facts"), directory.expect("facts"));
    assert_eq!((file.uid(), file.gid(), directory.gid(), directory.mode() & 0o2000), (1000, 77, 77, 0o2000));
}

#[test]
fn a_write_by_another_takes_privileges_away() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.directory();
    open_to_all(&root);
    let file = root.join("program");
    fs::write(&file, b"program").expect("written");
    let dress = |bits: u32| fs::set_permissions(&file, fs::Permissions::from_mode(bits)).expect("set");
    for (change, script) in [
        ("a write", "echo x >> $1/program"),
        ("an opening that cuts", ": > $1/program"),
        ("a cut", "truncate -s 3 $1/program"),
        ("room set aside", "fallocate -l 10000 $1/program"),
    ] {
        // Twice: what is known of the file from the first time must not hide what it was given since.
        for _ in 0..2 {
            dress(0o6777);
            assert!(as_user(script, &root), "{change}");
            assert_eq!(mode(&file), 0o777, "{change}");
        }
    }
    for script in ["echo x >> $1/program", "fallocate -l 20000 $1/program"] {
        dress(0o2767);
        assert!(as_user(script, &root));
        assert_eq!(mode(&file), 0o767, "{script}: who is not of the group leaves none of its bits");
        dress(0o2767);
        chown(&file, None, Some(1000)).expect("set");
        dress(0o2767);
        assert!(as_user(script, &root));
        assert_eq!(mode(&file), 0o2767, "{script}: without execution by the group the bit means something else");
        chown(&file, None, Some(0)).expect("set");
    }
    dress(0o6777);
    fs::write(&file, b"by an administrator").expect("written");
    assert_eq!(mode(&file), 0o6777, "who may set the bits keeps them");
    assert!(as_user("echo x >> $1/program", &root));
    assert_eq!(mode(&file), 0o777, "and the next one does not");
    dress(0o6777);
    chown(&file, Some(5), None).expect("set");
    assert_eq!(mode(&file), 0o777, "a new owner");
}

#[test]
fn a_write_takes_capabilities_away() {
    let Some(scene) = Scene::new() else { return };
    let file = scene.path("program");
    // Version 2, cap_net_raw permitted (linux/capability.h).
    let value = [0, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let has = || rustix::fs::getxattr(&file, "security.capability", &mut [0u8; 64][..]).is_ok();
    fs::write(&file, b"program").expect("written");
    for _ in 0..2 {
        rustix::fs::setxattr(&file, "security.capability", &value, XattrFlags::empty()).expect("set");
        assert!(has());
        fs::write(&file, b"another program").expect("written");
        assert!(!has());
    }
    rustix::fs::setxattr(&file, "security.capability", &value, XattrFlags::empty()).expect("set");
    chown(&file, Some(5), None).expect("set");
    assert!(!has());
}

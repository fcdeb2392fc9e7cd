//! Files opened by handles (`open_by_handle_at`), as NFS servers do: also after all that was known of them is forgotten.
//!
//! The calls are made by Python, as crates here hold no `unsafe`.

use std::fs;
use std::path::Path;
use std::process::Command;

use holdfast_fuse::MountSettings;

use crate::support::Scene;

/// `take FILE HANDLE` writes a file's handle; `open DIRECTORY HANDLE` opens it on the mount of a directory, and prints
/// the content of a file, the names in a directory with its path, or the number of the error.
const PROGRAM: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
what, path, kept = sys.argv[1:]
if what == "take":
    handle, mount = Handle(128), ctypes.c_int()
    if libc.name_to_handle_at(-100, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0):
        sys.exit(os.strerror(ctypes.get_errno()))
    open(kept, "wb").write(bytes(handle))
else:
    handle = Handle.from_buffer_copy(open(kept, "rb").read())
    directory = os.open(path, os.O_RDONLY)
    opened = libc.open_by_handle_at(directory, ctypes.byref(handle), os.O_RDONLY)
    if opened < 0:
        print("error", ctypes.get_errno())
    elif os.path.isdir(f"/proc/self/fd/{opened}"):
        print(sorted(os.listdir(opened)), os.path.relpath(os.readlink(f"/proc/self/fd/{opened}"), path))
    else:
        print(os.read(opened, 100).decode())
"#;

fn python(arguments: &[&Path]) -> String {
    let output = Command::new("python3").arg("-c").arg(PROGRAM).args(arguments).output().expect("Python runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.trim().to_owned()
}

fn take(file: &Path, kept: &Path) {
    python(&[Path::new("take"), file, kept]);
}

fn open(scene: &Scene, kept: &Path) -> String {
    python(&[Path::new("open"), &scene.directory(), kept])
}

#[test]
fn handles_outlive_the_mount_and_the_name_but_not_the_file() {
    const STALE: &str = "error 116";
    let Some(mut scene) = Scene::new() else { return };
    let kept = tempfile::tempdir().expect("a folder");
    let (file, inner) = (kept.path().join("file"), kept.path().join("inner"));
    fs::create_dir_all(scene.path("one/two/three")).expect("made");
    fs::write(scene.path("one/two/name"), b"content").expect("written");
    take(&scene.path("one/two/name"), &file);
    take(&scene.path("one/two"), &inner);
    assert_eq!(open(&scene, &file), "content", "as long as it is known");

    let mounted = scene.take();
    scene.stop(mounted).expect("stopped");
    scene.mount_with(MountSettings::default()).expect("mounted again");
    assert_eq!(open(&scene, &file), "content", "when nothing is known any more");
    assert_eq!(open(&scene, &inner), "['name', 'three'] one/two", "with the way from the root");
    fs::rename(scene.path("one/two"), scene.path("moved")).expect("renamed");
    fs::rename(scene.path("moved/name"), scene.path("else")).expect("renamed");
    assert_eq!((open(&scene, &file), open(&scene, &inner)), ("content".into(), "['three'] moved".into()));

    fs::remove_file(scene.path("else")).expect("removed");
    assert_eq!(open(&scene, &file), STALE, "nothing has its number");
    fs::write(scene.path("new"), b"other").expect("written");
    assert_eq!(open(&scene, &file), STALE, "another file has its number");
    let other = kept.path().join("other");
    take(&scene.path("new"), &other);
    let mounted = scene.take();
    scene.stop(mounted).expect("stopped");
    scene.mount_with(MountSettings::default()).expect("mounted again");
    assert_eq!((open(&scene, &file), open(&scene, &other)), (STALE.into(), "other".into()));
}

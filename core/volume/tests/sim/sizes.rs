//! Requests that there are many of take little memory each: what is rare has its memory when it comes to that.

use holdfast_volume::service::{Caller, FileId, FileService, NewFile, OpenMode, Remove};
use holdfast_volume::{Handle, Volume};

/// The allocator of glibc keeps freed pieces of up to 1,032 bytes at hand; front ends add something of their own.
const MOST_BYTES: usize = 800;

fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

type Dir = (&'static Volume, &'static Caller, FileId, &'static [u8]);

#[test]
fn requests_that_there_are_many_of_are_small() {
    let sizes = [
        ("read", size(|(volume, handle): (&'static Volume, &'static Handle)| volume.read(handle, 0, 1))),
        (
            "write",
            size(|(volume, handle, data): (&'static Volume, &'static Handle, _)| volume.write(handle, 0, data, 1)),
        ),
        ("lookup", size(|(volume, caller, dir, name): Dir| volume.lookup(caller, dir, name))),
        ("stat", size(|(volume, _, id, _): Dir| volume.stat(id))),
        (
            "create",
            size(|((volume, caller, dir, name), new): (Dir, &'static NewFile<'static>)| {
                volume.create(caller, dir, name, new)
            }),
        ),
        ("remove", size(|(volume, caller, dir, name): Dir| volume.remove(caller, dir, name, Remove::File))),
        ("open", size(|((volume, caller, id, _), mode): (Dir, OpenMode)| volume.open(caller, id, mode))),
        ("close", size(|(volume, handle): (&'static Volume, Handle)| volume.close(handle))),
    ];
    println!("{sizes:?}");
    for (what, bytes) in sizes {
        assert!(bytes <= MOST_BYTES, "a request to {what} takes {bytes} bytes");
    }
}

//! The numbers of the wire, by the names of `linux/fuse.h`.

#![allow(missing_docs, reason = "the names are those of the kernel's header")]

pub const KERNEL_VERSION: u32 = 7;
/// The newest minor version that this server knows: Linux 6.18.
pub const KERNEL_MINOR: u32 = 45;
/// The oldest: Linux 5.4.
pub const OLDEST_MINOR: u32 = 31;
pub const ROOT_ID: u64 = 1;

pub const LOOKUP: u32 = 1;
pub const FORGET: u32 = 2;
pub const GETATTR: u32 = 3;
pub const SETATTR: u32 = 4;
pub const READLINK: u32 = 5;
pub const SYMLINK: u32 = 6;
pub const MKNOD: u32 = 8;
pub const MKDIR: u32 = 9;
pub const UNLINK: u32 = 10;
pub const RMDIR: u32 = 11;
pub const RENAME: u32 = 12;
pub const LINK: u32 = 13;
pub const OPEN: u32 = 14;
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
pub const STATFS: u32 = 17;
pub const RELEASE: u32 = 18;
pub const FSYNC: u32 = 20;
pub const SETXATTR: u32 = 21;
pub const GETXATTR: u32 = 22;
pub const LISTXATTR: u32 = 23;
pub const REMOVEXATTR: u32 = 24;
pub const FLUSH: u32 = 25;
pub const INIT: u32 = 26;
pub const OPENDIR: u32 = 27;
pub const READDIR: u32 = 28;
pub const RELEASEDIR: u32 = 29;
pub const FSYNCDIR: u32 = 30;
pub const GETLK: u32 = 31;
pub const SETLK: u32 = 32;
pub const SETLKW: u32 = 33;
pub const ACCESS: u32 = 34;
pub const CREATE: u32 = 35;
pub const INTERRUPT: u32 = 36;
pub const DESTROY: u32 = 38;
pub const BATCH_FORGET: u32 = 42;
pub const FALLOCATE: u32 = 43;
pub const READDIRPLUS: u32 = 44;
pub const RENAME2: u32 = 45;
pub const LSEEK: u32 = 46;
pub const COPY_FILE_RANGE: u32 = 47;
pub const SYNCFS: u32 = 50;
pub const TMPFILE: u32 = 51;
pub const STATX: u32 = 52;
pub const COPY_FILE_RANGE_64: u32 = 53;

/// What requests are called in counters, by their opcodes.
pub const NAMES: &[(u32, &str)] = &[
    (LOOKUP, "lookup"),
    (FORGET, "forget"),
    (GETATTR, "getattr"),
    (SETATTR, "setattr"),
    (READLINK, "readlink"),
    (SYMLINK, "symlink"),
    (MKNOD, "mknod"),
    (MKDIR, "mkdir"),
    (UNLINK, "unlink"),
    (RMDIR, "rmdir"),
    (RENAME, "rename"),
    (LINK, "link"),
    (OPEN, "open"),
    (READ, "read"),
    (WRITE, "write"),
    (STATFS, "statfs"),
    (RELEASE, "release"),
    (FSYNC, "fsync"),
    (SETXATTR, "setxattr"),
    (GETXATTR, "getxattr"),
    (LISTXATTR, "listxattr"),
    (REMOVEXATTR, "removexattr"),
    (FLUSH, "flush"),
    (INIT, "init"),
    (OPENDIR, "opendir"),
    (READDIR, "readdir"),
    (RELEASEDIR, "releasedir"),
    (FSYNCDIR, "fsyncdir"),
    (GETLK, "getlk"),
    (SETLK, "setlk"),
    (SETLKW, "setlkw"),
    (ACCESS, "access"),
    (CREATE, "create"),
    (INTERRUPT, "interrupt"),
    (DESTROY, "destroy"),
    (BATCH_FORGET, "batch_forget"),
    (FALLOCATE, "fallocate"),
    (READDIRPLUS, "readdirplus"),
    (RENAME2, "rename2"),
    (LSEEK, "lseek"),
    (COPY_FILE_RANGE, "copy_file_range"),
    (SYNCFS, "syncfs"),
    (TMPFILE, "tmpfile"),
    (STATX, "statx"),
    (COPY_FILE_RANGE_64, "copy_file_range_64"),
];

pub const INIT_ASYNC_READ: u64 = 1;
pub const INIT_POSIX_LOCKS: u64 = 1 << 1;
pub const INIT_EXPORT_SUPPORT: u64 = 1 << 4;
pub const INIT_BIG_WRITES: u64 = 1 << 5;
pub const INIT_FLOCK_LOCKS: u64 = 1 << 10;
pub const INIT_AUTO_INVAL_DATA: u64 = 1 << 12;
pub const INIT_DO_READDIRPLUS: u64 = 1 << 13;
pub const INIT_READDIRPLUS_AUTO: u64 = 1 << 14;
pub const INIT_ASYNC_DIO: u64 = 1 << 15;
pub const INIT_WRITEBACK_CACHE: u64 = 1 << 16;
pub const INIT_PARALLEL_DIROPS: u64 = 1 << 18;
pub const INIT_MAX_PAGES: u64 = 1 << 22;
pub const INIT_CACHE_SYMLINKS: u64 = 1 << 23;
pub const INIT_HANDLE_KILLPRIV_V2: u64 = 1 << 28;
pub const INIT_EXT: u64 = 1 << 30;
pub const INIT_DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
pub const INIT_OVER_IO_URING: u64 = 1 << 41;

pub const FATTR_MODE: u32 = 1;
pub const FATTR_UID: u32 = 1 << 1;
pub const FATTR_GID: u32 = 1 << 2;
pub const FATTR_SIZE: u32 = 1 << 3;
pub const FATTR_ATIME: u32 = 1 << 4;
pub const FATTR_MTIME: u32 = 1 << 5;
pub const FATTR_FH: u32 = 1 << 6;
pub const FATTR_ATIME_NOW: u32 = 1 << 7;
pub const FATTR_MTIME_NOW: u32 = 1 << 8;
pub const FATTR_KILL_SUIDGID: u32 = 1 << 11;

pub const FOPEN_DIRECT_IO: u32 = 1;
pub const FOPEN_KEEP_CACHE: u32 = 1 << 1;
pub const FOPEN_NOFLUSH: u32 = 1 << 5;
pub const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
pub const OPEN_KILL_SUIDGID: u32 = 1;
pub const FSYNC_FDATASYNC: u32 = 1;

pub const NOTIFY_INVAL_INODE: i32 = 2;
pub const NOTIFY_INVAL_ENTRY: i32 = 3;

/// A lock is one of `flock(2)`.
pub const LK_FLOCK: u32 = 1;
/// Of `fcntl(2)`: what a lock is, or is to be.
pub const F_RDLCK: u32 = 0;
pub const F_WRLCK: u32 = 1;
pub const F_UNLCK: u32 = 2;

/// Of `fallocate(2)`.
pub const FALLOC_KEEP_SIZE: u32 = 1;
pub const FALLOC_PUNCH_HOLE: u32 = 2;
pub const FALLOC_ZERO_RANGE: u32 = 0x10;
/// Of `renameat2(2)`.
pub const RENAME_NOREPLACE: u32 = 1;
pub const RENAME_EXCHANGE: u32 = 2;
pub const RENAME_WHITEOUT: u32 = 4;
/// Of `lseek(2)`.
pub const SEEK_DATA: u32 = 3;
pub const SEEK_HOLE: u32 = 4;
/// Of `setxattr(2)`.
pub const XATTR_CREATE: u32 = 1;
pub const XATTR_REPLACE: u32 = 2;

/// Set-user-id, set-group-id, and execution by the group.
pub const S_ISUID: u32 = 0o4000;
pub const S_ISGID: u32 = 0o2000;
pub const S_IXGRP: u32 = 0o010;

/// Of `errno.h`, where the kernel takes an error for an answer of its own meaning.
pub const ENOENT: i32 = 2;
pub const EINTR: i32 = 4;
pub const EIO: i32 = 5;
pub const ENXIO: i32 = 6;
pub const EAGAIN: i32 = 11;
pub const EBUSY: i32 = 16;
pub const ENODEV: i32 = 19;
pub const EINVAL: i32 = 22;
pub const ENFILE: i32 = 23;
pub const ERANGE: i32 = 34;
pub const EDEADLK: i32 = 35;
pub const ENOLCK: i32 = 37;
pub const ENOSYS: i32 = 38;
pub const ENODATA: i32 = 61;
pub const EPROTO: i32 = 71;
pub const EOPNOTSUPP: i32 = 95;
pub const ENOTCONN: i32 = 107;
pub const EBADF: i32 = 9;
pub const ESTALE: i32 = 116;

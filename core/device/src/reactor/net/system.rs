//! The socket system calls, with their results as Rust has them.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Parts that one call takes at most (`UIO_MAXIOV`).
const PARTS_AT_MOST: usize = 1024;

fn check(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

pub(super) fn receive(fd: RawFd, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are of a slice that is borrowed for the call.
    check(unsafe { libc::recv(fd, buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT) })
}

pub(super) fn receive_vectored(fd: RawFd, bufs: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
    // SAFETY: a header of zeros is a valid one; IoSliceMut has the layout of iovec; all is borrowed for the call.
    check(unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = bufs.as_mut_ptr().cast();
        header.msg_iovlen = bufs.len().min(PARTS_AT_MOST);
        libc::recvmsg(fd, &raw mut header, libc::MSG_DONTWAIT)
    })
}

pub(super) fn send(fd: RawFd, buf: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are of a slice that is borrowed for the call.
    check(unsafe { libc::send(fd, buf.as_ptr().cast(), buf.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
}

pub(super) fn send_vectored(fd: RawFd, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: a header of zeros is a valid one; IoSlice has the layout of iovec, which sendmsg only reads.
    check(unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = bufs.as_ptr().cast_mut().cast();
        header.msg_iovlen = bufs.len().min(PARTS_AT_MOST);
        libc::sendmsg(fd, &raw const header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    })
}

pub(super) fn accept(fd: RawFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null pointers say that the address is not wanted; the descriptor that comes back is new.
    unsafe {
        let accepted = libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags);
        check(accepted as isize)?;
        Ok(OwnedFd::from_raw_fd(accepted))
    }
}

pub(super) fn shutdown(fd: RawFd, how: std::net::Shutdown) -> io::Result<()> {
    let how = match how {
        std::net::Shutdown::Read => libc::SHUT_RD,
        std::net::Shutdown::Write => libc::SHUT_WR,
        std::net::Shutdown::Both => libc::SHUT_RDWR,
    };
    // SAFETY: a system call without pointers.
    check(unsafe { libc::shutdown(fd, how) } as isize).map(drop)
}

pub(super) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: system calls without pointers.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        check(flags as isize)?;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) as isize).map(drop)
    }
}

pub(super) fn set_option(fd: RawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer is to an integer of this frame, of the given size.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), len) } as isize).map(drop)
}

/// User and process at the other end of a unix socket.
pub(super) fn credentials(fd: RawFd) -> io::Result<libc::ucred> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are to values of this frame, and the length is the size of the first.
    let result =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut found).cast(), &raw mut len) };
    check(result as isize).map(|_| found)
}

/// The address at the other end, or `None` where it is not an IP address.
pub(super) fn peer_address(fd: RawFd) -> io::Result<Option<SocketAddr>> {
    let (mut storage, mut len) = storage();
    // SAFETY: the storage is large enough for any address, and zeros are a valid one.
    let storage = unsafe {
        check(libc::getpeername(fd, storage.as_mut_ptr().cast(), &raw mut len) as isize)?;
        storage.assume_init()
    };
    Ok(address_in(&storage))
}

/// The address at this end, or `None` where it is not an IP address.
pub(super) fn local_address(fd: RawFd) -> io::Result<Option<SocketAddr>> {
    let (mut storage, mut len) = storage();
    // SAFETY: as above.
    let storage = unsafe {
        check(libc::getsockname(fd, storage.as_mut_ptr().cast(), &raw mut len) as isize)?;
        storage.assume_init()
    };
    Ok(address_in(&storage))
}

fn storage() -> (MaybeUninit<libc::sockaddr_storage>, libc::socklen_t) {
    (MaybeUninit::zeroed(), size_of::<libc::sockaddr_storage>() as libc::socklen_t)
}

fn address_in(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let pointer = &raw const *storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which address stands there.
            let found = unsafe { pointer.cast::<libc::sockaddr_in>().read() };
            let address = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
            Some(SocketAddrV4::new(address, u16::from_be(found.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let found = unsafe { pointer.cast::<libc::sockaddr_in6>().read() };
            let address = Ipv6Addr::from(found.sin6_addr.s6_addr);
            Some(
                SocketAddrV6::new(address, u16::from_be(found.sin6_port), found.sin6_flowinfo, found.sin6_scope_id)
                    .into(),
            )
        }
        _ => None,
    }
}

use super::*;
use crate::shm::words::{ReadWords, WriteWords};

fn sizes() -> RingSizes {
    RingSizes::new(64, 128).unwrap()
}

/// A memfd of one page with these seals.
fn foreign(seals: SealFlags) -> OwnedFd {
    let fd = memfd("foreign").unwrap();
    rustix::fs::ftruncate(&fd, PAGE_BYTES as u64).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

fn code<T: std::fmt::Debug>(opened: Result<T>) -> ErrorCode {
    opened.unwrap_err().code
}

#[test]
fn both_sides_of_an_area_meet() {
    let area = Area::rings(sizes()).unwrap();
    let daemon = area.map::<ReadWrite>().unwrap();
    let (client, found) = open_rings(&area).unwrap();
    assert_eq!(found, sizes());
    client.store32(128, 5);
    assert_eq!(daemon.load32(128), 5);
    assert_eq!(client.bytes(), sizes().bytes());

    let area = Area::lanes(64).unwrap();
    let (client, count) = open_lanes::<ReadWrite>(&area).unwrap();
    assert_eq!(count, 64);
    let daemon = area.map::<ReadOnly>().unwrap();
    client.store64(lanes::lane(63), 9);
    assert_eq!(daemon.load64(lanes::lane(63)), 9);
    drop(client);
    drop(area);
    assert_eq!(daemon.load64(lanes::lane(63)), 9, "a mapping outlives its fd");
}

#[test]
fn an_area_is_sealed_sized_and_private_to_its_user() {
    for area in [Area::rings(sizes()), Area::lanes(64), Area::status()] {
        let area = area.unwrap();
        let seals = rustix::fs::fcntl_get_seals(&area).unwrap();
        assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
        assert!(!seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE));
        let stat = rustix::fs::fstat(&area).unwrap();
        assert_eq!(stat.st_size as usize, area.bytes());
        assert_eq!(stat.st_mode & 0o7777, 0o600);
        let bytes = area.bytes() as u64;
        assert_eq!(rustix::fs::ftruncate(&area, bytes / 2), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&area, bytes * 2), Err(Errno::PERM));
        let added = rustix::fs::fcntl_add_seals(&area, SealFlags::FUTURE_WRITE);
        assert_eq!(added, Err(Errno::PERM));
    }
}

#[test]
fn a_read_only_fd_sees_stores_and_cannot_be_mapped_for_writing() {
    let area = Area::status().unwrap();
    let writer = area.map::<ReadWrite>().unwrap();
    let fd = area.readonly_fd().unwrap();
    let reader = open_status(&fd).unwrap();
    writer.store32(status::PARKED, 1);
    assert_eq!(reader.load32(status::PARKED), 1);
    let error = Region::<ReadWrite>::map(fd.as_fd(), area.bytes()).unwrap_err();
    assert_eq!(error.code, ErrorCode::SystemFailed);
    assert!(error.detail.contains("ermission"), "{error}");
    assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
}

#[test]
fn a_memfd_that_can_shrink_or_no_memfd_is_refused() {
    let unsealed = foreign(SealFlags::GROW);
    assert_eq!(code(Area::from_fd(unsealed)), ErrorCode::SessionMemory);
    let unsealed = foreign(SealFlags::empty());
    let mapped = Region::<ReadOnly>::map(unsealed.as_fd(), PAGE_BYTES);
    assert_eq!(code(mapped), ErrorCode::SessionMemory);
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    assert_eq!(code(Area::from_fd(pipe)), ErrorCode::SessionMemory);
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert_eq!(code(open_status(&file)), ErrorCode::SessionMemory);

    let sealed = foreign(SealFlags::SHRINK);
    assert_eq!(code(open_lanes::<ReadOnly>(&sealed)), ErrorCode::SessionMemory);
    let area = Area::from_fd(sealed).unwrap();
    assert_eq!(area.bytes(), PAGE_BYTES);
    assert!(area.map::<ReadOnly>().is_ok());
}

#[test]
fn a_file_of_another_size_is_refused() {
    let area = Area::lanes(64).unwrap();
    for bytes in [0, PAGE_BYTES, area.bytes() + PAGE_BYTES] {
        let mapped = Region::<ReadOnly>::map(area.as_fd(), bytes);
        assert_eq!(code(mapped), ErrorCode::SessionMemory, "{bytes}");
    }
    let empty = memfd("empty").unwrap();
    rustix::fs::fcntl_add_seals(&empty, SealFlags::SHRINK).unwrap();
    assert_eq!(code(Region::<ReadOnly>::map(empty.as_fd(), 0)), ErrorCode::SessionMemory);
}

#[test]
fn counts_outside_the_limits_make_no_area() {
    for count in [0, 32, 96, 8192, u32::MAX] {
        assert_eq!(code(Area::lanes(count)), ErrorCode::LimitExceeded, "{count}");
    }
    let small = RingSizes::new(32, 64).unwrap();
    assert_eq!(code(Area::rings(small)), ErrorCode::LimitExceeded);
    let large = RingSizes::new(65_536, 65_536).unwrap();
    assert_eq!(Area::rings(large).unwrap().bytes(), large.bytes());
}

use super::*;
use crate::shm::region::{ReadWrite, Region};

fn area(bytes: usize, header: &AreaHeader) -> Region<ReadWrite> {
    let region = Region::heap(bytes).unwrap();
    write(&region, header);
    region
}

fn code<T: std::fmt::Debug>(checked: Result<T>) -> ErrorCode {
    checked.unwrap_err().code
}

#[test]
fn each_header_is_read_back_and_accepted() {
    let sizes = RingSizes::new(64, 128).unwrap();
    let region = area(sizes.bytes(), &of_rings(sizes));
    assert_eq!(read(&region), Ok(of_rings(sizes)));
    assert_eq!(check_rings(&region), Ok(sizes));
    assert_eq!(check_lanes(&area(lanes::bytes(512), &of_lanes(512))), Ok(512));
    assert_eq!(check_status(&area(status::BYTES, &of_status())), Ok(()));
    assert_eq!(read(&area(64, &plain(*b"whatever", 3))).unwrap().magic, *b"whatever");
}

#[test]
fn another_area_is_refused() {
    let sizes = RingSizes::new(64, 64).unwrap();
    let region = area(sizes.bytes(), &of_rings(sizes));
    assert_eq!(code(check_lanes(&region)), ErrorCode::SessionMemory);
    assert_eq!(code(check_status(&region)), ErrorCode::SessionMemory);
    let fresh = Region::heap(lanes::bytes(64)).unwrap();
    assert_eq!(code(check_rings(&fresh)), ErrorCode::SessionMemory);
    assert_eq!(code(read(&Region::heap(16).unwrap())), ErrorCode::SessionMemory);
}

#[test]
fn another_version_is_refused_with_its_own_code() {
    let sizes = RingSizes::new(64, 64).unwrap();
    let header = AreaHeader { version: 2, ..of_rings(sizes) };
    assert_eq!(code(check_rings(&area(sizes.bytes(), &header))), ErrorCode::VersionMismatch);
    let header = AreaHeader { version: 0, ..of_lanes(64) };
    assert_eq!(code(check_lanes(&area(lanes::bytes(64), &header))), ErrorCode::VersionMismatch);
    let header = AreaHeader { version: 9, ..of_status() };
    assert_eq!(code(check_status(&area(status::BYTES, &header))), ErrorCode::VersionMismatch);
}

#[test]
fn sizes_that_lie_are_refused() {
    let sizes = RingSizes::new(64, 64).unwrap();
    let good = of_rings(sizes);
    for header in [
        AreaHeader { submit_entries: 128, ..good },
        AreaHeader { result_entries: 32, ..good },
        AreaHeader { submit_entries: u32::MAX, ..good },
        AreaHeader { submit_entries: 0, result_entries: 128, ..good },
        AreaHeader { lanes: 64, ..good },
        AreaHeader { reserved: 1, ..good },
    ] {
        assert_eq!(code(check_rings(&area(sizes.bytes(), &header))), ErrorCode::SessionMemory);
    }
    let small = RingSizes::new(32, 64).unwrap();
    assert_eq!(code(check_rings(&area(small.bytes(), &of_rings(small)))), ErrorCode::SessionMemory);
    assert_eq!(code(check_rings(&area(sizes.bytes() + 4096, &good))), ErrorCode::SessionMemory);
    for count in [0, 32, 65, 8192] {
        let region = area(lanes::bytes(64), &of_lanes(count));
        assert_eq!(code(check_lanes(&region)), ErrorCode::SessionMemory, "{count}");
    }
    let region = area(lanes::bytes(64), &of_lanes(4096));
    assert_eq!(code(check_lanes(&region)), ErrorCode::SessionMemory);
    let region = area(2 * status::BYTES, &of_status());
    assert_eq!(code(check_status(&region)), ErrorCode::SessionMemory);
}

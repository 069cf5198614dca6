use super::*;

const MAGIC: [u8; 8] = *b"parkd-tb";

#[test]
fn a_table_on_the_heap_is_zero_aligned_and_writable() {
    let mut table = Table::heap(1000, MAGIC, 1).unwrap();
    assert_eq!(table.len(), 1000);
    assert!(table.iter().all(|&byte| byte == 0));
    assert_eq!(table.as_ptr().addr() % 64, 0);
    table.fill(9);
    assert!(table.iter().all(|&byte| byte == 9));
    assert!(table.fd().is_none());
    assert_eq!(read(&table.region), Ok(plain(MAGIC, 1)), "the header is not the table's");
}

#[cfg(not(miri))]
mod on_memfds {
    use super::*;
    use crate::core::error::ErrorCode;

    #[test]
    fn a_table_outlives_its_mapping_and_is_adopted() {
        let mut table = Table::create(5000, MAGIC, 1).unwrap();
        assert!(table.len() >= 5000);
        assert!(table.iter().all(|&byte| byte == 0));
        table[4999] = 42;
        let kept = table.fd().unwrap().try_clone_to_owned().unwrap();
        drop(table);
        let table = Table::adopt(kept, MAGIC, 1).unwrap();
        assert_eq!(table[4999], 42);
    }

    #[test]
    fn another_table_is_not_adopted() {
        let table = Table::create(1, MAGIC, 1).unwrap();
        let fd = || table.fd().unwrap().try_clone_to_owned().unwrap();
        let adopted = |magic, version| Table::adopt(fd(), magic, version).unwrap_err().code;
        assert_eq!(adopted(*b"parkd-xx", 1), ErrorCode::SessionMemory);
        assert_eq!(adopted(MAGIC, 2), ErrorCode::VersionMismatch);
        assert_eq!(Table::create(usize::MAX, MAGIC, 1).unwrap_err().code, ErrorCode::SystemFailed);
    }
}

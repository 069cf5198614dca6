use super::*;
use crate::core::error::ErrorCode;

#[test]
fn a_table_on_the_heap_is_zero_aligned_and_writable() {
    let mut table = Table::heap(1000).unwrap();
    assert_eq!(table.as_ref(), [0; 1000]);
    assert_eq!(table.as_ref().as_ptr().addr() % 4096, 0);
    table.as_mut().fill(9);
    assert_eq!(table.as_ref(), [9; 1000]);
    assert!(table.fd().is_none());
    assert_eq!(Table::heap(0).unwrap_err().code, ErrorCode::SessionMemory);
}

#[cfg(not(miri))]
mod on_memfds {
    use super::*;

    #[test]
    fn a_table_outlives_its_mapping_and_is_adopted() {
        let mut table = Table::create(5000).unwrap();
        assert_eq!(table.as_ref(), [0; 8192]);
        table.as_mut()[8191] = 42;
        let kept = table.fd().unwrap().try_clone_to_owned().unwrap();
        drop(table);
        let table = Table::adopt(kept).unwrap();
        assert_eq!((table.as_ref()[0], table.as_ref()[8191]), (0, 42));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert_eq!(Table::adopt(pipe).unwrap_err().code, ErrorCode::SessionMemory);
        assert_eq!(Table::create(usize::MAX).unwrap_err().code, ErrorCode::SystemFailed);
    }
}

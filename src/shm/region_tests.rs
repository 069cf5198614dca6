use super::*;

#[test]
fn heap_words_are_zero_then_hold_what_was_stored() {
    let region = Region::heap(256).unwrap();
    assert_eq!((region.load64(248), region.load32(4)), (0, 0));
    region.store32(4, 7);
    region.store64(248, u64::MAX - 1);
    assert_eq!(region.load64(248), u64::MAX - 1);
    assert_eq!(region.fetch_add32(4, u32::MAX), 7);
    assert_eq!(region.load32(4), 6);
    assert_eq!((region.load32(0), region.load32(8)), (0, 0), "only the word stored to");
}

/// Miri's weak-memory model knows no word that is accessed in two sizes.
#[cfg(not(miri))]
#[test]
fn words_of_both_sizes_are_little_endian_parts_of_one_memory() {
    let region = Region::heap(64).unwrap();
    region.store32(4, 7);
    assert_eq!(region.load64(0), 7 << 32);
    region.store64(56, 0x0102_0304_0506_0708);
    assert_eq!((region.load32(56), region.load32(60)), (0x0506_0708, 0x0102_0304));
}

#[test]
fn clones_and_read_only_handles_are_the_same_memory_and_outlive_the_first() {
    let region = Region::heap(64).unwrap();
    let (clone, reader) = (region.clone(), region.read_only());
    clone.store64(8, 5);
    drop(region);
    drop(clone);
    assert_eq!(reader.load64(8), 5);
}

#[test]
fn a_heap_region_is_page_aligned_and_has_bytes() {
    let region = Region::heap(100).unwrap();
    assert_eq!(region.address(0) % PAGE_BYTES, 0);
    assert_eq!(region.address(96), region.address(0) + 96);
    assert_eq!(Region::heap(0).unwrap_err().code, ErrorCode::SessionMemory);
    assert_eq!(Region::heap(usize::MAX).unwrap_err().code, ErrorCode::SessionMemory);
}

#[test]
fn a_region_holds_aligned_words_that_end_inside() {
    let region = Region::heap(64).unwrap();
    assert!([0, 4, 60].iter().all(|&offset| region.holds(offset, 4)));
    assert!([0, 8, 56].iter().all(|&offset| region.holds(offset, 8)));
    for offset in [1, 2, 61, 62, 64, 68, usize::MAX, usize::MAX - 3] {
        assert!(!region.holds(offset, 4), "{offset}");
    }
    for offset in [4, 57, 60, 64, usize::MAX - 7] {
        assert!(!region.holds(offset, 8), "{offset}");
    }
}

/// Debug builds assert, so this is what release builds do.
#[cfg(not(debug_assertions))]
#[test]
fn words_outside_touch_nothing() {
    let region = Region::heap(64).unwrap();
    region.store32(64, 1);
    region.store64(60, 1);
    assert_eq!((region.load32(64), region.load64(60), region.fetch_add32(62, 1)), (0, 0, 0));
    assert_eq!(region.address(64), 0);
    assert!((0..64).step_by(8).all(|offset| region.load64(offset) == 0));
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "word of 8 at 60")]
fn words_outside_are_found_by_debug_builds() {
    Region::heap(64).unwrap().load64(60);
}

#[test]
fn regions_cross_threads() {
    let region = Region::heap(64).unwrap();
    let adders: Vec<_> = (0..4)
        .map(|_| {
            let region = region.clone();
            std::thread::spawn(move || {
                for _ in 0..100 {
                    region.fetch_add32(0, 1);
                }
            })
        })
        .collect();
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    assert_eq!(region.load32(0), 400);
}

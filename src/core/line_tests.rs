use proptest::prelude::*;

use super::*;

#[test]
fn a_word_has_reached_what_it_stands_at_or_past() {
    assert!(Width::W64.reached(7, 7));
    assert!(Width::W64.reached(8, 7));
    assert!(!Width::W64.reached(6, 7));
    assert!(Width::W64.reached(2, u64::MAX - 1), "a sequence runs over its end");
    assert!(!Width::W64.reached(u64::MAX - 1, 2));
}

#[test]
fn the_narrow_width_looks_at_the_low_half_only() {
    assert!(Width::W32.reached(7, 7 | 0xdead_beef << 32));
    assert!(Width::W32.reached(0xdead_beef << 32 | 7, 7));
    assert!(Width::W32.reached(1, 0xffff_ffff), "the low half wraps by itself");
    assert!(!Width::W32.reached(0xffff_ffff, 1));
    assert!(!Width::W64.reached(1, 0xffff_ffff), "and 64 bits do not wrap there");
}

#[test]
fn distance_counts_up_and_around() {
    assert_eq!(Width::W64.distance(3, 10), 7);
    assert_eq!(Width::W64.distance(u64::MAX, 1), 2);
    assert_eq!(Width::W32.distance(0xffff_ffff, 1), 2);
    assert_eq!(Width::W32.distance(5 << 32 | 3, 10), 7);
}

#[test]
fn widths_and_slots_know_their_ranges() {
    for bits in 0..=u8::MAX {
        assert_eq!(Width::from_bits(bits).is_some(), bits == 32 || bits == 64);
        assert!(Width::from_bits(bits).is_none_or(|width| width.bits() == bits));
    }
    assert!(Slot::new(7).is_some() && Slot::new(8).is_none());
    assert!(Slot::all().map(Slot::index).eq(0..SLOTS));
}

#[test]
fn a_descriptor_watches_its_own_word() {
    let line = CompletionLine::new();
    let slot = Slot::new(3).unwrap();
    let descriptor = MemoryDescriptor { line: &line, slot, target: 5, width: Width::W64 };
    for other in Slot::all().filter(|&other| other != slot) {
        line.store(other, 9);
    }
    assert!(!descriptor.is_reached());
    line.store(slot, 5);
    assert!(descriptor.is_reached());
    assert_eq!(line.values(), [9, 9, 9, 5, 9, 9, 9, 9]);
}

proptest! {
    #[test]
    fn exactly_one_of_two_near_numbers_has_reached_the_other(
        from: u64, ahead in 1..i64::MAX as u64, narrow in 1..i32::MAX as u32,
    ) {
        let to = from.wrapping_add(ahead);
        prop_assert!(Width::W64.reached(to, from) && !Width::W64.reached(from, to));
        prop_assert_eq!(Width::W64.distance(from, to), ahead);
        let to = from.wrapping_add(u64::from(narrow));
        prop_assert!(Width::W32.reached(to, from) && !Width::W32.reached(from, to));
        prop_assert_eq!(Width::W32.distance(from, to), u64::from(narrow));
    }
}

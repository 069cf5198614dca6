use alloc::string::ToString;

use super::*;

#[test]
fn instants_saturate_at_both_ends() {
    assert_eq!(MonoNs(5) + DurNs(7), MonoNs(12));
    assert_eq!(MonoNs(u64::MAX - 1) + DurNs(7), MonoNs::MAX);
    assert_eq!(MonoNs(12).since(MonoNs(5)), DurNs(7));
    assert_eq!(MonoNs(5).since(MonoNs(12)), DurNs::ZERO);
}

#[test]
fn microseconds_convert_and_saturate() {
    assert_eq!(DurNs::from_us(150), DurNs(150_000));
    assert_eq!(DurNs::from_us(u64::MAX), DurNs::MAX);
    assert_eq!(DurNs(1_999).as_us(), 1);
    assert_eq!(DurNs(5) + DurNs::MAX, DurNs::MAX);
    assert_eq!(DurNs(5).saturating_sub(DurNs(6)), DurNs::ZERO);
    assert_eq!(DurNs(1_050).to_string(), "1.050 us");
}

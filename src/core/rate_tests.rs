use super::*;

fn at(ms: u64) -> MonoNs {
    MonoNs(77_000_000_000 + ms * 1_000_000)
}

/// How many of `tries` at one instant are allowed.
fn allowed(bucket: &mut Bucket, rate: &Rate, tries: u32, now: MonoNs) -> u32 {
    let mut count = 0;
    for _ in 0..tries {
        if bucket.check(rate, 1, now).is_ok() {
            bucket.spend(rate, 1, now);
            count += 1;
        }
    }
    count
}

#[test]
fn a_full_bucket_allows_its_burst_and_fills_again_with_time() {
    let (rate, mut bucket) = (Rate::new(4, 10), Bucket::default());
    assert_eq!(allowed(&mut bucket, &rate, 50, at(0)), 10);
    assert_eq!(bucket.check(&rate, 1, at(0)), Err(DurNs::from_us(250_000)));
    assert_eq!(bucket.check(&rate, 1, at(100)), Err(DurNs::from_us(150_000)));
    assert_eq!(allowed(&mut bucket, &rate, 50, at(250)), 1);
    assert_eq!(allowed(&mut bucket, &rate, 50, at(1250)), 4);
    assert!(!bucket.is_full(at(1250)) && bucket.is_full(at(10_000)));
    assert_eq!(allowed(&mut bucket, &rate, 50, at(100_000)), 10, "never more than full");
}

#[test]
fn several_at_once_are_taken_all_or_none() {
    let (rate, mut bucket) = (Rate::new(1000, 1000), Bucket::default());
    assert_eq!(bucket.check(&rate, 1001, at(0)), Err(DurNs::from_us(1000)));
    assert_eq!(bucket.check(&rate, 1000, at(0)), Ok(()));
    bucket.spend(&rate, 700, at(0));
    assert_eq!(bucket.check(&rate, 400, at(0)), Err(DurNs::from_us(100_000)));
    assert_eq!(bucket.check(&rate, 400, at(100)), Ok(()));
}

#[test]
fn no_rate_is_without_bounds() {
    for (per_second, burst) in [(0, 0), (1, 1), (u32::MAX, u32::MAX)] {
        let (rate, mut bucket) = (Rate::new(per_second, burst), Bucket::default());
        assert_eq!(bucket.check(&rate, burst.max(1), at(0)), Ok(()));
        bucket.spend(&rate, burst.max(1), at(0));
        assert!(bucket.check(&rate, 1, at(0)).is_err(), "{per_second}");
    }
    assert_eq!([0, 1, 1_000_000, 1_000_001].map(|ns| wait_ms(DurNs(ns))), [0, 1, 1, 2]);
}

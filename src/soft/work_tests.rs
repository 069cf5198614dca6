use super::*;

#[test]
fn split_mix_is_the_published_generator() {
    // The first outputs for seed 1234567, as in the reference implementation's test vector.
    let expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ];
    for (index, value) in expected.into_iter().enumerate() {
        assert_eq!(split_mix(1234567, index as u64), value);
    }
}

#[test]
fn durations_fill_the_jitter_band_and_nothing_else() {
    let work = Work { seed: 7, work_ns: 1_000_000, jitter_permille: 50 };
    let all: Vec<u64> = (0..20_000).map(|job| work.duration(job).0).collect();
    let (low, high) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    assert!((950_000..950_200).contains(low), "{low}");
    assert!((1_049_800..=1_050_000).contains(high), "{high}");
    let mean = all.iter().sum::<u64>() / all.len() as u64;
    assert!((999_000..1_001_000).contains(&mean), "{mean}");
}

#[test]
fn durations_depend_on_seed_and_job_alone() {
    let work = Work { seed: 1, work_ns: 50_000, jitter_permille: 1000 };
    assert_eq!(work.duration(3), work.duration(3));
    assert_ne!(work.duration(3), work.duration(4));
    assert_ne!(work.duration(3), Work { seed: 2, ..work }.duration(3));
    let steady = Work { jitter_permille: 0, ..work };
    assert!((0..100).all(|job| steady.duration(job) == DurNs(50_000)));
}

#[test]
fn extremes_saturate() {
    let work = Work { seed: 0, work_ns: u64::MAX, jitter_permille: 1000 };
    let mut schedule = work.schedule(MonoNs(u64::MAX - 1));
    assert!((0..10).all(|_| schedule.next() == Some(MonoNs::MAX)));
    let none = Work { seed: 0, work_ns: 0, jitter_permille: 1000 };
    assert_eq!(none.duration(9), DurNs::ZERO);
}

#[test]
fn schedule_sums_durations() {
    let work = Work { seed: 11, work_ns: 1_000, jitter_permille: 500 };
    let sum: u64 = (0..100).map(|job| work.duration(job).0).sum();
    assert_eq!(work.schedule(MonoNs(5)).nth(99), Some(MonoNs(5 + sum)));
    assert_eq!(work.jobs_within(DurNs(sum), u64::MAX), 100);
    assert_eq!(work.jobs_within(DurNs(sum - 1), u64::MAX), 99);
    assert_eq!(work.jobs_within(DurNs(sum), 10), 10);
}

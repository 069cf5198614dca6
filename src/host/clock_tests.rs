use super::*;

#[test]
fn monotonic_does_not_go_back_and_agrees_with_std() {
    let first = now();
    let std_before = std::time::Instant::now();
    let second = now();
    assert!(second >= first);
    // Advances with std's clock, which is the same one.
    while std_before.elapsed().as_millis() < 2 {}
    assert!(MonoClock.now().0 - second.0 >= 1_900_000);
}

#[test]
fn cpu_clocks_count_work_of_this_thread() {
    let (process, thread) = (process_cpu(), thread_cpu());
    let mut x = 1_u64;
    while thread_cpu().0 - thread.0 < 1_000_000 {
        x = std::hint::black_box(x.wrapping_mul(3));
    }
    assert!(process_cpu().0 - process.0 >= 1_000_000);
}

#[test]
fn timespecs_split_and_saturate() {
    let t = timespec_at(MonoNs(3_000_000_007));
    assert_eq!((t.tv_sec, t.tv_nsec as u64), (3, 7));
    let past = timespec_until(MonoNs(0));
    assert_eq!((past.tv_sec, past.tv_nsec as u64), (0, 0));
}

#[test]
fn slack_is_set_for_this_thread() {
    let handle = std::thread::spawn(|| {
        set_timer_slack(NonZeroU64::MIN).unwrap();
        rustix::thread::current_timer_slack().unwrap()
    });
    assert_eq!(handle.join().unwrap(), 1);
}

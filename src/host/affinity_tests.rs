use super::*;

#[test]
fn a_pinned_thread_may_run_nowhere_else() {
    std::thread::spawn(|| {
        let cpu = *allowed().unwrap().last().unwrap();
        pin_current(cpu).unwrap();
        assert_eq!(allowed().unwrap(), [cpu]);
        assert_eq!(rustix::thread::sched_getcpu(), cpu as usize);
        // What is not in the mask any more is refused, and nothing changes.
        let error = pin_current(cpu ^ 1).unwrap_err();
        assert_eq!(error.code, ErrorCode::CpuUnavailable);
        let text = format!("cpu {} is not in this process's affinity mask {cpu}", cpu ^ 1);
        assert_eq!(error.detail, text);
        assert_eq!(allowed().unwrap(), [cpu]);
    })
    .join()
    .unwrap();
}

#[test]
fn cpus_that_do_not_exist_are_refused() {
    for cpu in [1023, 1024, u32::MAX] {
        assert_eq!(pin_current(cpu).unwrap_err().code, ErrorCode::CpuUnavailable);
    }
}

#[test]
fn auto_is_an_allowed_cpu() {
    assert!(allowed().unwrap().contains(&choose_auto().unwrap()));
}

#[test]
fn auto_prefers_isolated_cpus_then_high_ones() {
    assert_eq!(choose(&[0, 1, 2, 3], &[]), Some(3));
    assert_eq!(choose(&[0, 1, 2, 3], &[1, 2]), Some(2));
    assert_eq!(choose(&[0, 1], &[2, 3]), Some(1));
    assert_eq!(choose(&[], &[1]), None);
}

#[test]
fn lists_are_read_and_written_as_the_kernel_does() {
    assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
    assert_eq!(parse_list("\n"), Vec::<u32>::new());
    assert_eq!(parse_list("x,5,3-,4294967295,0-4294967295"), [5]);
    assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
    assert_eq!(ranges(&[]), "");
}

#[test]
fn a_thread_is_named_up_to_15_bytes() {
    std::thread::spawn(|| {
        name_current("parkd-fill-thread-7").unwrap();
        assert_eq!(rustix::thread::name().unwrap().to_bytes(), b"parkd-fill-thre");
        assert!(name_current("a\0b").is_err());
    })
    .join()
    .unwrap();
}

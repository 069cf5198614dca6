use super::*;

#[test]
fn a_plan_keeps_its_id_whatever_the_daemon_calls_it() {
    let mut remembered = Remembered::default();
    assert_eq!(remembered.plan(0, "block", 1), 1);
    assert_eq!(remembered.plan(1, "steady", 2), 2);
    assert_eq!(remembered.plan(0, "block", 1), 1, "the same plan has the same id");
    assert_eq!([0, 1, 2, 3].map(|plan| remembered.wire_plan(plan)), [0, 1, 2, 3]);
    // Another daemon: it does not know the first any more, and calls the second 1.
    remembered.plans[0].wire = 0;
    remembered.plans[1].wire = 1;
    assert_eq!([1, 2].map(|plan| remembered.wire_plan(plan)), [0, 1]);
    assert_eq!(remembered.plan(0, "poll", 2), 3);
    assert_eq!(remembered.wire_plan(3), 2);
}

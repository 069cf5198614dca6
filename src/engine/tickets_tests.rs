use super::*;
use zerocopy::FromZeros;

fn row(user_data: u64, deadline_ns: u64) -> Row {
    Row { user_data, deadline_ns, ..Row::new_zeroed() }
}

#[test]
fn rows_are_recorded_found_settled_and_free_again() {
    let mut rows = vec![Row::new_zeroed(); 4];
    let mut tickets = Tickets::new(4);
    let at: Vec<u32> =
        (0..4).map(|n| tickets.record(&mut rows, row(n % 2, 100 - n)).unwrap()).collect();
    assert_eq!(tickets.record(&mut rows, row(9, 0)), None, "no fifth row");
    assert_eq!(tickets.find(&rows, 0), Some(at[2]), "the newest of a name");
    assert_eq!(tickets.next_deadline_ns(&rows), Some(97));
    assert_eq!(tickets.expired(&rows, 96), None);
    assert_eq!(tickets.expired(&rows, 97), Some(at[3]));

    tickets.settle(&rows, at[2]);
    tickets.release(&mut rows, at[2]);
    assert_eq!(rows[at[2] as usize].state, FREE);
    assert_eq!(tickets.find(&rows, 0), Some(at[0]));
    tickets.settle(&rows, at[0]);
    tickets.release(&mut rows, at[0]);
    assert_eq!(tickets.find(&rows, 0), None);
    assert_eq!(tickets.outstanding(), 2);
    assert!(tickets.record(&mut rows, row(5, 0)).is_some());
}

#[test]
fn a_lane_orders_targets_by_distance_around_the_end() {
    let mut rows = vec![Row::new_zeroed(); 3];
    let mut tickets = Tickets::new(3);
    let base = u64::MAX - 1;
    let mut heap = Heap::default();
    let mut at = Vec::new();
    for target in [3u64, u64::MAX, 0] {
        let ticket = Row { target, ..row(target, 0) };
        let row = tickets.record(&mut rows, ticket).unwrap();
        heap.push(&mut tickets.lane_order(&rows, base, u64::MAX), row);
        at.push(row);
    }
    let mut order = tickets.lane_order(&rows, base, u64::MAX);
    assert_eq!(heap.pop(&mut order), Some(at[1]));
    assert_eq!(heap.pop(&mut order), Some(at[2]));
    assert_eq!(heap.pop(&mut order), Some(at[0]));
}

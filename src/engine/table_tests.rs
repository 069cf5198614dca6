use super::*;

/// Zeroed memory at a multiple of 8.
fn words(bytes: usize) -> Vec<u64> {
    vec![0; bytes / 8]
}

#[test]
fn the_parts_fill_the_table_and_do_not_overlap() {
    let layout = TableLayout::new(64, 128);
    assert!(layout.bytes().is_multiple_of(PAGE_BYTES));
    let mut memory = words(layout.bytes());
    let mut table = Table::over(layout, memory.as_mut_bytes()).unwrap();
    let params = SessionParams {
        submit_entries: 64,
        result_entries: 128,
        lanes: 64,
        pid: 1,
        uid: 2,
        clock_offset_ns: -3,
    };
    table.format(layout, &params);
    assert_eq!((table.lanes.len(), table.rows.len()), (64, 128));
    table.lanes[63].code = 7;
    table.plans[SESSION_PLANS_MAX as usize - 1].text[PLAN_TEXT_BYTES_MAX - 1] = 9;
    table.rows[0].user_data = u64::MAX;
    table.rows[127].detected_ns = u64::MAX;
    let table = Table::over(layout, memory.as_mut_bytes()).unwrap();
    assert_eq!(table.header.area.magic, MAGIC);
    assert_eq!(table.lanes[63].code, 7);
    assert_eq!(table.plans[63].text[PLAN_TEXT_BYTES_MAX - 1], 9);
    assert_eq!((table.rows[0].state, table.rows[0].user_data), (FREE, u64::MAX));
    assert_eq!(table.rows[127].detected_ns, u64::MAX);
}

#[test]
fn too_few_bytes_are_no_table() {
    let layout = TableLayout::new(64, 128);
    let mut memory = words(layout.bytes() - PAGE_BYTES);
    assert!(Table::over(layout, memory.as_mut_bytes()).is_none());
}

#[test]
fn a_waiting_ticket_costs_what_the_figures_allow() {
    let rows = 65_536;
    let fixed = TableLayout::new(64, 0).bytes();
    let per_row = (TableLayout::new(64, rows).bytes() - fixed) as f64 / f64::from(rows);
    assert!(per_row < 89.0, "{per_row}");
}

use super::*;

fn ticket() -> SubmitEntry {
    SubmitEntry { op: 1, kind: 1, source: 3, user_data: 7, target: 9, ..SubmitEntry::default() }
}

#[test]
fn words_round_trip() {
    let entry = ticket();
    assert_eq!(SubmitEntry::from_words(entry.to_words()), entry);
    let result = ResultEntry { user_data: 1, status: 1, seen: 9, phase: 5, ..Default::default() };
    assert_eq!(ResultEntry::from_words(result.to_words()), result);
    assert_eq!(result.to_words()[7] as u32, 5, "the phase is the low half of the last word");
}

#[test]
fn phases_of_neighbouring_laps_differ_and_none_is_zero() {
    for entries in [64u32, 4096, 65_536] {
        for position in [0, entries - 1, entries, u32::MAX] {
            let phase = phase_of(position, entries);
            assert_ne!(phase, 0);
            assert_ne!(phase, phase_of(position.wrapping_add(entries), entries));
        }
    }
}

#[test]
fn a_known_entry_passes_and_every_unknown_bit_is_refused() {
    assert_eq!(ticket().check(), Ok((Op::Ticket, TicketKind::Word)));
    let code = |entry: SubmitEntry| entry.check().unwrap_err().code;
    assert_eq!(code(SubmitEntry { op: 0, ..ticket() }), ErrorCode::BadMessage);
    assert_eq!(code(SubmitEntry { op: 4, ..ticket() }), ErrorCode::BadMessage);
    assert_eq!(code(SubmitEntry { kind: 4, ..ticket() }), ErrorCode::BadMessage);
    assert_eq!(code(SubmitEntry { flags: 1, ..ticket() }), ErrorCode::UnknownFlags);
    assert_eq!(code(SubmitEntry { reserved0: 1, ..ticket() }), ErrorCode::BadMessage);
    assert_eq!(code(SubmitEntry { reserved1: [0, 1], ..ticket() }), ErrorCode::BadMessage);
    assert_eq!(code(SubmitEntry { op: 2, ..ticket() }), ErrorCode::BadMessage);
    let fail = SubmitEntry { op: 3, kind: 0, target: 1 << 32, ..ticket() };
    assert_eq!(code(fail), ErrorCode::BadMessage);
}

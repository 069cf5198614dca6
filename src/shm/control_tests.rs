use super::*;
use crate::shm::region::Region;

#[test]
fn a_session_runs_from_starting_to_closed_with_a_reason() {
    let sizes = RingSizes::new(64, 64).unwrap();
    let memory = Region::heap(sizes.bytes()).unwrap();
    let control = Control::new(&memory, sizes).unwrap();
    let reader = ControlReader::new(memory.read_only()).unwrap();
    assert_eq!(reader.state(), Some(SessionState::Starting));
    control.serve(3, SessionState::Live);
    assert_eq!((reader.state(), reader.generation()), (Some(SessionState::Live), 3));
    control.set_state(SessionState::Draining);
    assert_eq!(reader.state(), Some(SessionState::Draining));
    assert_eq!(reader.close_code(), None);
    control.close(ErrorCode::RingIndex);
    assert_eq!(reader.state(), Some(SessionState::Closed));
    assert_eq!(reader.close_code(), Some(ErrorCode::RingIndex));
}

#[test]
fn nonsense_is_no_state_and_no_code() {
    let sizes = RingSizes::new(64, 64).unwrap();
    let memory = Region::heap(sizes.bytes()).unwrap();
    let reader = ControlReader::new(&memory).unwrap();
    memory.store32(rings::STATE, 4);
    assert_eq!(reader.state(), None);
    for code in [31, u32::MAX, 0x1_0020] {
        memory.store32(rings::CLOSE_CODE, code);
        assert_eq!(reader.close_code(), None, "{code}");
    }
}

#[test]
fn every_state_has_its_number() {
    use SessionState::{Closed, Draining, Live, Starting};
    for state in [Starting, Live, Draining, Closed] {
        assert_eq!(SessionState::from_number(state as u32), Some(state));
    }
}

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;

use super::super::control::Control;
use super::super::double::{Double, Levers, eventually};
use super::super::wire::Wire;
use super::*;
use crate::proto::layout::lanes;

fn code<T: fmt::Debug>(result: Result<T>) -> ErrorCode {
    result.unwrap_err().code
}

#[test]
fn nobody_listening_is_one_coded_error_with_the_path() {
    let missing = Path::new("/nonexistent/parkd.sock");
    let error = Session::connect_to(missing).unwrap_err();
    assert_eq!(error.code, ErrorCode::SocketUnavailable);
    assert!(error.detail.contains("/nonexistent/parkd.sock"), "{error}");
    let long = "x".repeat(200);
    assert_eq!(code(Session::connect_to(Path::new(&long))), ErrorCode::SocketUnavailable);
    let name = format!("parkd-client-{}.sock", std::process::id());
    let other = std::env::temp_dir().join(name);
    // A stream socket is somebody else's.
    let _listener = UnixListener::bind(&other).unwrap();
    assert_eq!(code(Session::connect_to(&other)), ErrorCode::SocketUnavailable);
    std::fs::remove_file(other).unwrap();
}

#[test]
fn welcome_gives_what_was_asked_for() {
    let builder = Session::builder().submit_entries(64).result_entries(128).lanes(256);
    let (_double, session) = Double::session_of(builder);
    assert_eq!((session.number(), session.generation()), (7, 3));
    assert_eq!(session.executor(), "double");
    assert_eq!(session.room(), Ok(64));
    assert_eq!(session.shared().lanes().lanes(), 256);
    assert_eq!(session.live(), Ok(()));
    assert_eq!(session.bell_fd().unwrap().map(drop), None);
}

#[test]
fn sizes_that_disagree_with_the_areas_are_refused() {
    let (double, wire) = Double::start();
    double.levers.lie.store(true, Ordering::SeqCst);
    assert_eq!(code(SessionBuilder::default().greet(wire)), ErrorCode::BadMessage);
}

#[test]
fn a_daemon_that_dies_in_the_handshake_is_an_error() {
    let levers = Levers::default();
    levers.die.store(true, Ordering::SeqCst);
    let (_double, wire) = Double::start_with(levers);
    assert_eq!(code(SessionBuilder::default().greet(wire)), ErrorCode::Disconnected);
}

#[test]
fn a_daemon_that_dies_in_the_handshake_is_connected_to_again() {
    let path = std::env::temp_dir().join(format!("parkd-again-{}.sock", std::process::id()));
    let double = Double::listen(&path, 2);
    let once = Session::builder().reconnect(Duration::ZERO);
    assert_eq!(code(once.connect_to(&path)), ErrorCode::Disconnected);
    let session = Session::connect_to(&path).unwrap();
    assert_eq!(session.executor(), "double");
    drop(session);
    drop(double);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_daemon_that_closes_instead_of_a_welcome_says_why() {
    let path = std::env::temp_dir().join(format!("parkd-closes-{}.sock", std::process::id()));
    let double = Double::listen(&path, 0);
    double.set(|levers| &levers.farewell, true);
    let error = Session::connect_to(&path).unwrap_err();
    assert_eq!((error.code, error.detail.as_str()), (ErrorCode::SlowReader, "300 replies unread"));
    drop(double);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_lane_is_opened_stored_into_closed_and_reused() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    assert_eq!((lane.index(), lane.value(), lane.width()), (0, 0, Width::W64));
    assert_eq!((lane.next_target(), lane.next_target()), (1, 2));
    assert!(!lane.reached(1));
    lane.store(2);
    assert!(lane.reached(2) && !lane.reached(3));
    lane.clone().close().unwrap();
    assert_eq!(code(lane.close()), ErrorCode::NoSuchLane);
    let again = session.lane().unwrap();
    assert_eq!((again.index(), again.next_target()), (0, 3), "it goes on from its last number");
    assert_eq!(double.count(|levers| &levers.lanes), 1);
}

#[test]
fn a_dropped_lane_closes_no_later_than_the_next_opens() {
    let (double, session) = Double::session_of(Session::builder().lanes(64));
    for _ in 0..3 {
        let all: Vec<_> = (0..64).map(|_| session.lane().unwrap()).collect();
        assert_eq!(code(session.lane()), ErrorCode::NoFreeLane);
        drop(all);
    }
    let _one = session.lane().unwrap();
    assert_eq!(double.count(|levers| &levers.lanes), 1);
}

#[test]
fn a_lane_of_32_bits_counts_in_its_low_half() {
    let (_double, session) = Double::session();
    let lane = session.lane_on_device("default", Width::W32).unwrap();
    session.shared().lanes_writer().store(lane.index(), 0xdead_beef_0000_0000);
    assert_eq!(lane.value(), 0);
    lane.store(u64::from(u32::MAX));
    assert_eq!(lane.value(), u64::from(u32::MAX));
    assert_eq!(session.shared().lanes().load(lane.index()) >> 32, 0xdead_beef);
    assert!(lane.reached(u64::from(u32::MAX)) && !lane.reached(1 << 32));
    let ticket = lane.ticket((1 << 32) + 1).submit().unwrap();
    lane.store((1 << 32) + 1);
    assert!(ticket.wait().unwrap().is_done());
}

#[test]
fn a_foreign_producer_needs_only_the_fd_and_the_offset() {
    let (_double, session) = Double::session();
    let _first = session.lane().unwrap();
    let lane = session.lane().unwrap();
    let ticket = lane.ticket(77).submit().unwrap();
    let mut file = std::fs::File::from(session.lanes_fd().unwrap());
    file.seek(SeekFrom::Start(lane.offset() as u64)).unwrap();
    file.write_all(&77u64.to_le_bytes()).unwrap();
    assert_eq!(ticket.wait().unwrap().seen, 77);
    assert_eq!(lane.bell_offset(), lanes::bell(1));
    assert!(std::fs::File::from(session.status_fd().unwrap()).write(&[1]).is_err());
}

#[test]
fn requests_are_refused_with_the_daemons_code() {
    let (_double, session) = Double::session();
    assert_eq!(code(session.lane_on_device("gpu9", Width::W64)), ErrorCode::NoSuchDevice);
    assert_eq!(code(session.lane_on_device(&"x".repeat(33), Width::W64)), ErrorCode::NoSuchDevice);
    assert_eq!(code(session.plan("nonsense")), ErrorCode::InvalidPlan);
    assert_eq!(code(session.plan(&"x".repeat(641))), ErrorCode::LimitExceeded);
    let plan = session.plan("poll").unwrap();
    assert_eq!(plan.number(), 1);
    assert_eq!(session.plan_named("default").unwrap().number(), 2);
}

#[test]
fn several_threads_request_at_once() {
    let (_double, session) = Double::session();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mine: Vec<_> = (0..8).map(|_| session.lane().unwrap()).collect();
                assert!(mine.windows(2).all(|pair| pair[0].index() != pair[1].index()));
                mine.into_iter().for_each(|lane| lane.close().unwrap());
            });
        }
    });
}

#[test]
fn control_sessions_ask_for_status_and_have_no_memory() {
    let (_double, wire) = Double::start();
    let control = Control::greet(wire).unwrap();
    assert_eq!(control.status().unwrap(), r#"{"executor":"double"}"#);
    assert_eq!(control.status().unwrap(), r#"{"executor":"double"}"#);
}

#[test]
fn the_last_handle_says_bye() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let ticket = lane.ticket(1).submit().unwrap();
    drop((session, lane));
    assert_eq!(double.count(|levers| &levers.byes), 0, "the ticket holds the session");
    drop(ticket);
    eventually("BYE", || double.count(|levers| &levers.byes) == 1);
}

#[test]
fn bells_are_rung_through_an_eventfd_where_the_daemon_asks_for_that() {
    let levers = Levers::default();
    levers.bell_eventfd.store(true, Ordering::SeqCst);
    let (_double, wire) = Double::start_with(levers);
    let session = SessionBuilder::default().greet(wire).unwrap();
    assert!(session.bell_fd().unwrap().is_some());
    let lane = session.lane().unwrap();
    for target in 1..200 {
        let ticket = lane.ticket(target).submit().unwrap();
        lane.store_and_ring(target);
        assert!(ticket.wait().unwrap().is_done());
    }
}

#[test]
fn a_closed_session_says_why_and_a_dead_daemon_is_noticed() {
    let (double, session) = Double::session();
    double.levers.close.store(u32::from(ErrorCode::RingIndex.number()), Ordering::SeqCst);
    eventually("the close", || session.live().is_err());
    let error = session.live().unwrap_err();
    assert_eq!(error.code, ErrorCode::Disconnected);
    assert!(error.detail.contains("RingIndex"), "{error}");

    let (double, session) = Double::session();
    double.set(|levers| &levers.die, true);
    eventually("the death", || session.live().is_err());
    assert_eq!(code(session.lane()), ErrorCode::Disconnected);
    assert_eq!(code(session.plan("poll")), ErrorCode::Disconnected);
    assert_eq!(code(session.room()), ErrorCode::Disconnected);
}

#[test]
fn what_the_daemon_said_last_is_the_reason() {
    let (double, session) = Double::session();
    double.set(|levers| &levers.farewell, true);
    eventually("the end", || session.live().is_err());
    let error = session.live().unwrap_err();
    assert_eq!(error.code, ErrorCode::Disconnected);
    assert!(error.detail.contains("300 replies unread"), "{error}");
}

#[test]
fn an_old_answer_is_not_taken_for_a_new_one() {
    let (double, wire) = Double::start();
    double.set(|levers| &levers.echo, true);
    let session = SessionBuilder::default().greet(wire).unwrap();
    assert_eq!(session.lane().unwrap().index(), 0);
    assert_eq!(session.plan("poll").unwrap().number(), 1);
}

#[test]
fn wires_are_not_records_of_another_socket() {
    // A socket whose peer is gone before anything was said.
    let (theirs, ours) = std::os::unix::net::UnixDatagram::pair().unwrap();
    drop(ours);
    assert!(SessionBuilder::default().greet(Wire::over(theirs.into())).is_err());
}

#[test]
fn a_forked_child_is_refused_and_leaves_the_session_alone() {
    use crate::host::fill::tests::{fork, reap_child, shared_word};

    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let ticket = std::sync::Mutex::new(Some(lane.ticket(1).submit().unwrap()));
    eventually("the ticket", || double.count(|levers| &levers.tickets) == 1);
    let passed = shared_word();
    // A lock that a thread of the parent holds at the fork is never let go in the child.
    let locked = session.shared().reopen();
    let child = fork(|| {
        let forked = |error: Error| error.code == ErrorCode::Forked;
        let mut mine = ticket.lock().unwrap();
        let answers = [
            session.room().is_err_and(forked),
            lane.ticket(9).submit().is_err_and(forked),
            session.plan("poll").is_err_and(forked),
            session.next_completion(None).is_err_and(forked),
            mine.as_mut().unwrap().try_wait().is_err_and(forked),
            lane.clone().fail(1).is_err_and(forked),
        ];
        // Neither a CANCEL nor a CLOSE_LANE.
        drop(mine.take());
        drop(lane.clone());
        if answers == [true; 6] {
            passed.store(1, Ordering::SeqCst);
        }
    });
    reap_child(child);
    drop(locked);
    assert_eq!(passed.load(Ordering::SeqCst), 1);
    let ticket = ticket.into_inner().unwrap().unwrap();
    lane.store(1);
    assert!(ticket.wait().unwrap().is_done());
    assert_eq!(double.count(|levers| &levers.cancels), 0);
    assert_eq!(session.live(), Ok(()));
}

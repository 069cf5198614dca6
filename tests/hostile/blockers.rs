//! Fds whose close or poll takes as long as their owner likes: files of a FUSE server that does not
//! answer, and TCP sockets that linger. Nobody waits for them but a thread that closes.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use parkd::core::error::ErrorCode;
use parkd::proto::limits::CLOSING_PER_UID_MAX;
use parkd::proto::message::{self, Opcode, encode};
use parkd::proto::request::submit_tail;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;

use super::Scene;
use super::fuse::Mount;
use super::support::raw::{self, Session, Wire, fd, hello};
use super::support::{Executor, skipped, until};

crate::for_each_executor! {
    a_file_whose_close_never_ends_is_sent,
    sockets_linger_when_they_are_closed,
    blocking_fds_are_left_behind_in_the_socket,
    more_blocking_fds_than_a_user_may_leave,
}

/// A socket whose close lasts ten minutes, or until the first of the two goes.
fn lingering() -> (TcpStream, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let near = TcpStream::connect(listener.local_addr().expect("its port")).expect("a socket");
    let (far, _) = listener.accept().expect("its other end");
    set_socket_linger(&near, Some(Duration::from_secs(600))).expect("SO_LINGER");
    near.set_nonblocking(true).expect("its flags");
    while std::io::Write::write(&mut &near, &[0; 65_536]).is_ok() {}
    (far, near.into())
}

/// One fd ticket's SUBMIT.
fn submit(cookie: u64) -> Vec<u8> {
    let body = message::Submit { tickets: 1, fds: 1 };
    encode(Opcode::Submit as u16, cookie, &body, submit_tail(&[fd(0, 1)]))
}

fn sent(session: &Session, stranger: BorrowedFd<'_>) {
    session.wire.try_send(&submit(session.cookie), &[stranger]).expect("send");
}

/// Has sessions send lingering sockets, one each, of which the daemon's copies are the last when it
/// comes to them: their closes last until what this answers goes. The daemon stands meanwhile; it
/// must not be stopped again, for that ends a close that lingers.
fn leave<'a>(scene: &Scene, sessions: impl Iterator<Item = &'a Session>) -> Vec<TcpStream> {
    scene.daemon.signal(Signal::STOP);
    until("the daemon stands", || {
        let stat = std::fs::read_to_string(scene.daemon.proc("stat")).expect("its state");
        stat.contains(") T ").then_some(())
    });
    let far = sessions
        .map(|session| {
            let (far, near) = lingering();
            sent(session, near.as_fd());
            far
        })
        .collect();
    scene.daemon.signal(Signal::CONT);
    far
}

/// The desk answers, at once, whoever asks.
fn served(scene: &mut Scene) {
    scene.goes_on();
    raw::control(&scene.socket()).bye();
    scene.neighbour.wire.status();
    Session::open(&scene.socket()).wire.bye();
}

fn a_file_whose_close_never_ends_is_sent(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    // It goes first, so that a daemon that it holds up can end.
    let mut mount = match Mount::new() {
        Ok(mount) => mount,
        Err(why) => return skipped(&why),
    };
    let fds = scene.daemon.fds();
    let session = Session::open(&scene.socket());
    for _ in 0..3 {
        let file = mount.open();
        sent(&session, file.as_fd());
        assert_eq!(session.wire.receive().expect("an answer").code(), ErrorCode::FdKindRefused);
        mount.keep(file);
        served(&mut scene);
    }
    until("the daemon closes the files", || (mount.flushes() >= 3).then_some(()));
    served(&mut scene);
    drop(session);
    // Once the server answers nothing is left.
    mount.answer();
    until("all is closed", || (scene.daemon.fds() <= fds).then_some(()));
    scene.unharmed();
}

fn sockets_linger_when_they_are_closed(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    let session = Session::open(&scene.socket());
    let far = leave(&scene, std::iter::repeat_n(&session, 5));
    for _ in 0..5 {
        assert_eq!(session.wire.receive().expect("an answer").code(), ErrorCode::FdKindRefused);
        served(&mut scene);
    }
    drop((session, far));
    until("all is closed", || (scene.daemon.fds() <= fds).then_some(()));
    scene.unharmed();
}

fn blocking_fds_are_left_behind_in_the_socket(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    let sessions: Vec<Session> = (0..6).map(|_| Session::open(&scene.socket())).collect();
    let status = encode(Opcode::Status as u16, 1, &message::StatusRequest { reserved: 0 }, &[]);
    let far = leave(
        &scene,
        sessions.iter().enumerate().map(|(at, session)| {
            // Behind so many requests that the daemon does not come to it, or empty records.
            let ahead = if at % 2 == 0 { &status[..] } else { &[] };
            (0..70).for_each(|_| session.wire.send(ahead));
            session
        }),
    );
    drop(sessions);
    for _ in 0..3 {
        served(&mut scene);
    }
    drop(far);
    until("all is closed", || (scene.daemon.fds() <= fds).then_some(()));
    scene.unharmed();
}

fn more_blocking_fds_than_a_user_may_leave(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    let session = Session::open(&scene.socket());
    let far = leave(&scene, std::iter::repeat_n(&session, CLOSING_PER_UID_MAX as usize));
    for _ in 0..CLOSING_PER_UID_MAX {
        let reply = session.wire.receive().expect("an answer");
        assert_eq!((reply.code(), reply.closes()), (ErrorCode::FdKindRefused, false));
    }
    let harmless = std::fs::File::open("/dev/null").expect("a file");
    let last = until("the user is refused", || {
        sent(&session, harmless.as_fd());
        let reply = session.wire.receive().expect("an answer");
        reply.closes().then_some(reply)
    });
    assert_eq!(last.code(), ErrorCode::QuotaExceeded);
    assert_eq!(session.close_code(), ErrorCode::QuotaExceeded);
    // The user's next connections are refused as well, and sessions that behave go on.
    let wire = Wire::connect(&scene.socket());
    let _ = wire.try_send(&encode(Opcode::Hello as u16, 1, &hello(), &[]), &[]);
    assert_eq!(wire.parted(), ErrorCode::QuotaExceeded);
    scene.goes_on();
    scene.neighbour.wire.status();
    drop((session, far));
    until("all is closed", || (scene.daemon.fds() <= fds).then_some(()));
    scene.unharmed();
}

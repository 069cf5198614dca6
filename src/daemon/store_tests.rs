use super::*;

fn fd() -> OwnedFd {
    crate::daemon::command::eventfd().expect("an eventfd")
}

#[test]
fn names_are_short_and_read_back() {
    for serial in [0, 1, 0xabc, 0xe, u32::MAX] {
        for part in Part::ALL {
            let name = part.name(serial);
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
            assert_eq!(Part::of_name(&name), Some((serial, part)), "{name}");
        }
    }
    for name in ["", "s", "listen", "status", "+1s", "01s", "1S", "100000000t", "1st"] {
        assert_eq!(Part::of_name(name), None, "{name}");
    }
}

#[test]
fn what_came_back_is_sorted_and_a_session_that_is_not_whole_is_broken() {
    let mut named = vec![(STATUS.to_owned(), fd()), ("unit.socket".to_owned(), fd())];
    for part in Part::ALL {
        named.push((part.name(7), fd()));
        if part != Part::Bell {
            named.push((part.name(10), fd()));
        }
        if part != Part::Table {
            named.push((part.name(9), fd()));
        }
    }
    let found = Inherited::sort(named);
    assert!(found.status.is_some() && found.listener.is_none());
    let whole: Vec<(u32, bool)> =
        found.sessions.iter().map(|kept| (kept.serial, kept.bell.is_some())).collect();
    assert_eq!(whole, [(7, true), (10, false)]);
    assert_eq!(found.broken, [9]);
}

#[test]
fn a_listening_socket_is_known_by_any_name() {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let socket = || {
        use rustix::net::{AddressFamily, SocketType, socket_with};
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket")
    };
    let listener = socket();
    let address = rustix::net::SocketAddrUnix::new_abstract_name(
        format!("parkd-store-test-{}", std::process::id()).as_bytes(),
    )
    .expect("an address");
    rustix::net::bind(&listener, &address).expect("a bind");
    rustix::net::listen(&listener, 1).expect("a listen");
    let found =
        Inherited::sort(vec![("x.socket".to_owned(), socket()), ("y".to_owned(), listener)]);
    assert!(found.listener.is_some_and(|fd| is_listener(fd.as_fd())));
}

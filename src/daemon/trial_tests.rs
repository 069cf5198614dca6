use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;

/// A socket's path in a folder of its own.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("parkd-trial-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Place(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// What a daemon that starts here knows: its bell, whether something is due, its warnings.
    fn due(&self) -> (BellKind, Option<Due>, Vec<Error>) {
        let (mut bell, mut warnings) = (BellKind::Futex, Vec::new());
        let due = due(kinds::IO_URING, &self.socket(), &mut bell, &mut warnings);
        (bell, due, warnings)
    }

    /// Makes a trial with this outcome, and waits until it is over.
    fn try_with(&self, run: fn() -> Verdict) -> Option<Error> {
        let trial = Trial::start(self.due().1.unwrap(), run).unwrap();
        poll(&mut [PollFd::new(&trial, PollFlags::IN)], None).unwrap();
        trial.outcome()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_sound_ring_is_tried_once() {
    let place = Place::new("sound");
    assert_eq!(place.try_with(|| Verdict::Sound(9)), None);
    let (bell, due, warnings) = place.due();
    assert!(bell == BellKind::Futex && due.is_none() && warnings.is_empty());
}

#[test]
fn a_ring_in_doubt_has_eventfds_for_bells_from_then_on() {
    let place = Place::new("doubt");
    let doubtful = || Verdict::Doubtful("1 of 9 futex wakes were lost".to_owned());
    let error = place.try_with(doubtful).unwrap();
    assert_eq!(error.code, ErrorCode::BellFallback);
    let text = "bell: futex is not available (1 of 9 futex wakes were lost), eventfd is used; \
                bells that are futexes already are read every park_us";
    assert_eq!(error.detail, text);
    let (bell, due, warnings) = place.due();
    assert!(bell == BellKind::Eventfd && due.is_none());
    assert_eq!(warnings, [error]);
}

#[test]
fn what_could_not_be_tried_is_tried_again() {
    let place = Place::new("unknown");
    assert_eq!(place.try_with(|| Verdict::Unknown("no memory".to_owned())), None);
    let (bell, due, warnings) = place.due();
    assert!(bell == BellKind::Futex && due.is_some() && warnings.is_empty());
}

#[test]
fn nothing_is_due_where_no_ring_waits_on_futexes() {
    let place = Place::new("other");
    for (running, mut bell) in
        [(kinds::NAIVE, BellKind::Futex), (kinds::IO_URING, BellKind::Eventfd)]
    {
        let mut warnings = Vec::new();
        assert!(due(running, &place.socket(), &mut bell, &mut warnings).is_none());
        assert!(warnings.is_empty());
    }
}

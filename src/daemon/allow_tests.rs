//! Who may connect, and who owns the socket.

use super::*;

fn resolve(uids: &[u32], gids: &[u32], groups: &[&str]) -> (Allow, Vec<Error>) {
    Allow::resolve(&config::Allow {
        uids: uids.to_vec(),
        gids: gids.to_vec(),
        groups: groups.iter().map(|&name| name.to_owned()).collect(),
    })
}

fn denied(allow: &Allow, uid: u32, gid: u32, groups: &[u32]) -> bool {
    match allow.check(uid, gid, groups) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.code, ErrorCode::PermissionDenied);
            let text = format!("uid {uid} gid {gid} is not allowed by [allow]: add its uid or gid");
            assert!(error.detail.starts_with(&text), "{error}");
            true
        }
    }
}

#[test]
fn an_empty_list_allows_root_and_the_daemon_only() {
    let (mut allow, warnings) = resolve(&[], &[], &[]);
    assert!(warnings.is_empty());
    assert_eq!(allow.socket_gid(), None);
    allow.own_uid = 77;
    assert!(!denied(&allow, 0, 5, &[]));
    assert!(!denied(&allow, 77, 5, &[]));
    assert!(denied(&allow, 78, 0, &[0, 77]));
}

#[test]
fn uids_gids_and_supplementary_groups_count() {
    let (mut allow, _) = resolve(&[1000], &[50], &[]);
    allow.own_uid = 0;
    assert!(!denied(&allow, 1000, 1000, &[]));
    assert!(!denied(&allow, 1001, 50, &[]));
    assert!(!denied(&allow, 1001, 1001, &[4, 50]));
    assert!(denied(&allow, 1001, 1000, &[1000, 49]));
    assert!(denied(&allow, 50, 1001, &[]));
}

#[test]
fn root_and_the_daemons_own_user_steer_and_nobody_else() {
    let (mut allow, _) = resolve(&[1000], &[0], &[]);
    allow.own_uid = 77;
    assert_eq!((allow.steers(0, "DRAIN"), allow.steers(77, "DRAIN")), (Ok(()), Ok(())));
    let refused = allow.steers(1000, "DRAIN").unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotOperator);
    assert_eq!(refused.detail, "DRAIN: uid 1000 is neither root nor the daemon's user 77");
}

#[test]
fn groups_are_resolved_and_the_first_that_exists_owns_the_socket() {
    let (mut allow, warnings) = resolve(&[], &[50], &["no-group-is-called-so", "root"]);
    allow.own_uid = 0;
    assert_eq!(allow.socket_gid(), Some(0));
    assert!(allow.advice.ends_with(" there, or make it a member of group root"));
    assert!(!denied(&allow, 1001, 1001, &[0]));
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].code, ErrorCode::GroupMissing);
    assert_eq!(
        warnings[0].detail,
        "group no-group-is-called-so does not exist, the socket goes to gid 0"
    );
}

#[test]
fn a_missing_group_leaves_the_socket_as_it_is() {
    let (allow, warnings) = resolve(&[], &[], &["no-group-is-called-so"]);
    assert_eq!(allow.socket_gid(), None);
    assert!(allow.advice.ends_with(" there"));
    assert!(warnings[0].detail.contains("the socket stays with gid"), "{}", warnings[0]);
}

use super::*;

#[test]
fn the_flag_beats_the_variable_and_the_variable_the_default() {
    let variable = || Some(PathBuf::from("/v"));
    assert_eq!(choose(Some(Path::new("/f")), variable()), Path::new("/f"));
    assert_eq!(choose(None, variable()), Path::new("/v"));
    assert_eq!(choose(None, Some(PathBuf::new())), Path::new(DEFAULT_SOCKET));
    assert_eq!(choose(None, None), Path::new(DEFAULT_SOCKET));
}

//! The project's text files, and Rust files as their *code*: the same lines and columns with
//! comments and the contents of literals blanked out, so that a word found in it is a word of the
//! program. A file's *product* is its code without what only tests compile.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file, by its path from the project's root.
pub struct File {
    pub path: String,
    pub text: String,
}

/// A Rust file.
pub struct Rust {
    pub path: String,
    pub text: String,
    pub code: String,
    pub product: String,
}

/// Where one function stands.
pub struct Function {
    pub name: String,
    /// Its first line, from 1.
    pub line: usize,
    /// Lines from the one that names it to its closing brace.
    pub lines: usize,
}

/// The folder that Cargo.toml is in.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below the root whose name ends in one of `endings`, sorted by path. Build outputs and
/// hidden folders are left out, `.ci` aside.
pub fn files(endings: &[&str]) -> Vec<File> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    let mut files: Vec<File> = paths
        .iter()
        .filter_map(|path| {
            let name = path.strip_prefix(&root).ok()?.to_str()?.to_owned();
            let wanted = endings.iter().any(|ending| name.ends_with(ending));
            let text = wanted.then(|| fs::read_to_string(path).unwrap())?;
            Some(File { path: name, text })
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && name != "target" {
                walk(&entry.path(), paths);
            }
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
}

/// The Rust files whose path starts with one of `folders` (all of them for `""`).
pub fn rust(folders: &[&str]) -> Vec<Rust> {
    let files = files(&[".rs"]).into_iter();
    let files: Vec<Rust> = files
        .filter(|file| folders.iter().any(|folder| file.path.starts_with(folder)))
        .map(|File { path, text }| {
            let code = blank_literals(&text);
            let product = blank_tests(&code);
            Rust { path, text, code, product }
        })
        .collect();
    assert!(!files.is_empty(), "no Rust file in {folders:?}: the checks would see nothing");
    files
}

impl Rust {
    /// Whether the file holds unit tests alone.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("_tests.rs") || self.path.contains("tests/")
    }

    /// Where `word` stands in `code` as a whole word, as byte offsets.
    pub fn words(code: &str, word: &str) -> Vec<usize> {
        let of_word =
            |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let bytes = code.as_bytes();
        code.match_indices(word)
            .map(|(at, _)| at)
            .filter(|&at| !(at > 0 && of_word(bytes.get(at - 1))))
            .filter(|&at| !of_word(bytes.get(at + word.len())))
            .collect()
    }

    /// The functions of the file that have a body.
    pub fn functions(&self) -> Vec<Function> {
        let bytes = self.code.as_bytes();
        let mut functions = Vec::new();
        for at in Rust::words(&self.code, "fn") {
            let rest = &self.code[at + 2..];
            let name: String = rest
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let Some(open) = body(bytes, at).filter(|_| !name.is_empty()) else { continue };
            let (line, last) = (line_of(&self.code, at), line_of(&self.code, closing(bytes, open)));
            functions.push(Function { name, line, lines: last - line + 1 });
        }
        functions
    }
}

/// The line, from 1, of a byte offset.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].bytes().filter(|&byte| byte == b'\n').count()
}

/// The opening brace of the item that starts at `at`; none where the item ends in `;`.
fn body(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (ahead, byte) in bytes[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + ahead),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The brace that closes the one at `open`.
fn closing(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0i32;
    for (ahead, byte) in bytes[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return open + ahead;
        }
    }
    bytes.len() - 1
}

/// Blanks whatever stands under a `cfg` that asks for `test`.
fn blank_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (at, _) in code.match_indices("#[cfg(") {
        let Some(end) = code[at..].find(")]").map(|end| at + end + 2) else { continue };
        let condition = &code[at..end];
        let wants_test = !Rust::words(condition, "test").is_empty();
        if wants_test && !condition.contains("not(") {
            let end = match body(&bytes, end) {
                Some(open) => closing(&bytes, open) + 1,
                None => code[end..].find(';').map_or(code.len(), |semicolon| end + semicolon + 1),
            };
            blank(&mut bytes, at..end);
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Blanks comments, and the contents of strings and characters.
fn blank_literals(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let Token { bytes: long, contents } = token(&bytes[at..]);
        blank(&mut bytes, at + contents.start..at + contents.end);
        at += long;
    }
    String::from_utf8(bytes).unwrap()
}

/// A piece of a Rust file: its length, and which part of it is to be blanked.
struct Token {
    bytes: usize,
    contents: Range<usize>,
}

impl Token {
    fn plain(bytes: usize) -> Token {
        Token { bytes, contents: 0..0 }
    }

    fn comment(bytes: usize) -> Token {
        Token { bytes, contents: 0..bytes }
    }
}

/// The token that starts here.
fn token(rest: &[u8]) -> Token {
    let of_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    match rest {
        [b'/', b'/', ..] => {
            Token::comment(rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()))
        }
        [b'/', b'*', ..] => Token::comment(block_comment(rest)),
        [b'"', ..] => quoted(rest),
        // A lifetime has no closing quote.
        [b'\'', b'\\', ..] | [b'\'', _, b'\'', ..] | [b'\'', 0x80..=0xff, ..] => quoted(rest),
        [first, ..] if of_name(first) => {
            let name = rest.iter().position(|b| !of_name(b)).unwrap_or(rest.len());
            match &rest[..name] {
                b"r" | b"br" | b"cr" => raw_string(rest, name),
                _ => Token::plain(name),
            }
        }
        _ => Token::plain(1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The raw string after a prefix, if there is one.
fn raw_string(rest: &[u8], prefix: usize) -> Token {
    let hashes = rest[prefix..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return Token::plain(prefix);
    }
    let from = prefix + hashes + 1;
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let long = rest[from..].windows(end.len()).position(|window| window == end);
    let to = long.map_or(rest.len(), |long| from + long);
    Token { bytes: (to + end.len()).min(rest.len()), contents: from..to }
}

/// A string or a character.
fn quoted(rest: &[u8]) -> Token {
    let mut at = 1;
    while at < rest.len() && rest[at] != rest[0] {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    let to = at.min(rest.len());
    Token { bytes: (to + 1).min(rest.len()), contents: 1..to }
}

/// Puts spaces in the place of everything but line ends.
fn blank(bytes: &mut [u8], range: Range<usize>) {
    bytes[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

#[test]
fn code_keeps_its_place_without_comments_and_literals() {
    let text = "let a = \"fn \\\" {\"; // unsafe\n\
                let b: &'a u8 = r#\"panic!\"#; /* /* x */ { */ c('}', '\\'')";
    let code = blank_literals(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(line_of(&code, code.find("let b").unwrap()), 2);
    assert!(!code.contains(['{', '}']) && !code.contains("unsafe") && !code.contains("panic"));
    assert!(code.contains("&'a u8 = r#\"") && code.contains("c('"));
}

#[test]
fn product_has_no_tests() {
    let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c() } }\n\
                #[cfg(not(test))]\nfn d() {}\n#[cfg(all(test, unix))]\nmod e;\nfn f() {}";
    let product = blank_tests(code);
    assert!(["fn a", "fn d", "fn f"].iter().all(|kept| product.contains(kept)));
    assert!(["fn b", "mod e", "tests"].iter().all(|gone| !product.contains(gone)));
}

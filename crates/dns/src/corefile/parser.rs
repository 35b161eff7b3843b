//! Words to server blocks, with imports, snippets and environment variables.

use super::{
    Block, Corefile, Directive, Location, Problem, Token,
    lexer::{self, Word},
};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Imports in one file, all together. Two files that import each other end here.
const IMPORTS: usize = 10_000;
/// Blocks within blocks.
const DEPTH: usize = 50;
/// Words in one file with its imports: 64 times the largest Corefile known.
const WORDS: usize = 1_000_000;

/// Where imported files come from.
pub trait Files {
    /// The content of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// The files that match a pattern with one `*` or `?` in its last part, sorted.
    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>>;
    /// An environment variable; empty when it is not set.
    fn variable(&self, name: &str) -> String;
}

/// The machine's own files and environment.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str())) else {
            return Ok(Vec::new());
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let fits = path.file_name().and_then(|found| found.to_str()).is_some_and(|found| fits(name, found));
            if fits && path.is_file() {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    fn variable(&self, name: &str) -> String {
        std::env::var(name).unwrap_or_default()
    }
}

/// Whether a name fits a pattern with `*` and `?`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = &pattern[1..];
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| fits(rest, &name[at..]))
        }
        Some(wanted) => match name.chars().next() {
            Some(letter) if wanted == '?' || wanted == letter => {
                fits(&pattern[wanted.len_utf8()..], &name[letter.len_utf8()..])
            }
            _ => false,
        },
    }
}

/// Reads a Corefile. `name` is what problems call it, and imports are relative to it.
pub fn parse(name: &str, text: &str, files: &dyn Files) -> Result<Corefile, Problem> {
    let mut words = lexer::words(&name.into(), text)?;
    // From here on words are taken from the end.
    words.reverse();
    let end = Location { file: name.into(), line: text.lines().count().max(1) as u32, column: 1 };
    let mut parser = Parser {
        words,
        files,
        snippets: HashMap::new(),
        imports: 0,
        depth: 0,
        end: Token { text: String::new(), place: end },
    };
    let mut blocks = Vec::new();
    while parser.peek().is_some() {
        blocks.extend(parser.block(blocks.is_empty())?);
    }
    Ok(Corefile { blocks })
}

struct Parser<'a> {
    /// The next one is the last.
    words: Vec<Word>,
    files: &'a dyn Files,
    snippets: HashMap<String, Vec<Word>>,
    imports: usize,
    depth: usize,
    end: Token,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Word> {
        self.words.last()
    }

    fn next(&mut self) -> Option<Word> {
        self.words.pop()
    }

    fn unexpected_end(&self, wanted: &str) -> Problem {
        Problem::at(&self.end, format!("the file ends where {wanted} is expected"))
    }

    /// A server block; none for a snippet or an import.
    fn block(&mut self, is_first: bool) -> Result<Option<Block>, Problem> {
        let mut keys: Vec<Token> = Vec::new();
        let mut more = true;
        while let Some(word) = self.peek() {
            if word.is("{") {
                break;
            }
            if word.is("}") {
                return Err(Problem::at(&word.token, "there is no block to close here"));
            }
            if word.first && !more {
                break;
            }
            let Some(word) = self.next() else { break };
            if word.first && keys.is_empty() && !word.quoted && word.token.text == "import" {
                self.import(&word.token)?;
                return Ok(None);
            }
            let mut key = word.token;
            more = !word.quoted && key.text.ends_with(',');
            key.text = self.filled_in(&key.text);
            if !word.quoted {
                // No zone ends in a comma, wherever it came from.
                key.text.truncate(key.text.trim_end_matches(',').len());
            }
            if !key.text.is_empty() {
                keys.push(key);
            }
        }
        let Some(first) = keys.first().cloned() else {
            let at = self.peek().map_or(&self.end, |word| &word.token);
            return Err(Problem::at(at, "a server block begins with at least one zone"));
        };
        let snippet = first.text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).filter(|_| keys.len() == 1);
        if !self.peek().is_some_and(|word| word.is("{")) {
            if snippet.is_some() {
                return Err(Problem::at(&first, "a snippet needs a block"));
            }
            return self.without_braces(is_first, keys).map(Some);
        }
        let open = self.next();
        if let Some(snippet) = snippet {
            if self.snippets.contains_key(snippet) {
                return Err(Problem::at(&first, "there already is a snippet of this name"));
            }
            let body = self.raw_body()?;
            self.snippets.insert(snippet.to_owned(), body);
            return Ok(None);
        }
        let directives = self.directives(open.as_ref())?;
        Ok(Some(Block { keys, directives }))
    }

    /// A file may be one block whose braces are left out.
    fn without_braces(&mut self, is_first: bool, keys: Vec<Token>) -> Result<Block, Problem> {
        if !is_first {
            let at = self.peek().map_or(&self.end, |word| &word.token);
            return Err(Problem::at(at, "{ is expected; only a file with a single block may go without"));
        }
        Ok(Block { keys, directives: self.directives(None)? })
    }

    /// Lines up to the closing brace, or to the end of the file when there was no opening one.
    fn directives(&mut self, open: Option<&Word>) -> Result<Vec<Directive>, Problem> {
        let mut directives = Vec::new();
        loop {
            match self.next() {
                None if open.is_none() => return Ok(directives),
                None => return Err(self.unexpected_end("}")),
                Some(word) if word.is("}") && open.is_some() => return Ok(directives),
                Some(word) if word.is("}") || word.is("{") => {
                    return Err(Problem::at(&word.token, "a directive is expected here"));
                }
                Some(word) if word.token.text == "import" && !word.quoted => self.import(&word.token)?,
                Some(word) => directives.push(self.directive(word)?),
            }
        }
    }

    fn directive(&mut self, word: Word) -> Result<Directive, Problem> {
        let name = Token { text: self.filled_in(&word.token.text), ..word.token };
        let mut args = Vec::new();
        loop {
            match self.peek() {
                Some(word) if word.first || word.is("}") => break,
                None => break,
                Some(_) => {}
            }
            let Some(word) = self.next() else { break };
            if word.is("{") {
                self.depth += 1;
                if self.depth > DEPTH {
                    return Err(Problem::at(&word.token, format!("more than {DEPTH} blocks within blocks")));
                }
                let block = self.directives(Some(&word))?;
                self.depth -= 1;
                return Ok(Directive { name, args, block: Some(block) });
            }
            args.push(Token { text: self.filled_in(&word.token.text), ..word.token });
        }
        Ok(Directive { name, args, block: None })
    }

    /// The words of a snippet up to its closing brace.
    fn raw_body(&mut self) -> Result<Vec<Word>, Problem> {
        let mut depth = 0;
        let mut body = Vec::new();
        loop {
            let Some(word) = self.next() else { return Err(self.unexpected_end("}")) };
            if word.is("{") {
                depth += 1;
            } else if word.is("}") && depth == 0 {
                return Ok(body);
            } else if word.is("}") {
                depth -= 1;
            }
            body.push(word);
        }
    }

    /// Puts what is imported in the place of the `import` line.
    fn import(&mut self, import: &Token) -> Result<(), Problem> {
        let what = match self.peek() {
            Some(word) if !word.first && !word.is("{") && !word.is("}") => self.next(),
            _ => None,
        };
        let Some(what) = what.map(|word| Token { text: self.filled_in(&word.token.text), ..word.token }) else {
            return Err(Problem::at(import, "needs the name of a file or a snippet"));
        };
        let mut given: Vec<String> = Vec::new();
        while let Some(word) = self.peek().filter(|word| !word.first && !word.is("}")) {
            if word.is("{") {
                return Err(Problem::at(&word.token, "import takes no block"));
            }
            given.extend(self.next().map(|word| self.filled_in(&word.token.text)));
        }
        self.imports += 1;
        if self.imports > IMPORTS {
            return Err(Problem::at(&what, format!("more than {IMPORTS} imports; does it import itself?")));
        }
        let mut words = match self.snippets.get(&what.text) {
            Some(snippet) => snippet.clone(),
            None => self.imported_files(&what)?,
        };
        if !given.is_empty() {
            for word in &mut words {
                word.token.text = with_arguments(&word.token, &given)?;
            }
        }
        if self.words.len() + words.len() > WORDS {
            return Err(Problem::at(&what, format!("with its imports the file has more than {WORDS} words")));
        }
        if let Some(next) = self.words.last_mut().filter(|next| !next.is("}")) {
            next.first = true;
        }
        if let Some(first) = words.first_mut() {
            first.first = true;
        }
        self.words.extend(words.into_iter().rev());
        Ok(())
    }

    fn imported_files(&self, what: &Token) -> Result<Vec<Word>, Problem> {
        let folder = Path::new(&*what.place.file).parent().unwrap_or_else(|| Path::new(""));
        let path = folder.join(&what.text);
        let wildcards = what.text.matches(['*', '?']).count();
        let cannot = |error: io::Error| Problem::at(what, format!("cannot be imported: {error}"));
        let paths = match wildcards {
            0 => vec![path],
            1 => self.files.matching(&path).map_err(cannot)?,
            _ => return Err(Problem::at(what, "at most one * or ? may be in a pattern")),
        };
        let mut words = Vec::new();
        for path in paths {
            let text = self.files.read(&path).map_err(cannot)?;
            let name: Arc<str> = path.to_string_lossy().into();
            words.extend(lexer::words(&name, &text)?);
        }
        Ok(words)
    }

    /// `{$NAME}` and `{%NAME%}` are replaced, also within quotes; `{$}` stays.
    fn filled_in(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (open, close) in [("{$", "}"), ("{%", "%}")] {
            let mut done = String::new();
            let mut rest = filled.as_str();
            while let Some((before, after)) = rest.split_once(open) {
                let Some((name, behind)) = after.split_once(close) else { break };
                done.push_str(before);
                if name.is_empty() {
                    done.push_str(open);
                    done.push_str(close);
                } else {
                    done.push_str(&self.files.variable(name));
                }
                rest = behind;
            }
            done.push_str(rest);
            filled = done;
        }
        filled
    }
}

/// `{args[0]}` and `{args.0}` in what is imported stand for the words after its name.
fn with_arguments(token: &Token, given: &[String]) -> Result<String, Problem> {
    let mut filled = token.text.clone();
    for (open, close) in [("{args[", "]}"), ("{args.", "}")] {
        let mut done = String::new();
        let mut rest = filled.as_str();
        while let Some((before, after)) = rest.split_once(open) {
            let Some((number, behind)) = after.split_once(close) else { break };
            let Ok(number) = number.parse::<usize>() else { break };
            let Some(word) = given.get(number) else {
                let (count, plural) = (given.len(), if given.len() == 1 { "" } else { "s" });
                let problem = format!("the import gives {count} argument{plural}, which are counted from 0");
                return Err(Problem::at(token, problem));
            };
            done.push_str(before);
            done.push_str(word);
            rest = behind;
        }
        done.push_str(rest);
        filled = done;
    }
    Ok(filled)
}

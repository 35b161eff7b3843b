//! Which shared objects a program loads, as the loader itself says.

use super::ImageError;
use kernel::process::{self, ProcessError};
use std::path::Path;

/// Their paths, the loader's among them; none for a program that needs none.
pub(super) fn of(program: &Path) -> Result<Vec<String>, ImageError> {
    let name = program.display().to_string();
    match process::run("ldd", &[&name], "") {
        Ok(printed) => listed(&name, &printed.stdout),
        Err(ProcessError::Failed { stderr, .. }) if stderr.contains("not a dynamic executable") => Ok(Vec::new()),
        Err(source) => Err(ImageError::Libraries { program: name, source }),
    }
}

/// `libc.so.6 => /lib/libc.so.6 (0x7f)`, `/lib64/ld-linux-x86-64.so.2 (0x7f)`, `linux-vdso.so.1 (0x7f)`, `libx.so => not found`.
fn listed(program: &str, text: &str) -> Result<Vec<String>, ImageError> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, path) = line.split_once(" => ").unwrap_or((line, line));
        if path == "not found" {
            return Err(ImageError::NoLibrary { program: program.to_owned(), library: name.to_owned() });
        }
        found.extend(path.split(" (").next().filter(|path| path.starts_with('/')).map(str::to_owned));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_what_is_missing_is_named() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f5a)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f5a)\n";
        assert_eq!(listed("p", text).unwrap(), ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(listed("p", "\tstatically linked\n").unwrap(), Vec::<String>::new());
        let error = listed("p", "\tlibzap.so.1 => not found\n").unwrap_err().to_string();
        assert_eq!(error, "p needs libzap.so.1, which is not there");
    }
}

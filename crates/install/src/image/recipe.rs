//! Which images can be assembled: of Twinstack, and of what tests and a node without a registry need.

use super::{Image, ImageError, Node, PROGRAM, Tree, add, base, find, libraries, pause, with_folders};
use kernel::process;
use std::path::{Path, PathBuf};

/// Where busybox and its names are.
const SHELL: &str = "/bin/busybox";

/// One of the images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Twinstack, with other programs by their names on the PATH.
    Twinstack { with: Vec<String> },
    /// Twinstack as a server that tells who asks whom (`netexec`), with a shell beside it.
    Netexec,
    /// A shell and the usual programs, of one static file.
    Busybox,
    /// HAProxy and the libraries that it loads.
    Haproxy,
    /// What holds a Pod's namespaces open: a hundred bytes of ours.
    Pause,
}

impl Recipe {
    /// Puts the image together from files of this machine. `twinstack` is this very program, `path` the PATH.
    pub fn image(&self, twinstack: &Path, path: &str) -> Result<Image, ImageError> {
        let (tree, entrypoint, command) = match self {
            Self::Twinstack { with } => {
                let mut tree = base();
                add(&mut tree, twinstack, PROGRAM)?;
                for name in with {
                    let program = wanted(name, path)?;
                    add(&mut tree, &program, &program.to_string_lossy())?;
                }
                (tree, vec![PROGRAM], vec![])
            }
            Self::Netexec => {
                let mut tree = base();
                add(&mut tree, twinstack, PROGRAM)?;
                add_shell(&mut tree, path)?;
                (tree, vec![PROGRAM], vec!["netexec"])
            }
            Self::Busybox => {
                let mut tree = base();
                add_shell(&mut tree, path)?;
                (tree, vec![], vec!["sh"])
            }
            Self::Haproxy => {
                let mut tree = base();
                add(&mut tree, &wanted("haproxy", path)?, "/usr/sbin/haproxy")?;
                (tree, vec!["/usr/sbin/haproxy"], vec!["-f", "/etc/haproxy/haproxy.cfg"])
            }
            Self::Pause => {
                let program = pause::program(std::env::consts::ARCH)?;
                (Tree::from([("pause".to_owned(), Node::Program(program))]), vec!["/pause"], vec![])
            }
        };
        let words = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
        Ok(Image { tree: with_folders(tree), entrypoint: words(entrypoint), command: words(command) })
    }
}

fn wanted(name: &str, path: &str) -> Result<PathBuf, ImageError> {
    find(name, path).ok_or_else(|| ImageError::NoProgram(name.to_owned()))
}

/// One static file that goes by all the names that it knows.
fn add_shell(tree: &mut Tree, path: &str) -> Result<(), ImageError> {
    let program = wanted("busybox", path)?;
    let name = program.display().to_string();
    if let Some(library) = libraries::of(&program)?.into_iter().next() {
        return Err(ImageError::NotStatic(name, library));
    }
    let known = process::run(&name, &["--list"], "");
    let known = known.map_err(|source| ImageError::Libraries { program: name, source })?.stdout;
    tree.insert(super::inside(SHELL), Node::Copy(program));
    for applet in known.lines().map(str::trim).filter(|applet| !applet.is_empty() && *applet != "busybox") {
        tree.insert(format!("bin/{applet}"), Node::Link("busybox".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_one_file() {
        if std::env::consts::ARCH == "x86_64" {
            let image = Recipe::Pause.image(Path::new("/nowhere"), "").unwrap();
            assert_eq!((image.tree.len(), image.entrypoint), (1, vec!["/pause".to_owned()]));
        }
    }

    #[test]
    fn a_shell_that_is_not_there_is_named() {
        // The folders of root are searched too, so the name is one that nobody has.
        let error = wanted("no-such-busybox", "/nowhere").unwrap_err().to_string();
        assert_eq!(error, "no-such-busybox is not on the PATH; install it, or leave it out of --with");
    }
}

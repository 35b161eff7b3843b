//! `root`: the folder to which paths of other plugins are relative.

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
};

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    let folder = line.one()?;
    building.folder = building.folder.join(&folder.text);
    if !building.folder.is_dir() {
        // It may appear later.
        tracing::warn!(folder = %building.folder.display(), "the folder of root does not exist");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    #[test]
    fn files_are_found_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("names"), "192.0.2.1 a.test\n").unwrap();
        let asked = Asked::new(&format!(". {{\n hosts names\n root {}\n}}", folder.path().display()));
        assert_eq!(asked.ask("a.test.", "A"), "NOERROR aa | a.test. 3600 IN A 192.0.2.1");
        assert!(refused(". {\n root\n}").contains("needs one argument, has 0"));
    }
}

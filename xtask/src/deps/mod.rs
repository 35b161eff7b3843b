//! The layer rules of the design, checked: which crate may use which, where `unsafe`, processes and async may stand, and
//! which mechanisms live once.
//!
//! `read` collects the facts, `rules` judges them; every broken rule is reported, not only the first.

mod read;
mod rules;
mod vocabulary;

/// Checks the workspace around the current directory.
pub(crate) fn run() -> Result<(), String> {
    let workspace = read::workspace()?;
    let broken = rules::check(&workspace);
    if broken.is_empty() {
        println!("deps: {} crates keep the layer rules", workspace.crates.len());
        return Ok(());
    }
    let list = broken.iter().map(|rule| format!("  {rule}")).collect::<Vec<_>>().join("\n");
    Err(format!("deps: {} broken rules (docs/ARCHITECTURE.md says why they are there)\n{list}", broken.len()))
}

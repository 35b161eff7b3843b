//! The Corefile of the cluster, for a server on this machine. Pure.

use super::Local;
use crate::{
    corefile::{Block, Corefile, Directive, Token},
    operator::PORT,
};
use std::path::{Path, PathBuf};

/// Served by the process itself, for all its parts.
const OURS: [&str; 3] = ["health", "ready", "prometheus"];

/// Other addresses and ports, another way to the API, quicker reloads.
pub(super) fn adapt(mut file: Corefile, local: &Local) -> Corefile {
    file.blocks.iter_mut().for_each(|block| adapt_block(block, local));
    file
}

fn adapt_block(block: &mut Block, local: &Local) {
    let cluster = format!(":{PORT}");
    for key in &mut block.keys {
        if let Some(zone) = key.text.strip_suffix(&cluster) {
            key.text = format!("{zone}:{}", local.port);
        }
    }
    let Some(place) = block.keys.first().map(|key| key.place.clone()) else { return };
    let word = |text: String| Token { text, place: place.clone() };
    block.directives.retain(|directive| !OURS.contains(&directive.name.text.as_str()));
    for directive in &mut block.directives {
        match directive.name.text.as_str() {
            "reload" => directive.args = ["2s", "1s"].map(|text| word(text.to_owned())).to_vec(),
            "kubernetes" => {
                if let Some(path) = &local.kubeconfig {
                    let args = vec![word(path.display().to_string())];
                    let line = Directive { name: word("kubeconfig".to_owned()), args, block: None };
                    directive.block.get_or_insert_default().push(line);
                }
            }
            "forward" => directive.block.iter_mut().flatten().for_each(|line| adapt_tls(line, local)),
            _ => {}
        }
    }
    let addresses = local.addresses();
    if !addresses.is_empty() {
        let args = addresses.into_iter().map(|address| word(address.to_string())).collect();
        block.directives.insert(0, Directive { name: word("bind".to_owned()), args, block: None });
    }
}

/// Authorities are beside the Corefile.
fn adapt_tls(line: &mut Directive, local: &Local) {
    if line.name.text == "tls" {
        for file in line.args.iter_mut().filter(|file| file.text.starts_with('/')) {
            file.text = here(&file.text, &local.folder).display().to_string();
        }
    }
}

/// A path of a Pod, below a folder of ours. Nothing in it leads out again.
pub(super) fn here(path: &str, folder: &Path) -> PathBuf {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    folder.join(parts.collect::<PathBuf>())
}

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
    let path_to_api = local.kubeconfig.as_ref().map(|path| Directive {
        name: word("kubeconfig".to_owned()),
        args: vec![word(path.display().to_string())],
        block: None,
    });
    block.directives.retain(|directive| !OURS.contains(&directive.name.text.as_str()));
    for directive in &mut block.directives {
        match directive.name.text.as_str() {
            "reload" => directive.args = ["2s", "1s"].map(|text| word(text.to_owned())).to_vec(),
            "kubernetes" => {
                if let Some(line) = &path_to_api {
                    directive.block.get_or_insert_default().push(line.clone());
                }
            }
            "forward" => directive.block.iter_mut().flatten().for_each(|line| adapt_tls(line, local)),
            _ => {}
        }
    }
    let everything = block.keys.iter().any(|key| key.text.starts_with(".:"));
    if local.records && everything {
        let lines = Some(path_to_api.into_iter().collect());
        block.directives.push(Directive { name: word("dnsrecords".to_owned()), args: Vec::new(), block: lines });
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

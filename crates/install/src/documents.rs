//! The YAML documents of a file, and which sort of file they make.

use crate::{notes::Notes, plan::yaml};
use api::path::Path as Field;
use runtime::suggest;
use serde_json::Value;

/// Which sort of file it is.
pub(crate) enum Sort {
    /// `kubeadm.k8s.io` documents.
    Kubeadm,
    InstallConfig,
}

/// All documents that are not empty.
pub(crate) fn parse(text: &str, notes: &mut Notes) -> Option<Vec<Value>> {
    yaml::documents(text).map_err(|problem| notes.refused(&Field::root(), problem)).ok()
}

pub(crate) fn sort(documents: &[Value], notes: &mut Notes) -> Option<Sort> {
    let accepted = "accepted: kubeadm's ClusterConfiguration and InitConfiguration, or an install-config";
    if documents.is_empty() {
        notes.refused(&Field::root(), format!("is empty; {accepted}"));
        return None;
    }
    if let Some(at) = documents.iter().position(|document| !document.is_object()) {
        notes.refused(&Field::root(), format!("document {} is not a mapping; {accepted}", at + 1));
        return None;
    }
    let text = |document: &Value, field: &str| document[field].as_str().unwrap_or_default().to_owned();
    if documents.iter().any(|document| text(document, "apiVersion").starts_with("kubeadm.k8s.io/")) {
        return Some(Sort::Kubeadm);
    }
    let looks_installed = ["platform", "baseDomain"].iter().any(|field| documents[0].get(field).is_some());
    if documents.len() == 1 && documents[0].get("kind").is_none() && looks_installed {
        return Some(Sort::InstallConfig);
    }
    let version = text(&documents[0], "apiVersion");
    let near = suggest::nearest(&version, ["kubeadm.k8s.io/v1beta4"]).map(|near| format!("; did you mean {near}?"));
    let field = Field::new("apiVersion");
    let problem = format!("is neither kubeadm's nor an install-config's; {accepted}{}", near.unwrap_or_default());
    notes.wrong(&field, version, problem);
    None
}

//! A component with the rights that its manifests give it, and no others.

use crate::Kubectl;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Applies what `twinstack manifests` prints for a component, and returns a kubeconfig beside this one that acts as its account.
pub fn limited(component: &str, kubectl: &Kubectl, kubeconfig: &Path) -> PathBuf {
    let words = ["manifests", component, "--output=json", "--server=localhost:6443"];
    let printed = crate::run(&words);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    kubectl.ok_with(&["apply", "-f", "-"], &String::from_utf8_lossy(&printed.stdout));
    let list: Value = serde_json::from_slice(&printed.stdout).expect("a list");
    let items = list["items"].as_array().expect("a list");
    let account = items.iter().find(|item| item["kind"] == "ServiceAccount").expect("an account");
    let part = |name: &str| account["metadata"][name].as_str().expect("a name");
    acting_as(&format!("system:serviceaccount:{}:{}", part("namespace"), part("name")), component, kubeconfig)
}

/// A kubeconfig beside this one, whose only user acts as another.
pub fn acting_as(user: &str, word: &str, kubeconfig: &Path) -> PathBuf {
    let mut text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    for credential in ["client-certificate-data:", "token:"] {
        let with = match credential {
            "token:" => format!("as: '{user}', {credential}"),
            _ => format!("as: '{user}'\n    {credential}"),
        };
        text = text.replacen(credential, &with, 1);
    }
    assert_eq!(text.matches(user).count(), 1, "there is one user");
    let path = kubeconfig.with_extension(word);
    std::fs::write(&path, text).expect("a file can be written");
    path
}

/// The rights were enough: nothing in this log of a component was refused to it.
pub fn nothing_was_forbidden(log: &str) {
    let refused: Vec<&str> =
        log.lines().filter(|line| line.contains("forbidden") || line.contains("Forbidden")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

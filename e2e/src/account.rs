//! A component with the rights that its manifests give it, and no others.

use crate::{Kubectl, wait_for};
use serde_json::Value;
use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

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
    let user = format!("system:serviceaccount:{}:{}", part("namespace"), part("name"));
    in_force(items, &user, kubectl);
    acting_as(&user, component, kubeconfig)
}

/// Waits until the API server knows the last of these rights; it does a moment after they were made.
fn in_force(items: &[Value], user: &str, kubectl: &Kubectl) {
    let Some(role) = items.iter().rfind(|item| item["kind"] == "Role" || item["kind"] == "ClusterRole") else { return };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (rule, namespace) = (&role["rules"][0], word(&role["metadata"]["namespace"]));
    let resource = format!("{}.{}", word(&rule["resources"][0]), word(&rule["apiGroups"][0]));
    let (verb, user) = (word(&rule["verbs"][0]), format!("--as={user}"));
    let words = ["auth", "can-i", &verb, resource.trim_end_matches('.'), "--namespace", &namespace, &user];
    let known = wait_for(Duration::from_secs(60), || kubectl.run(&words).success.then_some(()));
    assert!(known.is_some(), "{words:?}: {:?}", kubectl.run(&words));
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
    // Whole at every moment: a program that was given it before may be about to read it.
    let folder = kubeconfig.parent().expect("a kubeconfig is in a folder");
    let mut file = tempfile::NamedTempFile::new_in(folder).expect("a file can be made");
    file.write_all(text.as_bytes()).expect("a file can be written");
    file.persist(&path).expect("a file can be renamed");
    path
}

/// The rights were enough: nothing in this log of a component was refused to it.
pub fn nothing_was_forbidden(log: &str) {
    let refused: Vec<&str> =
        log.lines().filter(|line| line.contains("forbidden") || line.contains("Forbidden")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

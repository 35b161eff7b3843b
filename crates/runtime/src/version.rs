//! Which build this is. Read by `twinstack version -o json`, the build metric and the `User-Agent` of clients.

use serde::Serialize;

/// What is known about this binary at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// The package version, e.g. `0.1.0`.
    pub version: &'static str,
    /// The commit it was built from; `unknown` unless `TWINSTACK_GIT_COMMIT` was set while compiling.
    pub git_commit: &'static str,
    /// Operating system and machine in Kubernetes' words, e.g. `linux/amd64`.
    pub platform: &'static str,
}

/// This build. The commit comes from the environment, not from a build script, so that no build needs git.
pub const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    git_commit: match option_env!("TWINSTACK_GIT_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
    platform: PLATFORM,
};

const PLATFORM: &str = if cfg!(target_arch = "x86_64") {
    "linux/amd64"
} else if cfg!(target_arch = "aarch64") {
    "linux/arm64"
} else {
    "linux/unknown"
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_uses_kubernetes_spelling() {
        let build = Build { version: "1.2.3", git_commit: "abc", platform: "linux/amd64" };
        assert_eq!(
            serde_json::to_string(&build).unwrap(),
            r#"{"version":"1.2.3","gitCommit":"abc","platform":"linux/amd64"}"#
        );
    }

    #[test]
    fn this_build_has_a_version_and_a_platform() {
        assert!(BUILD.version.starts_with(|c: char| c.is_ascii_digit()));
        assert!(BUILD.platform.starts_with("linux/"));
    }
}

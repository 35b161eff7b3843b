//! What `twinstack up` opens, and what its router may read.

use super::*;

/// `up` in a namespace of its own, which ends with it.
struct Up {
    space: Namespace,
    folder: tempfile::TempDir,
}

impl Drop for Up {
    fn drop(&mut self) {
        // The router and its HAProxy outlive whoever was killed.
        let listed = self.space.run("ip", &["netns", "pids", self.space.name()], "").map(|printed| printed.stdout);
        for pid in listed.unwrap_or_default().split_whitespace() {
            let _ = self.space.run("kill", &["-9", pid], "");
        }
    }
}

impl Up {
    /// The status of a plain GET for a host; an error when nobody listens.
    fn get(&self, address: &str, port: u16) -> std::io::Result<String> {
        let at = SocketAddr::new(e2e::haproxy::ip(address), port);
        let mut stream = self.space.within(|| TcpStream::connect_timeout(&at, Duration::from_secs(10)))??;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(b"GET /healthz/ready HTTP/1.1\r\nHost: nobody.test\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned())
    }

    fn kubectl(&self, kubeconfig: &str, words: &[&str]) -> String {
        let program = e2e::haproxy::tool("kubectl").expect("checked").display().to_string();
        let config = format!("--kubeconfig={}", self.folder.path().join(kubeconfig).display());
        let home = format!("HOME={}", self.folder.path().display());
        let mut all = vec![home.as_str(), &program, &config];
        all.extend(words);
        self.space.run("env", &all, "").map_or_else(|error| error.to_string(), |printed| printed.stdout)
    }
}

/// When it is created, and only where it asks for none.
fn a_route_without_a_host_gets_one(up: &Up) {
    for (name, spec, host, generated) in [
        ("bare", json!({}), "bare-default.apps.test", "true"),
        ("named", json!({"host": "named.test"}), "named.test", ""),
        ("below", json!({"subdomain": "sub"}), "", ""),
    ] {
        let mut route = json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": name},
            "spec": {"to": {"kind": "Service", "name": "web"}}});
        let merged = spec.as_object().cloned().unwrap_or_default();
        route["spec"].as_object_mut().expect("an object").extend(merged);
        let file = up.folder.path().join("route.json");
        std::fs::write(&file, route.to_string()).expect("written");
        let printed = up.kubectl("admin.kubeconfig", &["-n", "default", "create", "-f", &file.display().to_string()]);
        assert!(printed.contains("created"), "{printed}");
        let path = r"jsonpath={.spec.host} {.metadata.annotations.openshift\.io/host\.generated}";
        let found = up.kubectl("admin.kubeconfig", &["-n", "default", "get", "route", name, "-o", path]);
        assert_eq!(found, format!("{host} {generated}"), "{name}");
    }
}

#[test]
fn up_listens_on_loopback_and_its_router_has_its_own_rights() {
    if let Some(how) = missing() {
        e2e::skip("the router of up", how);
        return;
    }
    let up =
        Up { space: Namespace::new("router-up").expect("a namespace"), folder: tempfile::tempdir().expect("a folder") };
    for (address, length) in OWN.iter().zip(["32", "128"]) {
        up.space.run("ip", &["addr", "add", &format!("{address}/{length}"), "dev", "lo"], "").expect("an address");
    }
    let program = e2e::twinstack().display().to_string();
    let data = format!("--data-dir={}", up.folder.path().display());
    let words = ["netns", "exec", up.space.name(), &program, "up", "--nodes=0", &data, "--ingress-domain=apps.test"];
    let process = e2e::Process::start("ip", &words, &up.folder.path().join("up.log"));
    for address in LOOPBACK {
        let ready = wait_for(PATIENCE, || (up.get(address, 11936).ok()? == "200").then_some(()));
        assert!(ready.is_some(), "{address}: {:?}\n{}", up.get(address, 11936), process.output());
        assert_eq!(up.get(address, 10080).expect("HAProxy listens"), "503", "{address}");
    }
    for (address, port) in OWN.iter().flat_map(|address| [10080, 10443, 11936].map(|port| (address, port))) {
        assert!(up.get(address, port).is_err(), "{address}:{port} is open to others");
    }
    let own = "ingress/default/kubeconfig";
    assert!(std::fs::metadata(up.folder.path().join(own)).is_ok_and(|file| file.mode() & 0o777 == 0o600));
    let name = up.kubectl(own, &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(name, "system:serviceaccount:openshift-ingress:router", "{}", process.output());
    for (words, may) in [
        (&["list", "routes.route.openshift.io", "-A"][..], true),
        (&["create", "pods", "-A"], false),
        (&["get", "secrets", "-A"], false),
        (&["delete", "routes.route.openshift.io", "-A"], false),
    ] {
        let mut all = vec!["auth", "can-i"];
        all.extend(words);
        assert_eq!(up.kubectl(own, &all).starts_with("yes"), may, "{words:?}: {}", up.kubectl(own, &all));
    }
    a_route_without_a_host_gets_one(&up);
    account::nothing_was_forbidden(&process.output());
}

//! Claims and volumes: bound, made when a pod comes, kept while they are used and taken away afterwards, with the API server and the
//! controller manager killed in between.

use e2e::{Kubectl, Process, Server, twinstack, wait_for};
use std::{path::PathBuf, time::Duration};

const PATIENCE: Duration = Duration::from_secs(90);
const STANDARD: &str = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: standard\n  annotations: \
                        {storageclass.kubernetes.io/is-default-class: 'true'}\nprovisioner: twinstack.dev/host-path\nvolumeBindingMode: \
                        WaitForFirstConsumer\nallowVolumeExpansion: true\n";

struct Lab {
    server: Server,
    manager: Process,
}

impl Lab {
    fn new() -> Self {
        let server = Server::start(&[]);
        let manager = manage(&server, "first");
        Self { server, manager }
    }

    fn kubectl(&self) -> Kubectl {
        self.server.kubectls().pop().expect("kubectl is there")
    }

    /// Both are killed, and come back.
    fn crash(&mut self, name: &str) {
        self.manager.kill();
        self.server.crash_and_restart();
        self.manager = manage(&self.server, name);
    }

    fn folders(&self) -> PathBuf {
        self.server.folder().join("volumes")
    }
}

fn manage(server: &Server, name: &str) -> Process {
    let words = [
        "controller-manager".to_owned(),
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--host-path-provisioner-dir={}", server.folder().join("volumes").display()),
        "--hollow-nodes=3".to_owned(),
        "--allocate-node-cidrs".to_owned(),
        "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56".to_owned(),
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Process::start(twinstack(), &words, &server.folder().join(format!("{name}.log")))
}

fn claim(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec: {{accessModes: [ReadWriteOnce], \
         resources: {{requests: {{storage: 1Gi}}}}{spec}}}\n"
    )
}

fn pod(name: &str, claim: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers: [{{name: c, image: i}}]\n  \
         volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}]\n"
    )
}

fn shown(kubectl: &Kubectl, what: &[&str], path: &str) -> String {
    kubectl.run(&[&["get"], what, &["-o", &format!("jsonpath={{{path}}}"), "--ignore-not-found"]].concat()).stdout
}

fn becomes(kubectl: &Kubectl, what: &[&str], path: &str, wanted: &str) {
    let seen = wait_for(PATIENCE, || (shown(kubectl, what, path) == wanted).then_some(()));
    let events = kubectl.run(&["get", "events"]).stdout;
    assert!(seen.is_some(), "{what:?} {path} is {:?}, not {wanted:?}\n{events}", shown(kubectl, what, path));
}

#[test]
fn a_claim_gets_its_volume_when_a_pod_comes_and_keeps_it_while_it_is_used() {
    let mut lab = Lab::new();
    let kubectl = lab.kubectl();
    kubectl.ok_with(&["apply", "-f", "-"], STANDARD);
    kubectl.ok_with(&["apply", "-f", "-"], &claim("data", ""));
    assert_eq!(shown(&kubectl, &["pvc", "data"], ".spec.storageClassName"), "standard", "the default class");
    becomes(&kubectl, &["pvc", "data"], ".status.phase", "Pending");
    kubectl.ok_with(&["apply", "-f", "-"], &pod("user", "data"));
    becomes(&kubectl, &["pvc", "data"], ".status.phase", "Bound");
    becomes(&kubectl, &["pod", "user"], ".status.phase", "Running");
    let volume = shown(&kubectl, &["pvc", "data"], ".spec.volumeName");
    let node = shown(&kubectl, &["pod", "user"], ".spec.nodeName");
    let host = ".spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]";
    assert_eq!(shown(&kubectl, &["pv", &volume], host), node);
    let folder = PathBuf::from(shown(&kubectl, &["pv", &volume], ".spec.hostPath.path"));
    assert_eq!(folder, lab.folders().join(&node).join(&volume));
    std::fs::write(folder.join("file"), "kept").unwrap();

    lab.crash("second");
    let kubectl = lab.kubectl();
    // It grows, and stays while the pod has it.
    kubectl.ok(&["patch", "pvc", "data", "-p", r#"{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}"#]);
    becomes(&kubectl, &["pvc", "data"], ".status.capacity.storage", "2Gi");
    kubectl.ok(&["delete", "pvc", "data", "--wait=false"]);
    becomes(&kubectl, &["pvc", "data"], ".metadata.finalizers[0]", "kubernetes.io/pvc-protection");
    assert!(folder.join("file").exists());
    kubectl.ok(&["delete", "pod", "user", "--force", "--grace-period=0"]);
    for kind in ["pvc", "pv"] {
        let gone = wait_for(PATIENCE, || kubectl.ok(&["get", kind, "-o", "name"]).is_empty().then_some(()));
        assert!(gone.is_some(), "{}", kubectl.ok(&["get", kind]));
    }
    assert!(!folder.exists(), "the folder goes with the volume");
}

#[test]
fn a_claim_takes_the_smallest_volume_that_does_and_gives_it_back() {
    let mut lab = Lab::new();
    let kubectl = lab.kubectl();
    for (name, size) in [("big", "10Gi"), ("right", "2Gi"), ("small", "1Mi")] {
        let volume = format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec: {{accessModes: [ReadWriteOnce], capacity: {{storage: {size}}}, \
             storageClassName: hand, hostPath: {{path: /tmp/{name}}}}}\n"
        );
        kubectl.ok_with(&["apply", "-f", "-"], &volume);
    }
    becomes(&kubectl, &["pv", "right"], ".status.phase", "Available");
    kubectl.ok_with(&["apply", "-f", "-"], &claim("data", ", storageClassName: hand"));
    becomes(&kubectl, &["pvc", "data"], ".spec.volumeName", "right");
    becomes(&kubectl, &["pv", "right"], ".status.phase", "Bound");
    lab.crash("second");
    let kubectl = lab.kubectl();
    becomes(&kubectl, &["pvc", "data"], ".status.phase", "Bound");
    kubectl.ok(&["delete", "pvc", "data"]);
    becomes(&kubectl, &["pv", "right"], ".status.phase", "Released");
    // A claim of the same name is another claim: what was kept is not given away.
    kubectl.ok_with(&["apply", "-f", "-"], &claim("data", ", storageClassName: hand"));
    becomes(&kubectl, &["pvc", "data"], ".spec.volumeName", "big");
    kubectl.ok_with(&["apply", "-f", "-"], &claim("huge", ", storageClassName: none"));
    kubectl.ok_with(&["apply", "-f", "-"], &pod("waits", "huge"));
    let why = "status.conditions[?(@.type==\"PodScheduled\")].message";
    becomes(&kubectl, &["pod", "waits"], &format!(".{why}"), "pod has unbound immediate PersistentVolumeClaims");
}

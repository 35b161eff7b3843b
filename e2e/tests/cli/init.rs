//! `twinstack init`, and a cluster that starts from what it wrote.

use e2e::{Kubectl, Process, run, twinstack, wait_for};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/init").join(name).join("input.yaml").display().to_string()
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder can be made")
}

/// `twinstack up` from a directory, in a folder of its own.
struct Up {
    process: Process,
    data: PathBuf,
    home: PathBuf,
}

impl Up {
    fn start(config: &Path, home: &Path) -> Self {
        let data = home.join("state");
        let (config, data_dir) = (config.display().to_string(), data.display().to_string());
        let words =
            ["up", "--config", &config, "--data-dir", &data_dir, "--secure-port=0", "--dns-port=0", "--nodes=0"];
        let process = Process::start(twinstack(), &words, &home.join("up.log"));
        let up = Self { process, data, home: home.to_owned() };
        let ready = wait_for(PATIENCE, || up.process.output().contains("Twinstack is up").then_some(()));
        assert!(ready.is_some(), "it did not come up:\n{}", up.process.output());
        up
    }

    fn kubectls(&self) -> Vec<Kubectl> {
        Kubectl::all(&self.data.join("admin.kubeconfig"), &self.home)
    }
}

#[test]
fn a_cluster_starts_from_the_kubeadm_sample_with_ipv6_first() {
    let folder = folder();
    let target = folder.path().join("lab");
    let output = run(&["init", "--config", &sample("kubeadm-v6v4"), "--output", &target.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let manifest = fs::read_to_string(target.join("manifests/kube-apiserver.yaml")).expect("a manifest");
    assert!(manifest.contains("--service-cluster-ip-range=fd00:1234::/110,10.96.0.0/12"), "{manifest}");

    let up = Up::start(&target, folder.path());
    for kubectl in up.kubectls() {
        let get = |what: &[&str], path: &str| {
            let mut words = vec!["get"];
            words.extend(what);
            let path = format!("-o=jsonpath={path}");
            words.push(&path);
            kubectl.ok(&words)
        };
        assert_eq!(get(&["service", "kubernetes"], "{.spec.clusterIP}"), "fd00:1234::1");
        assert_eq!(get(&["infrastructure", "cluster"], "{.status.platformStatus.type}"), "None");
        assert_eq!(get(&["infrastructure", "cluster"], "{.status.apiServerURL}"), "https://[fd00:90::2]:6443");
        assert_eq!(
            get(&["network.config.openshift.io", "cluster"], "{.status.clusterNetwork[*].cidr}"),
            "fd00:10:20::/72 10.20.0.0/16"
        );
        let controller = ["ingresscontroller", "default", "--namespace=openshift-ingress-operator"];
        assert_eq!(get(&controller, "{.spec.endpointPublishingStrategy.type}"), "HostNetwork");

        let name = format!("web-{}", kubectl.version.replace('.', "-"));
        kubectl.ok(&["create", "service", "clusterip", &name, "--tcp=80"]);
        assert_eq!(get(&["service", &name], "{.spec.ipFamilies[*]}"), "IPv6");
        let dual = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: dual-{name}}}\nspec: {{ipFamilyPolicy: RequireDualStack, ports: [{{port: 80}}]}}\n"
        );
        kubectl.ok_with(&["apply", "-f", "-"], &dual);
        assert_eq!(get(&["service", &format!("dual-{name}")], "{.spec.ipFamilies[*]}"), "IPv6 IPv4");
    }
}

#[test]
fn a_cluster_starts_from_an_install_config_and_starts_again() {
    let folder = folder();
    let target = folder.path().join("lab");
    let output = run(&["init", "--config", &sample("install-config-dual"), "--output", &target.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for round in ["first", "second"] {
        let mut up = Up::start(&target, folder.path());
        for kubectl in up.kubectls() {
            let path = "-o=jsonpath={.status.platformStatus.aws.ipFamily} {.status.platformStatus.aws.region}";
            let status = kubectl.ok(&["get", "infrastructure", "cluster", path]);
            assert_eq!(status, "DualStackIPv6Primary eu-west-1", "{round}");
            let path = "-o=jsonpath={.spec.endpointPublishingStrategy.loadBalancer.providerParameters.aws.type}";
            let balancer =
                kubectl.ok(&["get", "ingresscontroller", "default", "-n", "openshift-ingress-operator", path]);
            assert_eq!(balancer, "NLB");
            let path = "-o=jsonpath={.status.featureGates[0].enabled[*].name}";
            assert!(kubectl.ok(&["get", "featuregate", "cluster", path]).contains("AWSDualStackInstall"));
            assert_eq!(kubectl.ok(&["get", "service", "kubernetes", "-o=jsonpath={.spec.clusterIP}"]), "fd02::1");
            let refused = kubectl.fails(
                &["apply", "-f", "-"],
                "apiVersion: operator.openshift.io/v1\nkind: IngressController\nmetadata: {name: other, namespace: openshift-ingress-operator}\n\
                 spec: {endpointPublishingStrategy: {type: LoadBalancer}}\n",
            );
            assert!(refused.contains("LoadBalancerService"), "{refused}");
        }
        assert!(up.process.terminate(PATIENCE).is_some_and(|status| status.success()), "{}", up.process.output());
    }
}

#[test]
fn every_mistake_is_told_at_once_and_nothing_is_written() {
    let folder = folder();
    let file = folder.path().join("install-config.yaml");
    let config = "apiVersion: v1\nmetadata: {name: lab}\nbaseDomain: example.test\n\
                  platform: {aws: {region: eu-west-1, ipFamily: DualStackIPv4Primary, lbType: Classic}}\n\
                  networking: {serviceNetwork: [172.30.0.0/16]}\n";
    fs::write(&file, config).expect("the file can be written");
    let target = folder.path().join("lab");
    let output = run(&["init", "--config", &file.display().to_string(), "--output", &target.display().to_string()]);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{complaint}");
    for word in
        ["platform.aws.lbType", "Classic", "platform.aws.ipFamily", "AWSDualStackInstall", "networking.serviceNetwork"]
    {
        assert!(complaint.contains(word), "{word} is missing in\n{complaint}");
    }
    assert!(!target.exists());
    let output = run(&["init", "--config", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nowhere.yaml"), "{}", text(&output.stderr));
}

#[test]
fn a_dry_run_prints_all_but_keys_and_writes_nothing() {
    let folder = folder();
    let target = folder.path().join("lab");
    let output =
        run(&["init", "--config", &sample("kubeadm-v4v6"), "--output", &target.display().to_string(), "--dry-run"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for word in
        ["==> manifests/kube-apiserver.yaml <==", "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56", "==> admin.conf <=="]
    {
        assert!(shown.contains(word), "{word} is missing in\n{shown}");
    }
    assert!(!shown.contains("PRIVATE KEY") && !shown.contains("client-key-data"));
    assert!(!target.exists());
}

#[test]
fn a_directory_is_replaced_only_when_it_is_ours_and_force_is_given() {
    let folder = folder();
    let target = folder.path().join("lab").display().to_string();
    let config = sample("kubeadm-v6");
    let init = |more: &[&str]| run(&[&["init", "--config", &config, "--output", &target], more].concat());
    assert!(init(&[]).status.success());
    let again = init(&[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    assert!(init(&["--force"]).status.success());
    let output = run(&["up", "--nodes=0", "--config", &folder.path().display().to_string(), "--data-dir", &target]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("was not written by `twinstack init`"), "{}", text(&output.stderr));
}

use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client, Config, api::PostParams, config::Kubeconfig};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// An API server of its own; it ends with the value.
struct Cluster {
    server: Child,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(e2e::twinstack());
        command.args(["apiserver", "--secure-port=0", "--bind-address=127.0.0.1,::1"]);
        let data = format!("--data-dir={}", folder.path().display());
        let mut server = command.arg(data).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
        assert!(log.any(|line| line.unwrap().contains("API server is ready")), "the API server did not start");
        // Somebody has to read on, or the server waits when the pipe is full.
        std::thread::spawn(move || log.for_each(drop));
        Self { server, folder }
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.folder.path().join("admin.kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[tokio::test]
async fn a_service_gets_an_address_of_each_family() {
    let cluster = Cluster::start();
    let services: Api<Service> = Api::namespaced(cluster.client().await, "default");
    let spec = serde_json::json!({"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]});
    let wanted = serde_json::from_value(serde_json::json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    let made = services.create(&PostParams::default(), &wanted).await.unwrap();
    assert_eq!(made.spec.unwrap().cluster_ips.unwrap().len(), 2);
}

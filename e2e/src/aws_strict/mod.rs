//! An AWS for tests: moto behind a proxy that refuses what AWS refuses, answers what AWS answers, and lets things go wrong.
//!
//! `docs/guide/aws-testing.md` tells how to use it. The same rules for tests without processes are in `aws::memory`.

mod call;
mod counts;
mod describe;
mod dns;
mod example;
mod faults;
mod moto;
mod policy;
mod refusal;
mod rules;
mod server;
mod xml;

pub use call::{ASIDE, Api};
pub use counts::{Made, excess};
pub use example::Example;
pub use faults::Fault;
pub use policy::{DocumentedPolicy, documented_actions};
pub use xml::Element;

use ::dns::wire::{
    Message, Name,
    code::{rcode, rtype},
};
use bytes::Bytes;
use call::{Call, Params};
use faults::Faults;
use moto::{Moto, Running, plain, understood};
use policy::Policy;
use refusal::{Answer, Refusal};
use rules::{Kept, World};
use server::ServerState;
use std::{
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};
use tokio::runtime::Runtime;

/// A running AWS. It ends with the handle.
pub struct Strict {
    shared: Arc<ServerState>,
    address: SocketAddr,
    moto: SocketAddr,
    dns: [SocketAddr; 2],
    runtime: Option<Runtime>,
    /// Here and not in a task, so that it ends with the handle whatever becomes of tasks.
    _moto: Running,
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsFailure {
    /// HTTP status.
    pub status: u16,
    /// AWS's code, or nothing.
    pub code: String,
    /// The whole answer.
    pub body: String,
}

/// Through which door a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The proxy: counted, with faults.
    Strict,
    /// moto alone.
    Moto,
}

impl Strict {
    /// Starts moto and the proxy on free ports of loopback; `None` when the machine has no moto, which is noted.
    pub fn start() -> Option<Self> {
        let (moto, running) = Moto::start()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let moto_address = moto.address();
        let world = World { moto, region: "us-east-1".to_owned(), kept: Kept::default() };
        let shared = Arc::new(ServerState { world: world.into(), faults: Faults::default().into() });
        let (address, dns) = runtime.block_on_elsewhere({
            let shared = Arc::clone(&shared);
            async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
                let address = listener.local_addr().expect("it has an address");
                let (v4, v6) = both_families().await;
                let dns = [&v4, &v6].map(|socket| socket.local_addr().expect("it has an address"));
                let handle = tokio::runtime::Handle::current();
                handle.spawn(server::run(listener, Arc::clone(&shared)));
                handle.spawn(dns::run(v4, Arc::clone(&shared)));
                handle.spawn(dns::run(v6, shared));
                (address, dns)
            }
        });
        Some(Self { shared, address, moto: moto_address, dns, runtime: Some(runtime), _moto: running })
    }

    /// Where the APIs are.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where DNS is asked over UDP: of each family.
    pub fn dns(&self) -> [SocketAddr; 2] {
        self.dns
    }

    /// What a program needs in its environment to take this for AWS.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.url()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }

    /// What a cloud-config needs to take this for AWS.
    pub fn overrides(&self) -> String {
        let services = ["EC2", "Elastic Load Balancing", "Elastic Load Balancing v2", "Route 53"].into_iter();
        let section = |(index, service): (usize, &str)| {
            let url = self.url();
            format!(
                "[ServiceOverride \"{index}\"]\nService = {service}\nRegion = us-east-1\nURL = {url}\nSigningRegion = us-east-1\n"
            )
        };
        services.enumerate().map(section).collect()
    }

    /// Everything is as it was at the start.
    pub fn reset(&self) {
        let (shared, address) = (Arc::clone(&self.shared), self.moto);
        self.wait(async move {
            let mut world = shared.world.lock().await;
            let reset = Call::read(http::Method::POST, "/moto-api/reset", http::HeaderMap::new(), Bytes::new());
            let answer = moto::send(&moto::client(), address, &reset).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            world.kept = Kept::default();
            shared.faults.lock().forget();
        });
    }

    /// Groups and target groups of what is deleted stay in use for so many attempts, as with AWS for minutes.
    pub fn linger(&self, attempts: u32) {
        let shared = Arc::clone(&self.shared);
        self.wait(async move { shared.world.lock().await.kept.lingers = attempts });
    }

    /// Gives a thing another id or ARN, by which it is known from now on.
    pub fn nickname(&self, nickname: &str, own: &str) {
        let shared = Arc::clone(&self.shared);
        let (nickname, own) = (nickname.to_owned(), own.to_owned());
        self.wait(async move { shared.world.lock().await.kept.nicknames.insert(nickname, own) });
    }

    /// Calls meet a fault: `times` of them after `after` others, counted from now on. With `action` only those count.
    pub fn inject(&self, action: Option<&str>, after: usize, times: usize, fault: Fault) {
        self.shared.faults.lock().inject(action, after, times, fault);
    }

    /// From now on callers may do what the documented policy allows to a cluster in a VPC, and nothing else.
    pub fn obey_policy(&self, cluster: &str, vpc: &str) {
        let shared = Arc::clone(&self.shared);
        let cluster = cluster.to_owned();
        let vpc = vpc.to_owned();
        self.wait(async move {
            let mut world = shared.world.lock().await;
            let vpc = world.kept.nicknames.get(&vpc).cloned().unwrap_or(vpc);
            world.kept.policy = Some(Policy::documented(DocumentedPolicy::CloudControllerManager, &cluster, &vpc));
        });
    }

    /// From now on callers may do everything.
    pub fn forget_policy(&self) {
        let shared = Arc::clone(&self.shared);
        self.wait(async move { shared.world.lock().await.kept.policy = None });
    }

    /// What the policy did not allow so far; counting begins anew.
    pub fn take_denials(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.faults.lock().denials)
    }

    /// Takes these permissions away, such as `CreateRoute`, until others are.
    pub fn deny(&self, actions: &[&str]) {
        self.shared.faults.lock().deny(actions);
    }

    /// Takes the fault away, and a crash with it; says how many calls met it.
    pub fn mend(&self) -> usize {
        self.shared.faults.lock().mend()
    }

    /// Whether a caller has been killed: [`Fault::Kill`] was met and not mended.
    pub fn killed(&self) -> bool {
        self.shared.faults.lock().killed()
    }

    /// The calls so far; counting begins anew.
    pub fn take_calls(&self) -> Vec<Made> {
        self.shared.faults.lock().take_calls()
    }

    /// Asks a query API over HTTP, as a client does.
    pub fn ask(
        &self,
        through: Through,
        api: Api,
        action: &str,
        params: &[(&str, &str)],
    ) -> Result<Element, AwsFailure> {
        let (version, _) = api.version_and_scope();
        let mut all = Params::new(&[("Action", action), ("Version", version)]);
        all.0.extend(Params::new(params).0);
        self.send(through, plain(api, "us-east-1", action, "/", all.write().into()))
    }

    /// Asks Route 53 over HTTP; an empty body makes it a GET.
    pub fn route53(&self, through: Through, path: &str, body: &str) -> Result<Element, AwsFailure> {
        self.send(through, plain(Api::Route53, "us-east-1", "", path, Bytes::copy_from_slice(body.as_bytes())))
    }

    /// Takes on a role, which moto takes for one of the account in its ARN; the id of its access key.
    pub fn take_on(&self, role: &str) -> String {
        let form =
            [("Action", "AssumeRole"), ("Version", "2011-06-15"), ("RoleArn", role), ("RoleSessionName", "test")];
        let call = plain(Api::Ec2, "us-east-1", "AssumeRole", "/", Params::new(&form).write().into());
        let call = signed(call, "/ec2/", "/sts/");
        let taken = self.send(Through::Moto, call).unwrap_or_else(|failure| panic!("{}", failure.body));
        taken.text("AssumeRoleResult/Credentials/AccessKeyId").to_owned()
    }

    /// As [`Self::route53`] through moto alone, with the id of an access key.
    pub fn route53_as(&self, key: &str, path: &str, body: &str) -> Result<Element, AwsFailure> {
        let call = plain(Api::Route53, "us-east-1", "", path, Bytes::copy_from_slice(body.as_bytes()));
        self.send(Through::Moto, signed(call, "Credential=strict/", &format!("Credential={key}/")))
    }

    /// Asks a JSON API over HTTP; the answer is its text.
    pub fn json(&self, target: &str, body: &str) -> String {
        let call = plain(Api::Other, "us-east-1", target, "/", Bytes::copy_from_slice(body.as_bytes()));
        self.answer(Through::Moto, call).text()
    }

    /// Looks at what there is, through the rules but neither counted nor disturbed.
    pub fn look(&self, api: Api, action: &str, params: &[(&str, &str)]) -> Result<Element, AwsFailure> {
        let (version, _) = api.version_and_scope();
        let mut all = Params::new(&[("Action", action), ("Version", version)]);
        all.0.extend(Params::new(params).0);
        let call = plain(api, "us-east-1", action, "/", all.write().into());
        let shared = Arc::clone(&self.shared);
        let answer = self.wait(async move { shared.world.lock().await.answer(&call).await });
        understood(answer).map_err(failure)
    }

    /// What there is of load balancers and security groups, as text that is the same for two accounts that hold the same.
    pub fn describe(&self) -> String {
        describe::describe(self)
    }

    fn send(&self, through: Through, call: Call) -> Result<Element, AwsFailure> {
        understood(self.answer(through, call)).map_err(failure)
    }

    fn answer(&self, through: Through, call: Call) -> Answer {
        let address = match through {
            Through::Strict => self.address,
            Through::Moto => self.moto,
        };
        self.wait(async move { moto::send(&moto::client(), address, &call).await })
    }

    /// Asks DNS over UDP; the answers as text, CNAMEs too. `Err` has the response code.
    pub fn resolve(&self, server: SocketAddr, name: &str, kind: &str) -> Result<Vec<String>, String> {
        let socket = UdpSocket::bind(if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" })
            .map_err(|error| error.to_string())?;
        socket.set_read_timeout(Some(Duration::from_secs(20))).map_err(|error| error.to_string())?;
        let name = Name::parse(name).map_err(|error| error.to_string())?;
        let mut packet = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
        packet.extend_from_slice(name.wire());
        packet.extend(rtype::number(kind).ok_or("no such type")?.to_be_bytes());
        packet.extend(1_u16.to_be_bytes());
        socket.send_to(&packet, server).map_err(|error| error.to_string())?;
        let mut buffer = [0; 1500];
        let (length, _) = socket.recv_from(&mut buffer).map_err(|error| error.to_string())?;
        let message = Message::parse(&buffer[..length]).map_err(|_| "malformed".to_owned())?;
        match message.rcode {
            rcode::NOERROR => Ok(message.answer().iter().map(::dns::wire::Record::data_text).collect()),
            code => Err(rcode::text(code)),
        }
    }

    /// Waits for a future on a runtime of its own, also from inside another one.
    pub fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.as_ref().expect("it runs as long as the handle is there").block_on_elsewhere(future)
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A test may end inside a runtime of its own, where waiting for this one is not allowed.
            runtime.shutdown_background();
        }
    }
}

/// Waiting for a future on its own runtime, also from inside another one.
trait BlockOnElsewhere {
    fn block_on_elsewhere<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T;
}

impl BlockOnElsewhere for Runtime {
    fn block_on_elsewhere<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.spawn(async move {
            let _ = sender.send(future.await);
        });
        receiver.recv().expect("the task ends with an answer")
    }
}

/// The same call with something else in its signature, which moto does not look at but for whose it is and for what.
fn signed(mut call: Call, old: &str, new: &str) -> Call {
    let text = call.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if let Ok(value) = text.replace(old, new).parse() {
        call.headers.insert("authorization", value);
    }
    Call::read(call.method, &call.path, call.headers, call.body)
}

fn failure(refusal: Refusal) -> AwsFailure {
    let Refusal::Theirs(answer) = refusal else { unreachable!("an answer has come") };
    let body = answer.text();
    let code = Element::parse(&body).map(|element| {
        let paths = ["Error/Code", "Errors/Error/Code"];
        paths.map(|path| element.text(path).to_owned()).concat()
    });
    AwsFailure { status: answer.status, code: code.unwrap_or_default(), body }
}

/// A port that is free on both loopbacks.
async fn both_families() -> (tokio::net::UdpSocket, tokio::net::UdpSocket) {
    for _ in 0..50 {
        let v4 = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a port is free");
        let port = v4.local_addr().expect("it has an address").port();
        if let Ok(v6) = tokio::net::UdpSocket::bind(("::1", port)).await {
            return (v4, v6);
        }
    }
    panic!("no port is free on both loopbacks")
}

//! The writes of a pass, one function for each sort of object. Called by `reconcile`, in its order.

use super::{
    OperatorOptions, default_certificate,
    names::CONFIG_NAMESPACE,
    names::{self, AUTO_DELETE, OPERAND_NAMESPACE},
    plan::{
        Input, balancer, change, class, deployment, environment, generated_hosts, live, progress, record, services,
        small,
    },
    reconcile::Controllers,
};
use api::config::PublishingKind;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret, Service},
    networking::v1::IngressClass,
    policy::v1::PodDisruptionBudget,
};
use kube::{ResourceExt, api::PostParams};
use runtime::{
    client::Api,
    controller::{Key, Result, reference},
    operator::discovery::{MUTATING_POLICY, NETWORK_POLICY, SERVICE_MONITOR},
    pki::{Authority, Purpose},
};
use serde_json::Value;
use std::{sync::Arc, time::SystemTime};

impl Controllers {
    /// Namespace, account and roles: nothing goes without them.
    pub(super) async fn base(&self) -> Result<()> {
        let role = small::role(self.options.secrets);
        for wanted in [role, small::namespace(), small::account(), small::binding(), small::service_ca()] {
            self.children.ensure(wanted).await?;
        }
        if self.discovery.served().has(MUTATING_POLICY) {
            for wanted in generated_hosts::wanted() {
                self.children.ensure(wanted).await?;
            }
        }
        Ok(())
    }

    /// Brings what the administrator keeps in `openshift-config` to where routers can read it; what is named no more goes.
    pub(super) async fn copies(&self, input: Input<'_>) -> Result<()> {
        let sources: Api<ConfigMap> = Api::namespaced(self.client.clone(), CONFIG_NAMESPACE);
        let beside: Api<ConfigMap> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        let wanted = small::copies(input);
        for copy in &wanted {
            let Some(source) = sources.get_opt(copy.source).await? else {
                let (field, name) = (copy.field, copy.source);
                return Err(format!(
                    "{field}: there is no ConfigMap {CONFIG_NAMESPACE}/{name}; routers stay as they are"
                )
                .into());
            };
            let has = |key: &str| source.data.as_ref().is_some_and(|data| data.contains_key(key));
            if copy.path == environment::CLIENT_CA && !has(environment::CLIENT_CA_FILE) {
                let (field, name, key) = (copy.field, copy.source, environment::CLIENT_CA_FILE);
                return Err(format!("{field}: the ConfigMap {CONFIG_NAMESPACE}/{name} has no key {key}").into());
            }
            let (data, binary) = (serde_json::to_value(source.data)?, serde_json::to_value(source.binary_data)?);
            self.children.ensure(small::copy(input, *copy, &data, &binary)).await?;
        }
        for name in [&input.names.client_ca, &input.names.error_pages] {
            let unused = !wanted.iter().any(|copy| copy.name == name);
            if unused && beside.get_opt(name).await?.is_some() {
                self.children.delete::<ConfigMap>(Some(OPERAND_NAMESPACE), name).await?;
            }
        }
        Ok(())
    }

    /// The IngressClass. One of our name that leads elsewhere stays as it is.
    pub(super) async fn class(&self, input: Input<'_>) -> Result<()> {
        let classes: Api<IngressClass> = Api::all(self.client.clone());
        let name = &input.names.class;
        let live = classes.get_opt(name).await?;
        if live.as_ref().is_some_and(|live| class::is_foreign(live, &input.names.controller)) {
            return Err(format!("{name} is there and leads elsewhere: it is somebody else's and stays as it is").into());
        }
        self.children.ensure(class::wanted(input)).await.map(drop)
    }

    /// What Prometheus asks, where the API has such objects.
    pub(super) async fn monitor(&self, input: Input<'_>) -> Result<()> {
        if !self.discovery.served().has(SERVICE_MONITOR) || self.options.process.is_some() {
            return Ok(());
        }
        self.children.ensure(small::monitor(input)).await.map(drop)
    }

    /// Sees to the default certificate and the password for statistics; what there is to say against a certificate that somebody has given.
    pub(super) async fn certificate(&self, input: Input<'_>) -> Result<Option<String>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        let password = || Ok(small::stats(input, &password()?));
        self.children.create_once::<Secret>(Some(OPERAND_NAMESPACE), &input.names.stats, password).await?;
        let given = input.controller.spec.default_certificate.as_ref().map(|some| some.name.as_str());
        let Some(given) = given.filter(|name| !name.is_empty()) else {
            return self.own_certificate(&secrets, input).await.map(|()| None);
        };
        let at = format!("spec.defaultCertificate: the Secret {OPERAND_NAMESPACE}/{given}");
        let Some(secret) = secrets.get_opt(given).await? else {
            return Err(format!("{at} is not there; routers stay as they are").into());
        };
        let data = secret.data.unwrap_or_default();
        if let Some(missing) = ["tls.crt", "tls.key"].into_iter().find(|key| !data.contains_key(*key)) {
            return Err(format!("{at} has no {missing}; routers stay as they are").into());
        }
        let is_old = data.get("tls.crt").is_some_and(|chain| default_certificate::has_only_a_common_name(&chain.0));
        Ok(is_old.then(|| format!("{at} names its host as common name alone, without a subject alternative name.")))
    }

    /// Shows clients whom to trust: the chain of the default certificate, of which the last one is the authority.
    pub(super) async fn publish_certificate(&self, input: Input<'_>) -> Result<()> {
        if input.names.controller != names::DEFAULT {
            return Ok(());
        }
        let given = input.controller.spec.default_certificate.as_ref().map(|some| &some.name);
        let name = given.filter(|name| !name.is_empty()).unwrap_or(&input.names.certificate);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        let data = secrets.get_opt(name).await?.and_then(|secret| secret.data).unwrap_or_default();
        let Some(chain) = data.get("tls.crt").map(|chain| String::from_utf8_lossy(&chain.0)) else { return Ok(()) };
        for wanted in small::published_certificate(&chain) {
            self.children.ensure(wanted).await?;
        }
        Ok(())
    }

    /// The one that is made here, anew before it ends.
    async fn own_certificate(&self, secrets: &Api<Secret>, input: Input<'_>) -> Result<()> {
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let make = || -> Result<Value> {
            let purpose =
                Purpose::Serving { names: vec![format!("*.{}", input.admission.domain)], addresses: Vec::new() };
            let authority = Authority::create("ingress-operator", now)?;
            let identity = authority.issue(&purpose, now)?;
            let chain = format!("{}{}", identity.chain_pem(), authority.certificate_pem());
            Ok(small::certificate(input, &chain, identity.key_pem().expose()))
        };
        let name = &input.names.certificate;
        let Some(known) = secrets.get_opt(name).await? else {
            return self.children.create_once::<Secret>(Some(OPERAND_NAMESPACE), name, make).await;
        };
        let ours = known.labels().get(names::OWNING) == Some(&input.names.controller);
        let chain = known.data.as_ref().and_then(|data| data.get("tls.crt")).map(|chain| chain.0.as_slice());
        let ends =
            default_certificate::wants_renewal(chain.unwrap_or_default(), seconds.try_into().unwrap_or(i64::MAX));
        if ours && ends {
            let mut new: Secret = objects::from_value(&make()?)?;
            new.metadata.resource_version = known.resource_version();
            secrets.replace(name, &PostParams::default(), &new).await?;
            tracing::info!(secret = name, "the default certificate has been made anew");
        }
        Ok(())
    }

    pub(super) async fn operand(&self, input: Input<'_>, live: Option<&Service>) -> Result<()> {
        if let Some(process) = &self.options.process {
            return self.processes.run(&self.client, process, input, live).await;
        }
        let mut wanted = deployment::wanted(input, live, &self.options.image)?;
        let known = self.deployments.get(&Key::new(OPERAND_NAMESPACE, &input.names.router));
        if let Some(known) = &known {
            deployment::keep_timeouts(&mut wanted, known);
        }
        self.children.keep(&self.deployments, wanted).await.map(drop)
    }

    pub(super) fn service(&self, name: &str) -> Option<Arc<Service>> {
        self.services.get(&Key::new(OPERAND_NAMESPACE, name))
    }

    pub(super) async fn balancer(&self, input: Input<'_>) -> Result<()> {
        let name = &input.names.router;
        let known = self.service(name);
        if known.as_ref().is_some_and(|known| !live::is_owned(known, &input.names.controller)) {
            let wants = input.admission.strategy.kind == PublishingKind::LoadBalancerService;
            return match wants {
                true => Err(format!(
                    "{OPERAND_NAMESPACE}/{name} is there without the label {}={}: it is somebody else's and stays as it is",
                    names::OWNING, input.names.controller
                )
                .into()),
                false => Ok(()),
            };
        }
        let Some(wanted) = balancer::wanted(input, known.as_deref()) else {
            return match known {
                Some(known) => self.delete_service(&known).await,
                None => Ok(()),
            };
        };
        let Some(known) = known else {
            let owner = self.deployments.get(&Key::new(OPERAND_NAMESPACE, name)).and_then(|one| one.uid());
            let new = balancer::owned_by(wanted, owner.as_deref().map(|uid| (name.as_str(), uid)));
            return self.create_service(&process_service(&self.options, new)).await;
        };
        if known.metadata.deletion_timestamp.is_some() {
            // Made anew when it is gone.
            return Ok(());
        }
        let found = progress::differences(input, &known);
        let stuck = found.iter().any(|difference| !progress::changes_in_place(input, difference));
        if stuck && live::auto_deletes(input) {
            let reasons: Vec<String> = found.iter().map(|difference| progress::summary(input, difference)).collect();
            let note = format!("{OPERAND_NAMESPACE}/{name} is replaced, as {AUTO_DELETE} asks: {}", reasons.join("; "));
            self.events.normal(&reference(input.controller), "ReplacedLoadBalancer", note).await;
            return self.delete_service(&known).await;
        }
        match change::update(input, &known, &wanted) {
            Some(new) => self.replace_service(&new).await,
            None => Ok(()),
        }
    }

    pub(super) async fn delete_service(&self, known: &Arc<Service>) -> Result<()> {
        if self.children.delete::<Service>(Some(OPERAND_NAMESPACE), &known.name_any()).await? {
            self.services.forget(known);
        }
        Ok(())
    }

    fn services_api(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), OPERAND_NAMESPACE)
    }

    async fn create_service(&self, new: &Service) -> Result<()> {
        self.services.remember(self.services_api().create(&PostParams::default(), new).await?);
        Ok(())
    }

    /// Writes a Service that was computed from the live one.
    async fn replace_service(&self, new: &Service) -> Result<()> {
        let answer = self.services_api().replace(&new.name_any(), &PostParams::default(), new).await?;
        self.services.remember(answer);
        Ok(())
    }

    pub(super) async fn plain(&self, input: Input<'_>, name: &str, wanted: Option<Service>) -> Result<()> {
        let known = self.service(name);
        let foreign = known.as_ref().is_some_and(|known| !live::is_owned(known, &input.names.controller));
        let (wanted, known) = match (wanted, known) {
            (Some(_), Some(_)) if foreign => {
                return Err(format!("{OPERAND_NAMESPACE}/{name} is somebody else's").into());
            }
            (None, Some(known)) if !foreign => return self.delete_service(&known).await,
            (None, _) => return Ok(()),
            (Some(wanted), known) => (process_service(&self.options, wanted), known),
        };
        match known {
            None => self.create_service(&wanted).await,
            Some(known) if known.metadata.deletion_timestamp.is_some() => Ok(()),
            Some(known) => match services::update(&known, &wanted) {
                Some(new) => self.replace_service(&new).await,
                None => Ok(()),
            },
        }
    }

    pub(super) async fn record(&self, input: Input<'_>, live: Option<&Service>) -> Result<()> {
        let Some(wanted) = record::wanted(input, live) else { return Ok(()) };
        self.children.keep(&self.records, serde_json::to_value(wanted)?).await.map(drop)
    }

    pub(super) async fn budget(&self, input: Input<'_>) -> Result<()> {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        match small::budget(input).filter(|_| self.options.process.is_none()) {
            Some(wanted) => self.children.ensure(wanted).await.map(drop),
            None if budgets.get_opt(&input.names.router).await?.is_some() => self
                .children
                .delete::<PodDisruptionBudget>(Some(OPERAND_NAMESPACE), &input.names.router)
                .await
                .map(drop),
            None => Ok(()),
        }
    }

    pub(super) async fn network_policies(&self, input: Input<'_>) -> Result<()> {
        if !self.discovery.served().has(NETWORK_POLICY) || self.options.process.is_some() {
            return Ok(());
        }
        for policy in small::policies(input) {
            self.children.ensure(policy).await?;
        }
        Ok(())
    }
}

/// Services of routers that are processes have no Pods to select.
fn process_service(options: &OperatorOptions, mut service: Service) -> Service {
    if let (Some(process), Some(spec)) = (&options.process, &mut service.spec) {
        spec.selector = None;
        spec.load_balancer_class
            .clone_from(&process.load_balancer_class.clone().filter(|_| spec.type_.as_deref() == Some("LoadBalancer")));
    }
    service
}

fn password() -> Result<String> {
    let mut bytes = [0_u8; 18];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

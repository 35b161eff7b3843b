//! The writes of a pass, one function for each sort of object. Called by `reconcile`, in its order.

use super::{
    Options, apply,
    names::{self, AUTO_DELETE, OPERAND_NAMESPACE, OPERATOR_NAMESPACE},
    objects::DnsRecord,
    plan::{Input, balancer, change, deployment, live, progress, record, services, small},
    reconcile::Controllers,
};
use api::config::PublishingKind;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, ResourceExt};
use runtime::{
    controller::{Key, Result},
    pki::{Authority, Purpose},
};
use std::{sync::Arc, time::SystemTime};

impl Controllers {
    /// Namespace, account and roles: nothing goes without them.
    pub(super) async fn base(&self, _input: Input<'_>) -> Result<()> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        apply::ensure(&roles, small::role()).await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        apply::ensure(&namespaces, small::namespace()).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        apply::ensure(&accounts, small::account()).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        apply::ensure(&bindings, small::binding()).await
    }

    pub(super) async fn certificate(&self, input: Input<'_>) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        let given = input.controller.spec.default_certificate.as_ref().is_some_and(|some| !some.name.is_empty());
        if !given {
            let name = format!("*.{}", input.admission.domain);
            let make = || {
                let now = SystemTime::now();
                let purpose = Purpose::Serving { names: vec![name], addresses: Vec::new() };
                let identity = Authority::create("ingress-operator", now)?.issue(&purpose, now)?;
                Ok(small::certificate(input, identity.chain_pem(), identity.key_pem().expose()))
            };
            apply::create_once(&secrets, &input.names.certificate, make).await?;
        }
        let password = || Ok(small::stats(input, &password()?));
        apply::create_once(&secrets, &input.names.stats, password).await
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
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        if let Some(written) = apply::put(&api, known.as_deref(), wanted).await? {
            self.deployments.remember(written);
        }
        Ok(())
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
            return apply::create_service(&self.client, &self.services, &process_service(&self.options, new)).await;
        };
        if known.metadata.deletion_timestamp.is_some() {
            // Made anew when it is gone.
            return Ok(());
        }
        let found = progress::differences(input, &known);
        let stuck = found.iter().any(|difference| !progress::changes_in_place(input, difference));
        if stuck && live::auto_deletes(input) {
            tracing::info!(service = name, annotation = AUTO_DELETE, "the load balancer Service is replaced");
            return self.delete_service(&known).await;
        }
        match change::update(input, &known, &wanted) {
            Some(new) => apply::replace_service(&self.client, &self.services, &new).await,
            None => Ok(()),
        }
    }

    pub(super) async fn delete_service(&self, known: &Arc<Service>) -> Result<()> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        if apply::delete(&api, &known.name_any()).await? {
            self.services.forget(known);
        }
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
            None => apply::create_service(&self.client, &self.services, &wanted).await,
            Some(known) if known.metadata.deletion_timestamp.is_some() => Ok(()),
            Some(known) => match services::update(&known, &wanted) {
                Some(new) => apply::replace_service(&self.client, &self.services, &new).await,
                None => Ok(()),
            },
        }
    }

    pub(super) async fn record(&self, input: Input<'_>, live: Option<&Service>) -> Result<()> {
        let Some(wanted) = record::wanted(input, live) else { return Ok(()) };
        let known = self.records.get(&Key::new(OPERATOR_NAMESPACE, &input.names.record));
        let api: Api<DnsRecord> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        if let Some(written) = apply::put(&api, known.as_deref(), serde_json::to_value(wanted)?).await? {
            self.records.remember(written);
        }
        Ok(())
    }

    pub(super) async fn budget(&self, input: Input<'_>) -> Result<()> {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        match small::budget(input).filter(|_| self.options.process.is_none()) {
            Some(wanted) => apply::ensure(&budgets, wanted).await,
            None if budgets.get_opt(&input.names.router).await?.is_some() => {
                apply::delete(&budgets, &input.names.router).await.map(drop)
            }
            None => Ok(()),
        }
    }

    pub(super) async fn network_policies(&self, input: Input<'_>) -> Result<()> {
        if !self.policies || self.options.process.is_some() {
            return Ok(());
        }
        let policies: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), OPERAND_NAMESPACE);
        for policy in small::policies(input) {
            apply::ensure(&policies, policy).await?;
        }
        Ok(())
    }
}

/// Services of routers that are processes have no Pods to select.
fn process_service(options: &Options, mut service: Service) -> Service {
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

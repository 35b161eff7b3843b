//! Which provider makes the load balancer of a Service: by class, or the one for Services without a class.

use k8s_openapi::api::core::v1::Service;
use runtime::cloud::{CloudProvider, LoadBalancers};
use std::{collections::BTreeMap, fmt, ops::Deref, sync::Arc};

/// A provider that is shared and shows its name.
#[derive(Clone)]
pub struct Provider(Arc<dyn CloudProvider>);

impl Provider {
    /// Shares a provider.
    pub fn new(provider: impl CloudProvider + 'static) -> Self {
        Self(Arc::new(provider))
    }

    /// One that others hold too.
    pub fn shared(provider: Arc<dyn CloudProvider>) -> Self {
        Self(provider)
    }

    /// For others to hold.
    #[must_use]
    pub fn share(&self) -> Arc<dyn CloudProvider> {
        Arc::clone(&self.0)
    }
}

impl Deref for Provider {
    type Target = dyn CloudProvider;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// The providers that are there.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    /// For Services without a class: `--cloud-provider`.
    pub default: Option<Provider>,
    /// By `spec.loadBalancerClass`.
    pub by_class: BTreeMap<String, Provider>,
}

impl Providers {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.by_class.is_empty()
    }

    /// All of them; one that has several roles comes several times.
    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.default.iter().chain(self.by_class.values())
    }

    /// Who makes the load balancer that this Service wants, if it wants one of ours.
    #[must_use]
    pub fn wanted_by(&self, service: &Service) -> Option<&dyn LoadBalancers> {
        let spec = service.spec.as_ref()?;
        let wants = spec.type_.as_deref() == Some("LoadBalancer") && service.metadata.deletion_timestamp.is_none();
        if !wants {
            return None;
        }
        self.of_class(spec.load_balancer_class.as_deref())?.load_balancers()
    }

    /// Whether a class is named that is somebody else's.
    #[must_use]
    pub fn is_foreign(&self, service: &Service) -> bool {
        let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
        class.is_some_and(|class| !self.by_class.contains_key(class))
    }

    fn of_class(&self, class: Option<&str>) -> Option<&Provider> {
        match class {
            None => self.default.as_ref(),
            Some(class) => self.by_class.get(class),
        }
    }
}

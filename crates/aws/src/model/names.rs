//! Names and tags of what is made here, as upstream gives them, so that what upstream made is recognised.

use crate::account::Tags;
use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use net::Family;

/// Tag of everything that belongs to a Service: `namespace/name`.
pub const SERVICE_TAG: &str = "kubernetes.io/service-name";
/// The old tag of the cluster.
pub const LEGACY_TAG: &str = "KubernetesCluster";
/// Begins the key of the tag of the cluster.
pub const CLUSTER_TAG: &str = "kubernetes.io/cluster/";
/// Tag that tells clusters with one id apart: the UID of `kube-system`, which no other cluster has.
pub const IDENTITY_TAG: &str = "twinstack.dev/cluster-uid";
/// What the group that all load balancers have says of itself.
pub const BACKEND_DESCRIPTION: &str = "[k8s] Shared backend SecurityGroup for LoadBalancers";
/// What a managed group says of itself.
pub const GROUP_DESCRIPTION: &str = "[k8s] Managed SecurityGroup for LoadBalancer";

/// Whose load balancer it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
    /// The Service's UID.
    pub uid: String,
}

impl Owner {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Name of the load balancer, of either kind: `a` and the UID.
    pub fn load_balancer(&self) -> String {
        let mut name = format!("a{}", self.uid.replace('-', ""));
        name.truncate(name.floor_char_boundary(32));
        name
    }

    /// Name of the managed group of a network load balancer.
    pub fn network_group(&self, cluster: &str) -> String {
        let whole = format!("{cluster}{}{}{}", self.name, self.namespace, self.uid);
        format!("k8s-{}-{}-{}", short(&self.namespace), short(&self.name), hash(&SHA256, &whole))
    }

    /// Name of the group of a classic load balancer.
    pub fn classic_group(&self) -> String {
        format!("k8s-elb-{}", self.load_balancer())
    }

    /// What the names of all its target groups, and of its managed group, begin with.
    pub fn target_group_prefix(&self) -> String {
        format!("k8s-{}-{}-", short(&self.namespace), short(&self.name))
    }

    /// Whether a security group, or a target group, has a name that one of this Service could have, whatever its UID.
    pub fn could_have_made(&self, name: &str) -> bool {
        let hash = name.strip_prefix(&self.target_group_prefix());
        let is_hash = |text: &str| text.len() == 10 && text.chars().all(|c| c.is_ascii_hexdigit());
        hash.is_some_and(is_hash) || name.starts_with("k8s-elb-a")
    }

    pub fn target_group(&self, cluster_id: &str, group: &TargetGroupName<'_>) -> String {
        let TargetGroupName { service_port, node_port, protocol, check_protocol, check_interval, family } = group;
        let family = match family {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        };
        let whole = format!(
            "{cluster_id}{}{}{service_port}{node_port}{protocol}instance{check_protocol}{check_interval}{family}",
            self.namespace, self.name
        );
        format!("{}{}", self.target_group_prefix(), hash(&SHA1_FOR_LEGACY_USE_ONLY, &whole))
    }
}

/// What the name of a target group is made of, beside its Service.
#[derive(Clone, Debug)]
pub struct TargetGroupName<'a> {
    pub service_port: u16,
    pub node_port: u16,
    /// Protocol towards the nodes.
    pub protocol: &'a str,
    /// Protocol of the health check.
    pub check_protocol: &'a str,
    /// Seconds between health checks.
    pub check_interval: i32,
    /// Family of its targets.
    pub family: Family,
}

/// Up to eight letters and digits.
fn short(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

fn hash(algorithm: &'static Algorithm, text: &str) -> String {
    let hex: String = digest(algorithm, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..10].to_owned()
}

/// The cluster that things are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its id, as in its tags.
    pub id: String,
    /// `--cluster-name`, part of the names of groups.
    pub name: String,
    pub vpc: String,
    /// Whether the old tag is written too.
    pub legacy_tag: bool,
    /// The UID of its namespace `kube-system`, where that is known.
    pub uid: Option<String>,
}

impl Cluster {
    /// The key of its tag.
    pub fn tag(&self) -> String {
        format!("{CLUSTER_TAG}{}", self.id)
    }

    /// Tags of what belongs to a Service; they win over the user's.
    pub fn tags(&self, owner: &Owner, user: &Tags) -> Tags {
        let mut tags = self.own_tags(user);
        tags.insert(SERVICE_TAG.to_owned(), owner.key());
        tags
    }

    /// Tags of what belongs to the whole cluster.
    pub fn own_tags(&self, user: &Tags) -> Tags {
        let mut tags = user.clone();
        tags.insert(self.tag(), "owned".to_owned());
        if self.legacy_tag {
            tags.insert(LEGACY_TAG.to_owned(), self.id.clone());
        }
        match &self.uid {
            Some(uid) => tags.insert(IDENTITY_TAG.to_owned(), uid.clone()),
            None => tags.remove(IDENTITY_TAG),
        };
        tags
    }

    /// Name of the group that its load balancers have in common, so that nodes let them all in by the same rules.
    pub fn backend_group(&self) -> String {
        let whole = format!("{}{}", self.id, self.uid.as_deref().unwrap_or_default());
        format!("k8s-backend-{}-{}", short(&self.id), hash(&SHA256, &whole))
    }

    /// Whether tags say that something was made for this cluster.
    pub fn owns(&self, tags: &Tags) -> bool {
        self.is_named(tags) && !self.is_twins(tags)
    }

    /// Whether tags have this cluster's id as the owner's.
    fn is_named(&self, tags: &Tags) -> bool {
        tags.get(&self.tag()).is_some_and(|value| value == "owned")
            || tags.get(LEGACY_TAG).is_some_and(|value| *value == self.id)
    }

    /// Whether tags say that something is of another cluster, whatever its id.
    pub fn is_twins(&self, tags: &Tags) -> bool {
        self.uid.as_ref().zip(tags.get(IDENTITY_TAG)).is_some_and(|(own, tagged)| own != tagged)
    }

    /// Whether tags say that something was made, or taken over, by this very cluster, and not only by one with its id.
    pub fn made(&self, tags: &Tags) -> bool {
        self.is_named(tags) && self.uid.is_some() && self.uid.as_ref() == tags.get(IDENTITY_TAG)
    }

    /// Whether tags say that something was made for this Service of this cluster.
    pub fn owns_for(&self, tags: &Tags, owner: &Owner) -> bool {
        self.owns(tags) && tags.get(SERVICE_TAG).is_some_and(|value| *value == owner.key())
    }

    /// Whether tags say that something is another Service's, another cluster's, or not for one cluster alone, and do not say that it is ours. What
    /// has our name and says nothing of the kind has lost its tags.
    pub fn is_claimed(&self, tags: &Tags, owner: &Owner) -> bool {
        let claims = |(key, value): (&String, &String)| match key.as_str() {
            SERVICE_TAG => *value != owner.key(),
            LEGACY_TAG => *value != self.id,
            key if key.starts_with(CLUSTER_TAG) => key != self.tag() || value != "owned",
            _ => false,
        };
        !self.owns_for(tags, owner) && (self.is_twins(tags) || tags.iter().any(claims))
    }

    /// Whether tags say that another cluster has, or uses, something too.
    pub fn shares(&self, tags: &Tags) -> bool {
        tags.iter().any(|(key, value)| match key.as_str() {
            LEGACY_TAG => *value != self.id,
            key => key.starts_with(CLUSTER_TAG) && key != self.tag(),
        })
    }

    /// Whether a security group, or a target group, was made here, by its tags and its name: for which Service, which may be gone.
    pub fn made_for<'a>(&self, name: &str, tags: &'a Tags) -> Option<&'a str> {
        let key = tags.get(SERVICE_TAG).filter(|_| self.owns(tags))?;
        let (namespace, service) = key.split_once('/')?;
        let owner = Owner { namespace: namespace.to_owned(), name: service.to_owned(), uid: String::new() };
        owner.could_have_made(name).then_some(key)
    }

    /// Whether something is used by this cluster, owned or shared.
    pub fn uses(&self, tags: &Tags) -> bool {
        tags.contains_key(&self.tag()) || tags.get(LEGACY_TAG).is_some_and(|value| *value == self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(namespace: &str, name: &str, uid: &str) -> Owner {
        Owner { namespace: namespace.into(), name: name.into(), uid: uid.into() }
    }

    #[test]
    fn groups_are_named_as_upstream_names_them() {
        for (cluster, name, namespace, uid, expected) in [
            ("c", "a", "b", "x", "k8s-b-a-7a83d4e37a"),
            (
                "test-cluster",
                "my-service",
                "default",
                "12345678-1234-1234-1234-123456789abc",
                "k8s-default-myservic-b7cb8b02f0",
            ),
            (
                "test-cluster",
                "my-service-123",
                "kube-system",
                "87654321-4321-4321-4321-cba987654321",
                "k8s-kubesyst-myservic-5aa269aeaf",
            ),
        ] {
            assert_eq!(owner(namespace, name, uid).network_group(cluster), expected);
        }
        assert!(owner("---", "___", "u").network_group("c").starts_with("k8s---"));
        let one = owner("n", "s", "12345678-1234-1234-1234-123456789abc");
        assert_eq!(one.load_balancer(), "a1234567812341234123412345678 9abc".replace(' ', "")[..32]);
        assert_eq!(one.classic_group(), format!("k8s-elb-{}", one.load_balancer()));
    }

    #[test]
    fn target_groups_are_named_as_upstream_names_them_for_each_family() {
        for (family, expected) in [(Family::V4, "d09db77308"), (Family::V6, "6abd575e99")] {
            let name = TargetGroupName {
                service_port: 80,
                node_port: 8080,
                protocol: "TCP",
                check_protocol: "",
                check_interval: 0,
                family,
            };
            let made = owner("default", "service-a", "").target_group("cluster-a", &name);
            assert_eq!(made, format!("k8s-default-servicea-{expected}"));
        }
    }
}

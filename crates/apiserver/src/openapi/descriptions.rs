//! What types and fields are for, in a line each: what `kubectl explain` prints.
//!
//! Called by `definitions` and `custom`. Kinds, the fields that most objects share and what is particular to two families have a
//! line here, other fields in `fields.txt`; the rest is told by name and type alone.

use std::{collections::HashMap, sync::LazyLock};

/// The description of a type by its full name.
pub(super) fn of_type(name: &str) -> Option<String> {
    let short = name.rsplit('.').next().unwrap_or(name);
    if let Some((_, text)) = TYPES.iter().find(|(of, _)| *of == short) {
        return Some((*text).to_owned());
    }
    let item = short.strip_suffix("List").filter(|item| TYPES.iter().any(|(of, _)| of == item))?;
    Some(of_list(item))
}

/// The description of the list of a kind.
pub(super) fn of_list(kind: &str) -> String {
    format!("A list of objects of kind {kind}.")
}

/// The description of a field: what is said of it in this type, otherwise what is said of all fields of this name.
pub(super) fn of_field(structure: &str, field: &str) -> Option<&'static str> {
    let short = structure.rsplit('.').next().unwrap_or(structure);
    let particular = PARTICULAR.iter().find(|(of, name, _)| *of == short && *name == field).map(|(_, _, text)| *text);
    let common = || COMMON.iter().find(|(name, _)| *name == field).map(|(_, text)| *text);
    match field {
        "status" if short.ends_with("Condition") => Some("True, False or Unknown."),
        "items" if !short.ends_with("List") => None,
        _ => particular.or_else(|| FIELDS.get(&(short, field)).copied()).or_else(common),
    }
}

/// Said of a field, by the short name of its type.
static FIELDS: LazyLock<HashMap<(&str, &str), &str>> = LazyLock::new(|| {
    let mut fields = HashMap::new();
    let mut of = "";
    for line in include_str!("fields.txt").lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => of = line,
            Some(line) => fields.extend(line.split_once(' ').map(|(field, text)| ((of, field), text))),
        }
    }
    fields
});

/// Said of a type, by its short name.
const TYPES: &[(&str, &str)] = &[
    // Kinds.
    ("APIService", "Which server answers for a group and version, and in which order discovery names them."),
    ("Binding", "Puts one Pod onto one Node."),
    ("CSIDriver", "A driver of volumes, and what it asks of the cluster."),
    ("CSINode", "The drivers of volumes that a Node has."),
    ("CSIStorageCapacity", "How much room there is for volumes of a class, on some Nodes."),
    ("CertificateSigningRequest", "Asks a signer for a certificate; somebody who may approves it first."),
    ("ClusterRole", "What may be done with which resources, in the whole cluster."),
    ("ClusterRoleBinding", "Who has a ClusterRole, in the whole cluster."),
    ("ClusterTrustBundle", "Authorities that workloads may trust."),
    ("ConfigMap", "Configuration that Pods read, as text or bytes by key. Not for secrets."),
    ("ControllerRevision", "An earlier or present state of a workload, kept so that it can be gone back to."),
    ("CronJob", "Makes Jobs by the clock."),
    ("CustomResourceDefinition", "A kind of objects that is served as long as its definition exists."),
    ("DaemonSet", "Runs one Pod on every Node that fits."),
    ("Deployment", "Runs a number of equal Pods and replaces them step by step when their template changes."),
    ("DeviceClass", "A sort of devices that claims can ask for."),
    ("EndpointSlice", "Addresses of one family behind a Service, with their ports and whether they are ready."),
    ("Endpoints", "Addresses behind a Service, one family only. EndpointSlice is its successor."),
    ("Event", "Something that happened to an object, told for people."),
    ("Eviction", "Asks for the deletion of a Pod, which a PodDisruptionBudget may refuse for now."),
    ("FlowSchema", "Which requests wait in which queues of which priority level, when there are too many."),
    ("HorizontalPodAutoscaler", "Gives a workload more or fewer Pods, as its metrics ask."),
    ("IPAddress", "An address that a Service has been given; its name is the address."),
    ("Ingress", "Which HTTP host and path leads to which Service."),
    ("IngressClass", "A controller that serves Ingresses, and its settings."),
    ("Job", "Runs Pods until enough of them have succeeded."),
    ("Lease", "Who holds something, and until when unless it is renewed."),
    (
        "LimitRange",
        "How little and how much one container, Pod or claim of a namespace may ask for, and what it gets when it asks for nothing.",
    ),
    ("LocalSubjectAccessReview", "Asks whether a user may do something in one namespace."),
    ("MutatingAdmissionPolicy", "Changes in CEL to what is written, where a binding says so."),
    ("MutatingAdmissionPolicyBinding", "Where a MutatingAdmissionPolicy changes objects, and with which parameters."),
    ("MutatingWebhookConfiguration", "Webhooks that may change objects before they are stored."),
    ("Namespace", "A room for objects; names are unique within it."),
    ("Node", "A machine that runs Pods."),
    ("PersistentVolume", "A place to store things, which outlives the Pods that use it."),
    ("PersistentVolumeClaim", "Asks for a PersistentVolume, and has it once it is bound."),
    ("Pod", "Containers that run together on one Node and share its addresses, one of each family."),
    ("PodCertificateRequest", "Asks a signer for the certificate of a Pod, in the name of its Node."),
    ("PodDisruptionBudget", "How many Pods of a set may be evicted at a time."),
    ("PodTemplate", "A description of Pods, kept for others to use."),
    ("PriorityClass", "How important a Pod is when there is no room for all."),
    ("PriorityLevelConfiguration", "How many requests of a sort run at a time, and how the others wait."),
    ("ReplicaSet", "Keeps a number of equal Pods running."),
    ("ReplicationController", "Keeps a number of equal Pods running. ReplicaSet is its successor."),
    ("ResourceClaim", "Asks for devices, and has them once they are allocated."),
    ("ResourceClaimTemplate", "What the ResourceClaims look like that are made for Pods."),
    ("ResourceQuota", "How much of something a namespace may use."),
    ("ResourceSlice", "Devices that a driver has to give."),
    ("Role", "What may be done with which resources, in one namespace."),
    ("RoleBinding", "Who has a Role or ClusterRole, in one namespace."),
    (
        "RuntimeClass",
        "A way to run Pods: what the container runtime calls it, what it costs, and on which nodes it exists.",
    ),
    ("Scale", "How many replicas an object has and should have."),
    ("Secret", "Data that few may see, as bytes by key."),
    ("SelfSubjectAccessReview", "Asks whether the one who asks may do something."),
    ("SelfSubjectReview", "Asks who the one who asks is."),
    ("SelfSubjectRulesReview", "Asks what the one who asks may do in a namespace."),
    ("Service", "A lasting name, and a lasting address of one family or of each, for a changing set of Pods."),
    ("ServiceAccount", "An identity that Pods act under."),
    ("ServiceCIDR", "A range of addresses for Services, of one family or of each."),
    ("StatefulSet", "Runs Pods that have numbers, names and volumes of their own, one after the other."),
    ("Status", "The outcome of a request that returns no object."),
    ("StorageClass", "Who makes PersistentVolumes, and how."),
    ("StorageVersionMigration", "Has all objects of a resource written anew."),
    ("SubjectAccessReview", "Asks whether a user may do something."),
    ("TokenRequest", "Asks for a token of a ServiceAccount."),
    ("TokenReview", "Asks whose token this is."),
    ("ValidatingAdmissionPolicy", "Rules in CEL that writes have to keep to, where a binding says so."),
    (
        "ValidatingAdmissionPolicyBinding",
        "Where a ValidatingAdmissionPolicy holds, with which parameters, and what follows.",
    ),
    ("ValidatingWebhookConfiguration", "Webhooks that may refuse objects before they are stored."),
    ("VolumeAttachment", "A PersistentVolume that should be at a Node."),
    ("VolumeAttributesClass", "What volumes of a driver are like, and can become."),
    // Parts of them that most objects have.
    ("Condition", "One aspect of the state of an object: true, false or unknown, since when and why."),
    ("DeleteOptions", "How an object is deleted."),
    (
        "LabelSelector",
        "Which objects are meant, by their labels. All conditions must hold; an empty one means all objects.",
    ),
    ("ListMeta", "What all lists have."),
    ("ManagedFieldsEntry", "The fields that one writer has set."),
    ("ObjectMeta", "What all objects have: name, labels and what the server keeps track of."),
    ("OwnerReference", "An object that this one belongs to; when all of them are gone, this one goes too."),
    // Parts that are looked up most.
    ("Container", "One program in a Pod."),
    ("ContainerPort", "A port that a container listens on."),
    ("DeploymentSpec", "What a Deployment should be."),
    ("EnvVar", "An environment variable of a container."),
    ("PodSpec", "What a Pod should be."),
    ("PodStatus", "What became of a Pod."),
    ("PodTemplateSpec", "What Pods that are made from this look like."),
    ("Probe", "How to find out whether a container is well."),
    ("ServicePort", "A port of a Service and where it leads."),
    ("ServiceSpec", "What a Service should be."),
    ("ServiceStatus", "What became of a Service."),
    ("Volume", "Files that containers of a Pod can mount."),
    // Values with a text form.
    ("Duration", "A length of time such as 1h30m."),
    ("IntOrString", "A number or text, such as a port by its number or by its name."),
    ("MicroTime", "A moment with microseconds, such as 2006-01-02T15:04:05.000000Z."),
    ("Patch", "A change to an object, in the form that the content type says."),
    ("Quantity", "An amount such as 500m, 2 or 1Gi."),
    ("Time", "A moment, such as 2006-01-02T15:04:05Z."),
];

/// Said of a field of one type.
const PARTICULAR: &[(&str, &str, &str)] = &[
    ("Container", "args", "Arguments of the program, instead of the image's."),
    ("Container", "command", "The program, instead of the image's."),
    ("Container", "name", "The name of the container, unique in the Pod."),
    ("ContainerPort", "name", "A name for the port, unique in the Pod, that Services can refer to."),
    ("EndpointSlice", "addressType", "IPv4, IPv6 or FQDN: what all addresses in the slice are."),
    ("EndpointSlice", "endpoints", "The addresses, with their state."),
    ("EndpointSlice", "ports", "The ports that all endpoints have."),
    ("IngressSpec", "rules", "Hosts and paths, and the Services that they lead to."),
    ("NodeSpec", "podCIDR", "The first of podCIDRs."),
    ("NodeSpec", "podCIDRs", "Ranges of the addresses of this Node's Pods, at most one of each family."),
    ("NodeStatus", "addresses", "Addresses of the Node; on two families there is an InternalIP of each."),
    ("ObjectMeta", "annotations", "Further data by key, for tools; not for selecting."),
    ("ObjectMeta", "creationTimestamp", "CreationTimestamp is a timestamp of when the server made the object."),
    ("ObjectMeta", "deletionTimestamp", "When the object goes or went into deletion; set by the server."),
    ("ObjectMeta", "finalizers", "Who has to agree before the object is gone."),
    ("ObjectMeta", "generateName", "Start of a name that the server completes; used when name is empty."),
    ("ObjectMeta", "generation", "Counts the changes of what the object should be."),
    ("ObjectMeta", "labels", "Keys and values that objects are selected by."),
    ("ObjectMeta", "managedFields", "Which writer has set which fields."),
    ("ObjectMeta", "name", "The name, unique for its kind in a namespace (or in the cluster). It cannot be changed."),
    ("ObjectMeta", "namespace", "The namespace that the object is in. It cannot be changed."),
    ("ObjectMeta", "ownerReferences", "The objects that this one belongs to."),
    ("ObjectMeta", "resourceVersion", "The state of the object; an update that names another one is refused."),
    ("ObjectMeta", "uid", "Tells the object from all others that had its name."),
    ("PodSpec", "containers", "The programs of the Pod, at least one."),
    ("PodSpec", "hostNetwork", "Whether the Pod has the addresses of its Node."),
    ("PodSpec", "initContainers", "Programs that run one after the other before the containers start."),
    ("PodSpec", "nodeName", "The Node that the Pod runs on; chosen by the scheduler when empty."),
    ("PodSpec", "volumes", "Files that containers can mount."),
    ("PodStatus", "hostIP", "The first of hostIPs."),
    ("PodStatus", "hostIPs", "Addresses of the Pod's Node, at most one of each family."),
    ("PodStatus", "podIP", "The first of podIPs."),
    ("PodStatus", "podIPs", "Addresses of the Pod, at most one of each family."),
    ("ServiceCIDRSpec", "cidrs", "One range, or one of each family, such as 10.96.0.0/16 and fd00:10:96::/112."),
    ("ServicePort", "name", "A name for the port; needed when there are several."),
    (
        "ServicePort",
        "nodePort",
        "The port on every Node, for types NodePort and LoadBalancer; given by the server when 0.",
    ),
    ("ServicePort", "port", "The port that clients connect to."),
    ("ServicePort", "targetPort", "The Pods' port, by number or name; the same as port when absent."),
    (
        "ServiceSpec",
        "clusterIP",
        "The first of clusterIPs: given by the server when empty; None for a Service without address.",
    ),
    ("ServiceSpec", "clusterIPs", "Addresses of the Service, one of each of its families, in their order."),
    ("ServiceSpec", "externalName", "The DNS name that the Service stands for, for type ExternalName."),
    ("ServiceSpec", "ipFamilies", "IPv4, IPv6 or both, the first being the primary one, which cannot be changed."),
    (
        "ServiceSpec",
        "ipFamilyPolicy",
        "SingleStack (one family), PreferDualStack (two where the cluster has two) or RequireDualStack (two or refused).",
    ),
    (
        "ServiceSpec",
        "loadBalancerSourceRanges",
        "Ranges of the clients that a load balancer lets in, of either family.",
    ),
    ("ServiceSpec", "ports", "The ports of the Service."),
    ("ServiceSpec", "selector", "Labels of the Pods that the Service leads to."),
    ("Status", "status", "Success or Failure."),
    ("ServiceSpec", "type", "ClusterIP, NodePort, LoadBalancer or ExternalName."),
];

/// Said of every field of this name.
const COMMON: &[(&str, &str)] = &[
    // Conformance tests look for how these begin.
    ("apiVersion", "APIVersion defines group and version of the object, such as v1 or apps/v1."),
    ("conditions", "What holds of the object, each with its reason."),
    ("image", "The image of the container."),
    ("items", "The objects."),
    ("kind", "The kind of the object, such as Service."),
    ("message", "An explanation for people."),
    ("metadata", "Standard object's metadata: name, labels and what the server keeps track of."),
    ("observedGeneration", "The generation that this status speaks of."),
    ("protocol", "TCP, UDP or SCTP."),
    ("reason", "Why, in one word for programs."),
    ("replicas", "How many Pods."),
    ("selector", "Which objects are meant, by their labels."),
    ("spec", "What the object should be."),
    ("status", "What the object is, as its controllers see it."),
    ("template", "What the Pods look like."),
];

//! `cargo xtask types --from DIR`: the facts of every API type, from the Go packages of Kubernetes, as `types.txt`.
//!
//! DIR holds the modules as Go's module cache does (`DIR/api@v0.37.0/core/v1`). A kind is added by adding its name
//! to `ROOTS`; what it refers to follows by itself. Only names, numbers and markers are kept, never descriptions.

mod go;

use go::{Body, Declared, Member, Package, marker};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// Where the facts are kept, seen from the workspace root.
const OUTPUT: &str = "crates/api/src/schema/types.txt";

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// Import path, API group (none for types that are no kinds), kinds. The list of each kind comes along by itself.
const ROOTS: &[(&str, Option<&str>, &str)] = &[
    (
        "k8s.io/api/core/v1",
        Some(""),
        "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod \
         PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
    ),
    (
        "k8s.io/api/admissionregistration/v1",
        Some("admissionregistration.k8s.io"),
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration \
         ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    ),
    ("k8s.io/api/apps/v1", Some("apps"), "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    ("k8s.io/api/authentication/v1", Some("authentication.k8s.io"), "SelfSubjectReview TokenRequest TokenReview"),
    (
        "k8s.io/api/authorization/v1",
        Some("authorization.k8s.io"),
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    ("k8s.io/api/autoscaling/v1", Some("autoscaling"), "HorizontalPodAutoscaler Scale"),
    ("k8s.io/api/autoscaling/v2", Some("autoscaling"), "HorizontalPodAutoscaler"),
    ("k8s.io/api/batch/v1", Some("batch"), "CronJob Job"),
    (
        "k8s.io/api/certificates/v1",
        Some("certificates.k8s.io"),
        "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest",
    ),
    ("k8s.io/api/coordination/v1", Some("coordination.k8s.io"), "Lease"),
    ("k8s.io/api/discovery/v1", Some("discovery.k8s.io"), "EndpointSlice"),
    ("k8s.io/api/events/v1", Some("events.k8s.io"), "Event"),
    ("k8s.io/api/flowcontrol/v1", Some("flowcontrol.apiserver.k8s.io"), "FlowSchema PriorityLevelConfiguration"),
    ("k8s.io/api/networking/v1", Some("networking.k8s.io"), "IPAddress Ingress IngressClass ServiceCIDR"),
    ("k8s.io/api/node/v1", Some("node.k8s.io"), "RuntimeClass"),
    ("k8s.io/api/policy/v1", Some("policy"), "Eviction PodDisruptionBudget"),
    ("k8s.io/api/rbac/v1", Some("rbac.authorization.k8s.io"), "ClusterRole ClusterRoleBinding Role RoleBinding"),
    (
        "k8s.io/api/resource/v1",
        Some("resource.k8s.io"),
        "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    ),
    ("k8s.io/api/scheduling/v1", Some("scheduling.k8s.io"), "PriorityClass"),
    (
        "k8s.io/api/storage/v1",
        Some("storage.k8s.io"),
        "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
    ),
    ("k8s.io/api/storagemigration/v1", Some("storagemigration.k8s.io"), "StorageVersionMigration"),
    (
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
        Some("apiextensions.k8s.io"),
        "CustomResourceDefinition",
    ),
    ("k8s.io/kube-aggregator/pkg/apis/apiregistration/v1", Some("apiregistration.k8s.io"), "APIService"),
    (
        META,
        None,
        "APIGroup APIGroupList APIResourceList APIVersions DeleteOptions PartialObjectMetadata \
         PartialObjectMetadataList Status Table WatchEvent",
    ),
];

/// Types whose JSON and protobuf form is written by hand upstream, so that their declaration does not tell it.
const BY_HAND: &[(&str, &str)] = &[
    ("k8s.io/apimachinery/pkg/api/resource.Quantity", "quantity"),
    ("k8s.io/apimachinery/pkg/util/intstr.IntOrString", "intOrString"),
    ("k8s.io/apimachinery/pkg/runtime.RawExtension", "any"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.Time", "time"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime", "microTime"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.Duration", "duration"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1", "any"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON", "any"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray", "schemaOrSchemas"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool", "schemaOrBool"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray", "schemaOrStrings"),
];

/// Runs the command with the arguments that follow its name.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let from = match args {
        [flag, directory] if flag == "--from" => PathBuf::from(directory),
        _ => {
            return Err(
                "usage: cargo xtask types --from DIR (the directory that holds api@v*, apimachinery@v*, ...)".into()
            );
        }
    };
    let mut reader = Reader { from, packages: BTreeMap::new(), done: BTreeMap::new() };
    let kinds = reader.roots()?;
    fs::write(OUTPUT, reader.print(&kinds)).map_err(|error| format!("{OUTPUT}: {error}"))
}

/// A type by the import path of its package and its name.
type Name = (String, String);

struct Reader {
    from: PathBuf,
    packages: BTreeMap<String, Package>,
    /// The lines of every type met so far.
    done: BTreeMap<Name, Vec<String>>,
}

/// What a Go type is in the facts file.
struct Known {
    shape: String,
    /// A named list is a message of its own in protobuf.
    wrapped: bool,
}

/// Fields of an embedded struct are flattened in JSON. In protobuf they are a message of their own, with the last of these
/// numbers in the one around it; without numbers (TypeMeta) they are not there at all.
#[derive(Clone)]
enum Level {
    Top,
    Embedded { numbers: Vec<u32> },
}

impl Level {
    fn below(&self, number: u32) -> Self {
        let outer = match self {
            Self::Embedded { numbers } => numbers.clone(),
            Self::Top => Vec::new(),
        };
        Self::Embedded { numbers: outer.into_iter().chain((number > 0).then_some(number)).collect() }
    }
}

impl Reader {
    fn roots(&mut self) -> Result<BTreeMap<Name, String>, String> {
        let mut kinds = BTreeMap::new();
        for (path, group, names) in ROOTS {
            for kind in names.split_whitespace() {
                let list = format!("{kind}List");
                let with_list = [kind.to_owned(), list].into_iter().filter(|name| {
                    *name == kind || self.load(path).is_ok_and(|package| package.types.contains_key(name))
                });
                for name in with_list.collect::<Vec<_>>() {
                    let key = ((*path).to_owned(), name.clone());
                    if let Some(group) = group {
                        let version = path.rsplit('/').next().unwrap_or_default();
                        kinds.insert(key.clone(), format!("{group}/{version}/{name}"));
                    }
                    self.visit(&key)?;
                }
            }
        }
        Ok(kinds)
    }

    fn load(&mut self, path: &str) -> Result<&Package, String> {
        if !self.packages.contains_key(path) {
            let directory = directory(&self.from, path)?;
            self.packages.insert(path.to_owned(), go::package(&directory)?);
        }
        Ok(&self.packages[path])
    }

    fn declared(&mut self, name: &Name) -> Result<&Declared, String> {
        self.load(&name.0)?.types.get(&name.1).ok_or_else(|| format!("{}.{} is not declared", name.0, name.1))
    }

    /// Reads a struct and everything it refers to.
    fn visit(&mut self, name: &Name) -> Result<(), String> {
        if self.done.contains_key(name) {
            return Ok(());
        }
        self.done.insert(name.clone(), Vec::new());
        let mut lines = Vec::new();
        self.members(name, &Level::Top, &mut lines)?;
        if marker(&self.declared(name)?.markers, "structType").any(|value| value == "atomic")
            || marker(&self.declared(name)?.markers, "mapType").any(|value| value == "atomic")
        {
            lines.insert(0, "  atomic".to_owned());
        }
        self.done.insert(name.clone(), lines);
        Ok(())
    }

    fn members(&mut self, name: &Name, level: &Level, lines: &mut Vec<String>) -> Result<(), String> {
        // Taken out while its members are read, because they may need other declarations of the same package.
        self.declared(name)?;
        let package = self.packages.get_mut(&name.0).ok_or("package vanished")?;
        let declared = package.types.remove(&name.1).ok_or("type vanished")?;
        let Body::Struct(members) = &declared.body else { return Err(format!("{}.{} is no struct", name.0, name.1)) };
        let mut result = Ok(());
        for member in members {
            result = result.and_then(|()| self.member(name, &declared, member, level, lines));
        }
        if let Some(package) = self.packages.get_mut(&name.0) {
            package.types.insert(name.1.clone(), declared);
        }
        result
    }

    fn member(
        &mut self,
        owner: &Name,
        declared: &Declared,
        member: &Member,
        level: &Level,
        lines: &mut Vec<String>,
    ) -> Result<(), String> {
        let mut json = member.tag("json").split(',');
        let field = json.next().unwrap_or_default();
        let options: BTreeSet<&str> = json.collect();
        let number = member.tag("protobuf").split(',').nth(1).map_or(Ok(0), str::parse::<u32>);
        let number = number.map_err(|_| format!("{}.{field}: protobuf tag {:?}", owner.1, member.tag("protobuf")))?;
        if field == "-" {
            return Ok(());
        }
        if member.embedded && field.is_empty() {
            let inner = resolve(owner, declared, member.go_type.trim_start_matches('*'));
            return self.members(&inner, &level.below(number), lines);
        }
        let pointer = member.go_type.starts_with('*');
        let known = self.shape(owner, declared, member.go_type.trim_start_matches('*'))?;
        let mut line = format!("  {field} {}", known.shape);
        match level {
            Level::Embedded { numbers } if !numbers.is_empty() => {
                line.push(' ');
                numbers.iter().for_each(|outer| _ = write!(line, "{outer}."));
                _ = write!(line, "{number}");
            }
            Level::Top if number > 0 => _ = write!(line, " {number}"),
            _ => {}
        }
        let marked = |name| marker(&member.markers, name).next().is_some();
        let omitted = options.contains("omitempty") || options.contains("omitzero");
        let flags = [
            ("wrapped", known.wrapped && !member.tag("protobuf").contains(",rep")),
            ("pointer", pointer),
            ("omitempty", options.contains("omitempty") && !options.contains("omitzero")),
            ("omitzero", options.contains("omitzero")),
            ("required", marked("required") || !marked("optional") && !omitted),
        ];
        for (flag, _) in flags.iter().filter(|(_, set)| *set) {
            _ = write!(line, " {flag}");
        }
        line.push_str(&lists(member));
        if let Some(default) = marker(&member.markers, "default").last() {
            let named = default.strip_prefix("ref(").and_then(|rest| rest.strip_suffix(')'));
            let value =
                named.and_then(|name| self.packages[&owner.0].constants.get(name)).map_or(default, String::as_str);
            _ = write!(line, " default={value}");
        }
        lines.push(line);
        Ok(())
    }

    /// What a Go type is; visits the structs on the way.
    fn shape(&mut self, owner: &Name, declared: &Declared, go_type: &str) -> Result<Known, String> {
        let known = |shape: &str| Ok(Known { shape: shape.to_owned(), wrapped: false });
        if go_type == "[]byte" {
            return known("bytes");
        }
        if let Some(item) = go_type.strip_prefix("[]") {
            return known(&format!("[]{}", self.shape(owner, declared, item.trim_start_matches('*'))?.shape));
        }
        if let Some((_, value)) = go_type.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return known(&format!("{{}}{}", self.shape(owner, declared, value.trim_start_matches('*'))?.shape));
        }
        match go_type {
            "bool" | "int32" | "int64" | "string" => return known(go_type),
            "float64" => return known("number"),
            "interface{}" | "any" => return known("any"),
            _ => {}
        }
        let name = resolve(owner, declared, go_type);
        let full = format!("{}.{}", name.0, name.1);
        if let Some((_, shape)) = BY_HAND.iter().find(|(by_hand, _)| *by_hand == full) {
            return known(shape);
        }
        let other = match &self.declared_or_in_progress(&name)? {
            Some(Body::Other(other)) => other.clone(),
            _ => {
                self.visit(&name)?;
                return known(&model_name(&name));
            }
        };
        let declared = self.packages.get_mut(&name.0).and_then(|package| package.types.remove(&name.1));
        let declared = declared.ok_or_else(|| format!("{full} refers to itself"))?;
        let shape =
            self.shape(&name, &declared, &other).map(|inner| Known { wrapped: other.starts_with("[]"), ..inner });
        if let Some(package) = self.packages.get_mut(&name.0) {
            package.types.insert(name.1, declared);
        }
        shape
    }

    /// The body of a type; none for a struct that is being read right now (recursion).
    fn declared_or_in_progress(&mut self, name: &Name) -> Result<Option<&Body>, String> {
        if self.done.contains_key(name) {
            return Ok(None);
        }
        self.declared(name).map(|declared| Some(&declared.body))
    }

    fn print(&self, kinds: &BTreeMap<Name, String>) -> String {
        let mut text = String::from(
            "# Facts of the Kubernetes API types, made by `cargo xtask types`; schema/table.rs reads them and explains them.\n",
        );
        for (name, lines) in &self.done {
            _ = write!(text, "\n{}", model_name(name));
            if let Some(kind) = kinds.get(name) {
                _ = write!(text, " {kind}");
            }
            text.push('\n');
            let neighbours = model_name(&(name.0.clone(), String::new()));
            for line in lines {
                text.push_str(&line.replace(&neighbours, "."));
                text.push('\n');
            }
        }
        text
    }
}

/// List, map and patch flags of a field.
fn lists(member: &Member) -> String {
    let mut text = String::new();
    let keys = marker(&member.markers, "listMapKey").collect::<Vec<_>>().join(",");
    match marker(&member.markers, "listType").last() {
        Some("set") => text.push_str(" set"),
        Some("map") => _ = write!(text, " keys={keys}"),
        Some("atomic") => text.push_str(" atomic"),
        _ => {}
    }
    if marker(&member.markers, "mapType").chain(marker(&member.markers, "structType")).any(|value| value == "atomic") {
        text.push_str(" atomic");
    }
    let strategy = member.tag("patchStrategy");
    for word in strategy.split(',').filter(|word| !word.is_empty()) {
        _ = write!(text, " {word}");
    }
    let key = member.tag("patchMergeKey");
    if !key.is_empty() {
        _ = write!(text, " mergeKey={key}");
    }
    text
}

/// `metav1.Time` as written in a file -> package and name.
fn resolve(owner: &Name, declared: &Declared, go_type: &str) -> Name {
    match go_type.split_once('.') {
        Some((package, name)) => {
            (declared.imports.get(package).cloned().unwrap_or_else(|| package.to_owned()), name.to_owned())
        }
        None => (owner.0.clone(), go_type.to_owned()),
    }
}

/// `k8s.io/api/core/v1` and `Pod` -> `io.k8s.api.core.v1.Pod`, as OpenAPI names it.
fn model_name((path, name): &Name) -> String {
    let (host, rest) = path.split_once('/').unwrap_or((path, ""));
    let host = host.rsplit('.').collect::<Vec<_>>().join(".");
    format!("{host}.{}.{name}", rest.replace('/', "."))
}

/// `k8s.io/api/core/v1` -> `DIR/api@v0.37.0/core/v1`.
fn directory(from: &Path, import: &str) -> Result<PathBuf, String> {
    let mut steps = import.split('/').skip(1);
    let module = format!("{}@", steps.next().unwrap_or_default());
    let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&module)))
        .collect();
    found.sort();
    let root = found.pop().ok_or_else(|| format!("{}: no directory {module}v*", from.display()))?;
    Ok(steps.fold(root, |path, step| path.join(step)))
}

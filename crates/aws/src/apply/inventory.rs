//! The surroundings, kept for a while: subnets and instances change seldom and are the same for every Service.

use crate::{
    account::{Account, AwsError, GroupFilter, Instance, InstanceFilter, SubnetFilter},
    model::{Surroundings, names::Cluster},
};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// How long what was seen is believed.
const FRESH: Duration = Duration::from_secs(600);
/// How long an instance that was not found is not looked for again.
const MISSING: Duration = Duration::from_secs(30);

/// What was seen, and when.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    seen: Mutex<Option<Observation>>,
}

#[derive(Debug)]
struct Observation {
    around: Arc<Surroundings>,
    at: Instant,
    /// Instances that were asked for last, whether they were there or not.
    asked: BTreeSet<String>,
    asked_at: Instant,
}

impl Inventory {
    /// The surroundings with these instances. Looks only if something is old or an instance is not known.
    pub(super) async fn get(
        &self,
        account: &Account,
        cluster: &Cluster,
        instances: &BTreeSet<String>,
    ) -> Result<Arc<Surroundings>, AwsError> {
        let mut seen = self.seen.lock().await;
        if let Some(known) = seen.as_ref().filter(|known| known.at.elapsed() < FRESH) {
            let missing: BTreeSet<&String> =
                instances.iter().filter(|id| !known.around.instances.contains_key(*id)).collect();
            let recently = known.asked_at.elapsed() < MISSING;
            if missing.is_empty() || (recently && missing.iter().all(|id| known.asked.contains(*id))) {
                return Ok(Arc::clone(&known.around));
            }
            let mut around = (*known.around).clone();
            read_instances(account, cluster, instances, &mut around).await?;
            let around = Arc::new(around);
            let (at, asked) = (known.at, instances.clone());
            *seen = Some(Observation { around: Arc::clone(&around), at, asked, asked_at: Instant::now() });
            return Ok(around);
        }
        let mut around = Surroundings::default();
        let filter = SubnetFilter { vpc: Some(cluster.vpc.clone()), ..SubnetFilter::default() };
        around.subnets = account.ec2.describe_subnets(&filter).await?;
        around.route_tables = account.ec2.describe_route_tables(&cluster.vpc).await?;
        around.zones = account.ec2.describe_availability_zones().await?;
        read_instances(account, cluster, instances, &mut around).await?;
        let (around, now) = (Arc::new(around), Instant::now());
        *seen = Some(Observation { around: Arc::clone(&around), at: now, asked: instances.clone(), asked_at: now });
        Ok(around)
    }

    /// Nothing that was seen is believed any more.
    pub(super) async fn forget(&self) {
        *self.seen.lock().await = None;
    }
}

async fn read_instances(
    account: &Account,
    cluster: &Cluster,
    wanted: &BTreeSet<String>,
    around: &mut Surroundings,
) -> Result<(), AwsError> {
    let mut found: Vec<Instance> = Vec::new();
    let wanted: Vec<String> = wanted.iter().cloned().collect();
    for some in wanted.chunks(150) {
        let filter = InstanceFilter { ids: some.iter().cloned().collect(), ..InstanceFilter::default() };
        found.extend(account.ec2.describe_instances(&filter).await?);
    }
    let usable = |instance: &Instance| instance.state == "running" && instance.vpc == cluster.vpc;
    around.instances.extend(found.into_iter().filter(usable).map(|instance| (instance.id.clone(), instance)));
    let groups: BTreeSet<String> = around
        .instances
        .values()
        .flat_map(|instance| instance.interfaces.iter().flat_map(|interface| interface.security_groups.iter().cloned()))
        .collect();
    if groups.iter().all(|id| around.group_tags.contains_key(id)) {
        return Ok(());
    }
    let groups: Vec<String> = groups.into_iter().collect();
    for some in groups.chunks(150) {
        let filter = GroupFilter { ids: some.iter().cloned().collect(), ..GroupFilter::default() };
        let found = account.ec2.describe_security_groups(&filter).await?;
        around.group_tags.extend(found.into_iter().map(|group| (group.id, group.tags)));
    }
    Ok(())
}

//! An API server that is restarted, killed, away for a while, and restored from an older snapshot, under every component at once;
//! each component killed and ended under an API server that lives; etcd put back under both. Each time something new takes effect
//! and something deleted vanishes, and while the API is away everything goes on serving.
//!
//! With the embedded store, with etcd, and with kube-apiserver where `KUBE_APISERVER` names it. `TWINSTACK_AWAY_SECONDS` makes the
//! absence longer.

mod api;
mod cluster;
mod look;

use api::Store;
use cluster::{Cluster, Operands};
use std::time::Duration;

#[test]
fn components_follow_whatever_happens_to_an_api_server_with_its_own_store() {
    whatever_happens(Store::Embedded);
}

#[test]
fn components_follow_whatever_happens_to_an_api_server_on_etcd() {
    whatever_happens(Store::Etcd);
}

#[test]
fn components_follow_whatever_happens_to_a_real_api_server() {
    // A comparison that is asked for by naming it; its absence is no skip.
    if e2e::KubeApiserver::program().is_some() {
        whatever_happens(Store::KubeApiserver);
    }
}

fn whatever_happens(store: Store) {
    let Some(mut cluster) = Cluster::start(store, Operands::Workload) else { return };
    cluster.make(0);
    cluster.is_in_effect(0);

    cluster.api.terminate();
    cluster.api.start();
    cluster.make(1);
    cluster.is_in_effect(1);
    cluster.delete(0);
    cluster.is_without_effect(0);

    cluster.api.kill();
    cluster.api.snapshot();
    cluster.api.start();
    cluster.make(2);
    cluster.is_in_effect(2);
    cluster.delete(1);
    cluster.is_without_effect(1);

    let before = cluster.log_lengths();
    cluster.api.kill();
    cluster.goes_on_serving(2);
    cluster.tells_that_its_view_is_old();
    cluster.goes_on_serving(2);
    cluster.api.start();
    cluster.make(3);
    cluster.is_in_effect(3);
    cluster.delete(2);
    cluster.is_without_effect(2);
    cluster.tells_that_its_view_is_current();
    cluster.told_of_one_absence(&before);

    // The snapshot has round 1 and nothing later.
    cluster.api.kill();
    cluster.api.restore();
    cluster.api.start();
    cluster.is_in_effect(1);
    cluster.is_not_served(3);
    cluster.make(4);
    cluster.is_in_effect(4);
    cluster.delete(1);
    cluster.is_without_effect(1);

    // Half a minute goes by until a connection that died without a word is noticed: once is enough.
    if store == Store::Embedded {
        cluster.api.cut();
        cluster.api.kill();
        cluster.api.start();
        cluster.make(5);
        cluster.is_in_effect(5);
        cluster.delete(4);
        cluster.is_without_effect(4);
    }

    cluster.doctor_names_who_sees_nothing();
}

#[test]
fn a_component_that_is_killed_finds_out_what_it_missed() {
    each_in_turn(|cluster, component, round| {
        cluster.component(component).kill();
        cluster.goes_on_serving_without(component, round);
    });
}

#[test]
fn a_component_that_is_told_to_end_finds_out_what_it_missed() {
    each_in_turn(|cluster, component, _| {
        let ended = cluster.component(component).terminate(Duration::from_secs(60));
        assert!(ended.is_some_and(|status| status.success()), "{component}: {}", cluster.component(component).output());
    });
}

/// Stops one component after the other; while it is away something is deleted and something made.
fn each_in_turn(stop: impl Fn(&mut Cluster, &'static str, u32)) {
    let Some(mut cluster) = Cluster::start(Store::Embedded, Operands::Workload) else { return };
    cluster.make(0);
    cluster.is_in_effect(0);
    let components: Vec<&'static str> = cluster.components.iter().map(|(name, _)| *name).collect();
    assert_eq!(components.len(), 8);
    for (before, component) in (0..).zip(components) {
        stop(&mut cluster, component, before);
        cluster.delete(before);
        cluster.make(before + 1);
        cluster.start_again(component);
        cluster.is_in_effect(before + 1);
        cluster.is_without_effect(before);
    }
}

#[test]
fn an_api_server_and_its_clients_notice_that_etcd_was_put_back_below_them() {
    let Some(mut cluster) = Cluster::start(Store::Etcd, Operands::Workload) else { return };
    cluster.make(0);
    cluster.is_in_effect(0);
    cluster.api.kill_etcd();
    cluster.api.snapshot();
    cluster.api.start();
    cluster.make(1);
    cluster.is_in_effect(1);
    cluster.delete(0);
    cluster.is_without_effect(0);

    cluster.api.kill_etcd();
    cluster.api.restore();
    cluster.api.start();
    cluster.is_in_effect(0);
    cluster.is_not_served(1);
    cluster.make(2);
    cluster.is_in_effect(2);
    cluster.delete(0);
    cluster.is_without_effect(0);
}

#[test]
fn servers_that_operators_run_go_on_while_the_api_is_away() {
    let Some(mut cluster) = Cluster::start(Store::Embedded, Operands::Process) else { return };
    cluster.make(0);
    cluster.is_in_effect(0);
    let operators = ["dns-operator", "ingress-operator"];
    let until_logged = |cluster: &mut Cluster, operator: &str, words: &str| {
        let logged = e2e::wait_for(Duration::from_secs(60), || {
            cluster.component(operator).output().contains(words).then_some(())
        });
        assert!(logged.is_some(), "{operator} never says {words:?}:\n{}", cluster.component(operator).output());
    };

    cluster.api.kill();
    cluster.goes_on_serving(0);
    for operator in operators {
        until_logged(&mut cluster, operator, "no longer leads");
    }
    cluster.goes_on_serving(0);
    cluster.stays_away();
    cluster.goes_on_serving(0);

    cluster.api.start();
    for operator in operators {
        until_logged(&mut cluster, operator, "leads again");
        assert!(cluster.component(operator).ended(Duration::ZERO).is_none(), "{operator} never ended");
    }
    cluster.make(1);
    cluster.is_in_effect(1);
    cluster.delete(0);
    cluster.is_without_effect(0);
}

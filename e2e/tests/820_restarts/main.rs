//! An API server that is restarted, killed, away for a while, and restored from an older snapshot, under every component at once:
//! each time something new takes effect and something deleted vanishes, and while the API is away everything goes on serving.
//!
//! With the embedded store, with etcd, and with kube-apiserver where `KUBE_APISERVER` names it. `TWINSTACK_AWAY_SECONDS` makes the
//! absence longer.

mod api;
mod cluster;
mod look;

use api::Store;
use cluster::Cluster;

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
    let Some(mut cluster) = Cluster::start(store) else { return };
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

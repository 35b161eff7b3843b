//! The account that the cases are tried on: moto behind the proxy, asked by the real clients. It can be used like `aws::memory::Memory`.

mod changes;
mod infrastructure;
mod reading;

use aws::{
    account::Account,
    clients::{Keys, Session},
    cloud_config::CloudConfig,
    memory::{Example, Fault, Made, State},
};
use e2e::aws_strict::{ASIDE, Api, Strict};
use parking_lot::Mutex;
use runtime::metrics::Metrics;
use std::sync::Arc;

/// Each case takes seconds: of combinations some are tried, each part of them once.
pub(crate) const EVERY_COMBINATION: bool = false;

/// Started, and not in use: starting moto takes longer than most cases.
static IDLE: Mutex<Vec<Strict>> = Mutex::new(Vec::new());

pub(crate) struct Emulated {
    /// `None` when it is given back.
    strict: Option<Strict>,
    account: Account,
    /// For looking and changing as somebody else does, neither counted nor disturbed.
    aside: Account,
    /// VPCs, subnets, instances and the like: nobody but a case changes them.
    around: Mutex<State>,
}

/// The example account.
pub(crate) fn start(example: Example) -> Arc<Emulated> {
    let idle = IDLE.lock().pop();
    let strict = idle.or_else(Strict::start).expect("there is moto: try scripts/need test");
    let state = example.state();
    infrastructure::build(&strict, &state);
    strict.take_calls();
    strict.obey_policy(Example::CLUSTER, Example::VPC);
    let (account, aside) = (client(&strict, "test"), client(&strict, ASIDE));
    Arc::new(Emulated { strict: Some(strict), account, aside, around: infrastructure::alone(&state).into() })
}

/// How the controller asks it.
pub(crate) fn account(cloud: &Arc<Emulated>) -> Account {
    cloud.account.clone()
}

fn client(strict: &Strict, key: &str) -> Account {
    let text = "[Global]\nRegion = us-east-1\n".to_owned() + &strict.overrides();
    let keys = Keys { id: key.to_owned(), secret: "test".to_owned() };
    strict.wait(async move {
        let (config, _) = CloudConfig::parse(&text).unwrap();
        let session = Session::with_keys(&config, keys, &Metrics::new()).await.unwrap();
        session.without_limits().account()
    })
}

impl Emulated {
    pub(crate) fn strict(&self) -> &Strict {
        self.strict.as_ref().expect("it is in use")
    }

    /// What it holds now.
    pub(crate) fn state(&self) -> State {
        let (aside, around) = (self.aside.clone(), self.around.lock().clone());
        let mut state = self.strict().wait(async move { reading::read(&aside, around).await.unwrap() });
        infrastructure::read_addresses(self.strict(), &mut state);
        state
    }

    /// Changes it as somebody else would.
    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        let before = self.state();
        let mut after = before.clone();
        change(&mut after);
        infrastructure::follow(self.strict(), &before, &after);
        // What has lost the cluster's tag by hand is put right by a role that may do more than the documented one.
        if changes::untag(self.strict(), &before, &after) {
            self.strict().forget_policy();
        }
        *self.around.lock() = infrastructure::alone(&after);
        let aside = self.aside.clone();
        self.strict().wait(async move { changes::make(&aside, &before, &after).await.unwrap() });
    }

    /// Groups and target groups of what is deleted stay in use for so many attempts.
    pub(crate) fn linger(&self, attempts: u32) {
        self.strict().linger(attempts);
    }

    /// The nth call from now on, counted from 0, meets this fault.
    pub(crate) fn inject(&self, nth: usize, fault: Fault) {
        use e2e::aws_strict::Fault as Strict;
        let fault = match fault {
            Fault::Fail => Strict::Fail,
            Fault::Lose => Strict::Lose,
            Fault::Throttle => Strict::Throttle,
            Fault::Kill => Strict::Kill,
            Fault::Stale => Strict::Stale,
            Fault::Deny => Strict::Deny,
        };
        self.strict().inject(None, nth, 1, fault);
    }

    /// Takes the fault away; says whether it was met.
    pub(crate) fn mend(&self) -> bool {
        self.strict().mend() > 0
    }

    /// The calls made so far; counting begins anew.
    pub(crate) fn take_calls(&self) -> Vec<Made> {
        let calls = self.strict().take_calls().into_iter();
        let made = calls.map(|call| {
            let api = if call.api == Api::Ec2 { "ec2" } else { "elasticloadbalancing" };
            Made { action: format!("{api}:{}", call.action).leak(), write: call.write }
        });
        made.collect()
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        if let Some(strict) = self.strict.take() {
            strict.reset();
            IDLE.lock().push(strict);
        }
    }
}

//! What the kernel and its programs answer. They are trusted, but packets of strangers are what they tell of.

use crate::{Target, input};

pub(crate) const TARGETS: &[Target] =
    &[Target::new("netlink", netlink).up_to(2048), Target::new("iptables-rule", rule).up_to(1024)];

fn netlink(data: &[u8]) {
    kernel::answers::read_all(data);
}

fn rule(data: &[u8]) {
    let text = input::text(data);
    if let Some(target) = kernel::iptables::target(&text) {
        assert!(text.contains(target));
    }
}

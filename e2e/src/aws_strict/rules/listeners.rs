//! Listeners of network load balancers.

use super::{Api, Call, Outcome, World};
use crate::aws_strict::{
    call::Params,
    moto::{plain, understood},
    refusal::{Answer, refused},
    xml::Element,
};

/// Only TLS listeners have a TLS policy.
pub(super) fn mend(result: &'static str) -> impl FnOnce(&mut Element) {
    move |element| {
        element.change(&format!("{result}/Listeners/member"), &mut |one| {
            if one.text("Protocol") != "TLS" {
                one.remove("SslPolicy");
                one.remove("Certificates");
            }
        });
    }
}

const TARGET: &str = "DefaultActions.member.1.TargetGroupArn";

impl World {
    pub(super) async fn listeners(&self, balancer: &str) -> Outcome<Vec<Element>> {
        let found = self.ask(Api::Elbv2, "DescribeListeners", &[("LoadBalancerArn", balancer)]).await?;
        Ok(found.all("DescribeListenersResult/Listeners/member").into_iter().cloned().collect())
    }

    /// What a listener is to be fits its load balancer and target group. `arn` is its own when there is one.
    async fn check_listener(&self, params: &Params, arn: &str) -> Outcome<()> {
        let wrong = |message: String| Err(refused("InvalidConfigurationRequest", message));
        let balancer = self.balancer(params.get("LoadBalancerArn")).await?;
        let target = params.items("DefaultActions.member");
        let target = target.first().map(forwarded).unwrap_or_default();
        let group = self.target_group(&target).await?;
        let (protocol, behind) = (params.get("Protocol"), group.text("Protocol"));
        let fits = matches!(
            (protocol, behind),
            ("TCP", "TCP") | ("UDP", "UDP") | ("TLS", "TCP" | "TLS") | ("TCP_UDP", "TCP_UDP")
        );
        if !fits {
            return wrong(format!(
                "Listener protocol '{protocol}' is not supported with a target group of protocol '{behind}'"
            ));
        }
        let kind = balancer.text("IpAddressType");
        if kind == "ipv4" && group.text("IpAddressType") == "ipv6" {
            let message =
                "You cannot associate an IPv6 target group with a load balancer that has an 'ipv4' IP address type";
            return wrong(message.to_owned());
        }
        let nat = self.kept.source_nat.contains(params.get("LoadBalancerArn"));
        if protocol.contains("UDP") && kind == "dualstack" && !nat {
            return wrong("UDP listeners of a dualstack load balancer need EnablePrefixForIpv6SourceNat".to_owned());
        }
        let certificates = params.items("Certificates.member");
        if protocol == "TLS" && certificates.is_empty() {
            return Err(refused("ValidationError", "A certificate must be specified for TLS listeners"));
        }
        if protocol != "TLS" && !certificates.is_empty() {
            return Err(refused("ValidationError", "Certificates are for TLS listeners"));
        }
        let here = self.listeners(params.get("LoadBalancerArn")).await?;
        let others = || here.iter().filter(|one| one.text("ListenerArn") != arn);
        if others().any(|one| one.text("Port") == params.get("Port")) {
            let message = format!("A listener already exists on port {} for this load balancer", params.get("Port"));
            return Err(refused("DuplicateListener", message));
        }
        if others().count() >= 50 {
            return Err(refused("TooManyListeners", "at most 50 listeners"));
        }
        for other in group.texts("LoadBalancerArns/member") {
            if other == params.get("LoadBalancerArn") {
                continue;
            }
            let there = match self.listeners(&other).await {
                Err(refusal) if refusal.is_not_found() => continue,
                there => there?,
            };
            if there.iter().any(|one| one.text("DefaultActions/member/TargetGroupArn") == target) {
                let message = format!("Target group '{target}' is associated with another load balancer");
                return Err(refused("TargetGroupAssociationLimit", message));
            }
        }
        Ok(())
    }

    pub(super) async fn create_listener(&mut self, call: &Call) -> Outcome {
        self.check_listener(&call.params, "").await?;
        self.mended(call, mend("CreateListenerResult")).await
    }

    /// moto changes too little of a listener, so it gets a new one in its place; whoever calls keeps the ARN.
    pub(super) async fn change_listener(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("ListenerArn");
        let found = self.ask(Api::Elbv2, "DescribeListeners", &[("ListenerArns.member.1", arn)]).await?;
        let old = found.one("DescribeListenersResult/Listeners/member").cloned();
        let old = old.ok_or_else(|| refused("ListenerNotFound", format!("Listener '{arn}' not found")))?;
        let mut call = call.clone();
        let params = &mut call.params;
        params.0.retain(|(key, _)| key != "ListenerArn");
        params.set("Action", "CreateListener");
        params.set("LoadBalancerArn", old.text("LoadBalancerArn"));
        for key in ["Port", "Protocol"] {
            if !params.has(key) {
                params.set(key, old.text(key));
            }
        }
        if params.items("DefaultActions.member").is_empty() {
            params.set("DefaultActions.member.1.Type", "forward");
            params.set(TARGET, old.text("DefaultActions/member/TargetGroupArn"));
        }
        if params.get("Protocol") == "TLS" {
            if !params.has("SslPolicy") {
                params.set("SslPolicy", old.text("SslPolicy"));
            }
            if params.items("Certificates.member").is_empty() && old.text("Protocol") == "TLS" {
                params.set("Certificates.member.1.CertificateArn", old.text("Certificates/member/CertificateArn"));
            }
        }
        self.check_listener(&call.params, arn).await?;
        for (index, (key, value)) in self.tags_of(arn).await?.into_iter().enumerate() {
            call.params.set(&format!("Tags.member.{}.Key", index + 1), &key);
            call.params.set(&format!("Tags.member.{}.Value", index + 1), &value);
        }
        if call.params.get("Protocol") == "TLS" {
            // moto knows which certificates there are. Tried elsewhere first, so that its refusal leaves the old one as it is.
            let mut probe = call.clone();
            probe.params.set("Port", "65535");
            let probed = understood(self.forward(&probe).await)?;
            let probed = probed.text("CreateListenerResult/Listeners/member/ListenerArn").to_owned();
            self.ask(Api::Elbv2, "DeleteListener", &[("ListenerArn", &probed)]).await?;
        }
        self.ask(Api::Elbv2, "DeleteListener", &[("ListenerArn", arn)]).await?;
        let mut element = understood(self.forward(&call).await)?;
        let made = element.text("CreateListenerResult/Listeners/member/ListenerArn").to_owned();
        let own = self.kept.renewed.iter().find(|(_, motos)| *motos == arn).map(|(own, _)| own.clone());
        self.kept.renewed.insert(own.unwrap_or_else(|| arn.to_owned()), made);
        mend("CreateListenerResult")(&mut element);
        Ok(Answer::xml(200, element.write().replace("CreateListener", "ModifyListener")))
    }
}

impl World {
    /// Certificates that are there; moto takes any.
    pub(super) async fn add_certificates(&self, call: &Call) -> Outcome {
        for item in call.params.items("Certificates.member") {
            let arn = item.get("CertificateArn");
            let body = serde_json::json!({ "CertificateArn": arn }).to_string();
            let question = plain(Api::Other, &self.region, "CertificateManager.DescribeCertificate", "/", body.into());
            if !arn.contains(":server-certificate/") && self.forward(&question).await.status != 200 {
                return Err(refused("CertificateNotFound", format!("Certificate '{arn}' not found")));
            }
        }
        Ok(self.forward(call).await)
    }
}

/// The target group that an action leads to, in either of its two forms.
fn forwarded(action: &Params) -> String {
    let plain = action.get("TargetGroupArn");
    let plain = if plain.is_empty() { action.get("ForwardConfig.TargetGroups.member.1.TargetGroupArn") } else { plain };
    plain.to_owned()
}

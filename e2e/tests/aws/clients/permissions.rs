//! A permission that is missing is named.

use super::*;

#[tokio::test]
async fn a_permission_that_is_missing_is_named() {
    let Some(world) = World::start() else { return };
    let zone = "<CreateHostedZoneRequest><Name>example.com</Name><CallerReference>1</CallerReference></CreateHostedZoneRequest>";
    world.route53("hostedzone", Some(zone));
    let keys = world.restrict(&["ec2:DescribeSubnets", "elasticloadbalancing:DescribeLoadBalancers"]);
    let account = world.session_of(keys).await.account();
    // moto checks the signatures now: this is allowed, and signed well by either client.
    let here = SubnetFilter { vpc: Some(world.vpc.clone()), ids: BTreeSet::new() };
    assert_eq!(account.ec2.describe_subnets(&here).await.expect("subnets").len(), 2);
    assert_eq!(account.network.describe_load_balancers(None).await, Ok(Vec::new()));
    let named = |error: AwsError| match error {
        AwsError::Unauthorized { action, .. } => action,
        other => panic!("{other:?}"),
    };
    let new = NewSecurityGroup {
        name: "k8s-a/b".to_owned(),
        description: "[k8s] with spaces + signs".to_owned(),
        vpc: world.vpc.clone(),
        tags: Tags::new(),
    };
    let error = account.ec2.create_security_group(&new).await.expect_err("not permitted");
    assert_eq!(named(error), "ec2:CreateSecurityGroup");
    let error = account.network.delete_target_group("arn:aws:x").await.expect_err("not permitted");
    assert_eq!(named(error), "elasticloadbalancing:DeleteTargetGroup");
    let error = account.classic.delete_classic("a").await.expect_err("not permitted");
    assert_eq!(named(error), "elasticloadbalancing:DeleteLoadBalancer");
}

#[tokio::test]
async fn a_service_is_told_which_permission_is_missing() {
    let Some(world) = World::start() else { return };
    let server = Server::start(&["--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112"]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    let Keys { id, secret } = world.restrict(&["ec2:Describe*", "elasticloadbalancing:Describe*"]);
    let config = server.folder().join("cloud.conf");
    let text = format!("[Global]\nVPC = {}\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n", world.vpc);
    std::fs::write(&config, text).expect("a file");
    let words = [
        "AWS_REGION=us-east-1".to_owned(),
        format!("AWS_ENDPOINT_URL={}", world.url),
        format!("AWS_ACCESS_KEY_ID={id}"),
        format!("AWS_SECRET_ACCESS_KEY={secret}"),
        twinstack().display().to_string(),
        "cloud-controller-manager".to_owned(),
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--cloud-config={}", config.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--log-level=debug".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let manager = Process::start("env", &words, &server.folder().join("ccm.log"));
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "annotations": {
            "service.beta.kubernetes.io/aws-load-balancer-type": "nlb",
            "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
        }},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let made = kubectl.run_with(&["apply", "-f", "-"], &service.to_string());
    assert!(made.success, "{}", made.stderr);
    let reported = wait_for(Duration::from_secs(120), || {
        let events = kubectl.run(&["get", "events", "-o", "jsonpath={.items[*].message}"]).stdout;
        events.contains("the controller's role needs ec2:CreateSecurityGroup").then_some(())
    });
    let log = manager.output();
    assert!(reported.is_some(), "no event names the permission:\n{log}");
    assert!(!log.contains(&secret), "the log has the secret");
    assert!(log.contains("ec2:CreateSecurityGroup") && log.contains("request_id"), "calls are not in the log:\n{log}");
}

//! What is sent to EC2 and what is read from it, in the forms that AWS documents.

use crate::{
    account::{
        Account, Direction, GroupFilter, InstanceFilter, NewSecurityGroup, Peer, Protocol, RouteTarget, Rule,
        SubnetFilter, Tags,
    },
    clients::testing::{Server, ok},
};
use net::Cidr;
use std::collections::BTreeSet;

async fn account(server: &Server) -> Account {
    server.session().await.account()
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a block")
}

fn rule(protocol: Protocol, peer: Peer, description: &str) -> Rule {
    Rule { protocol, peer, description: description.to_owned() }
}

const GROUPS: &str = "<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId><groupName>one</groupName><vpcId>vpc-1</vpcId>\
    <ipPermissions>\
      <item><ipProtocol>tcp</ipProtocol><fromPort>80</fromPort><toPort>81</toPort>\
        <groups><item><groupId>sg-9</groupId><userId>1</userId></item></groups>\
        <ipRanges><item><cidrIp>10.0.0.5/8</cidrIp><description>four</description></item></ipRanges>\
        <ipv6Ranges><item><cidrIpv6>2001:db8::/32</cidrIpv6><description>six</description></item></ipv6Ranges>\
        <prefixListIds><item><prefixListId>pl-1</prefixListId></item></prefixListIds></item>\
      <item><ipProtocol>icmpv6</ipProtocol><fromPort>2</fromPort><toPort>0</toPort><groups/><ipRanges/>\
        <ipv6Ranges><item><cidrIpv6>::/0</cidrIpv6></item></ipv6Ranges></item>\
      <item><ipProtocol>50</ipProtocol><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item>\
    </ipPermissions>\
    <ipPermissionsEgress><item><ipProtocol>-1</ipProtocol><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges>\
      <ipv6Ranges><item><cidrIpv6>::/0</cidrIpv6></item></ipv6Ranges></item></ipPermissionsEgress>\
    <tagSet><item><key>a</key><value>b</value></item></tagSet></item></securityGroupInfo>MORE</DescribeSecurityGroupsResponse>";

#[tokio::test]
async fn groups_are_read_rule_by_rule() {
    let server = Server::saying(vec![ok(&GROUPS.replace("MORE", ""))]);
    let filter = GroupFilter {
        vpc: Some("vpc-1".to_owned()),
        ids: BTreeSet::from(["sg-1".to_owned(), "sg-9".to_owned()]),
        ..GroupFilter::default()
    };
    let groups = account(&server).await.ec2.describe_security_groups(&filter).await.expect("groups");
    assert_eq!(
        server.bodies(),
        ["Action=DescribeSecurityGroups&Version=2016-11-15&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-1\
          &Filter.2.Name=group-id&Filter.2.Value.1=sg-1&Filter.2.Value.2=sg-9&MaxResults=1000"]
    );
    let web = Protocol::Tcp { from: 80, to: 81 };
    let ingress = [
        rule(web, Peer::Cidr(cidr("10.0.0.0/8")), "four"),
        rule(web, Peer::Cidr(cidr("2001:db8::/32")), "six"),
        rule(web, Peer::Group("sg-9".to_owned()), ""),
        rule(web, Peer::PrefixList("pl-1".to_owned()), ""),
        rule(Protocol::Icmpv6 { kind: 2, code: 0 }, Peer::Cidr(cidr("::/0")), ""),
        rule(Protocol::Number(50), Peer::Cidr(cidr("0.0.0.0/0")), ""),
    ];
    let described =
        |rules: &BTreeSet<Rule>| rules.iter().map(|rule| format!("{rule} {}", rule.description)).collect::<Vec<_>>();
    assert_eq!(described(&groups[0].ingress), described(&ingress.into()));
    let egress =
        [rule(Protocol::All, Peer::Cidr(cidr("0.0.0.0/0")), ""), rule(Protocol::All, Peer::Cidr(cidr("::/0")), "")];
    assert_eq!(groups[0].egress, egress.into());
    assert_eq!(groups[0].tags, Tags::from([("a".to_owned(), "b".to_owned())]));
}

#[tokio::test]
async fn pages_are_followed() {
    let more = GROUPS.replace("MORE", "<nextToken>t/2</nextToken>");
    let last = GROUPS.replace("MORE", "").replace("sg-1", "sg-2");
    let server = Server::saying(vec![ok(&more), ok(&last)]);
    let groups = account(&server).await.ec2.describe_security_groups(&GroupFilter::default()).await.expect("groups");
    let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    assert_eq!(ids, ["sg-1", "sg-2"]);
    assert!(server.bodies()[1].ends_with("&NextToken=t%2F2"), "{:?}", server.bodies());
}

#[tokio::test]
async fn long_lists_are_split() {
    let server = Server::saying(vec![ok("<DescribeSecurityGroupsResponse/>")]);
    let ids = (0..401).map(|number| format!("sg-{number}")).collect();
    let filter = GroupFilter { ids, ..GroupFilter::default() };
    account(&server).await.ec2.describe_security_groups(&filter).await.expect("groups");
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn rules_are_written_one_by_one() {
    let rules = BTreeSet::from([
        rule(Protocol::Tcp { from: 80, to: 80 }, Peer::Cidr(cidr("10.0.0.0/8")), "for a"),
        rule(Protocol::Udp { from: 53, to: 54 }, Peer::Cidr(cidr("2001:db8::/32")), ""),
        rule(Protocol::Icmpv6 { kind: 2, code: 0 }, Peer::Cidr(cidr("::/0")), ""),
        rule(Protocol::All, Peer::Group("sg-9".to_owned()), "x"),
    ]);
    let answer = "<Response><return>true</return></Response>";
    let server = Server::saying(vec![ok(answer)]);
    let account = account(&server).await;
    account.ec2.authorize("sg-1", Direction::Ingress, &rules).await.expect("authorized");
    account.ec2.revoke("sg-1", Direction::Egress, &rules).await.expect("revoked");
    let form = "&Version=2016-11-15&GroupId=sg-1\
                &IpPermissions.1.IpProtocol=tcp&IpPermissions.1.FromPort=80&IpPermissions.1.ToPort=80\
                &IpPermissions.1.IpRanges.1.CidrIp=10.0.0.0%2F8&IpPermissions.1.IpRanges.1.Description=for+a\
                &IpPermissions.2.IpProtocol=udp&IpPermissions.2.FromPort=53&IpPermissions.2.ToPort=54\
                &IpPermissions.2.Ipv6Ranges.1.CidrIpv6=2001%3Adb8%3A%3A%2F32\
                &IpPermissions.3.IpProtocol=icmpv6&IpPermissions.3.FromPort=2&IpPermissions.3.ToPort=0\
                &IpPermissions.3.Ipv6Ranges.1.CidrIpv6=%3A%3A%2F0\
                &IpPermissions.4.IpProtocol=-1&IpPermissions.4.Groups.1.GroupId=sg-9&IpPermissions.4.Groups.1.Description=x";
    let calls =
        ["AuthorizeSecurityGroupIngress", "RevokeSecurityGroupEgress"].map(|call| format!("Action={call}{form}"));
    assert_eq!(server.bodies(), calls);
}

#[tokio::test]
async fn a_rule_that_was_not_there_is_told() {
    let answer = "<Response><return>true</return><unknownIpPermissionSet><item><ipProtocol>tcp</ipProtocol><fromPort>1</fromPort>\
                  <toPort>1</toPort><ipv6Ranges><item><cidrIpv6>::/0</cidrIpv6></item></ipv6Ranges></item></unknownIpPermissionSet></Response>";
    let server = Server::saying(vec![ok(answer)]);
    let rules = BTreeSet::from([rule(Protocol::Tcp { from: 1, to: 1 }, Peer::Cidr(cidr("::/0")), "")]);
    let error = account(&server).await.ec2.revoke("sg-1", Direction::Ingress, &rules).await.expect_err("not there");
    assert_eq!(error.to_string(), "security group rule not found: tcp 1 with ::/0");
}

#[tokio::test]
async fn a_group_is_made_with_its_tags() {
    let server =
        Server::saying(vec![ok("<CreateSecurityGroupResponse><groupId>sg-7</groupId></CreateSecurityGroupResponse>")]);
    let new = NewSecurityGroup {
        name: "n".to_owned(),
        description: "[k8s] d".to_owned(),
        vpc: "vpc-1".to_owned(),
        tags: Tags::from([("kubernetes.io/cluster/c".to_owned(), "owned".to_owned())]),
    };
    assert_eq!(account(&server).await.ec2.create_security_group(&new).await.as_deref(), Ok("sg-7"));
    assert_eq!(
        server.bodies(),
        ["Action=CreateSecurityGroup&Version=2016-11-15&GroupName=n&GroupDescription=%5Bk8s%5D+d&VpcId=vpc-1\
          &TagSpecification.1.ResourceType=security-group&TagSpecification.1.Tag.1.Key=kubernetes.io%2Fcluster%2Fc\
          &TagSpecification.1.Tag.1.Value=owned"]
    );
}

#[tokio::test]
async fn of_subnets_only_associated_ipv6_blocks_count() {
    let block = |cidr: &str, state: &str| {
        format!(
            "<item><ipv6CidrBlock>{cidr}</ipv6CidrBlock><ipv6CidrBlockState><state>{state}</state></ipv6CidrBlockState></item>"
        )
    };
    let blocks = [
        block("2001:db8:1::/64", "disassociated"),
        block("2001:db8:2::/64", "associated"),
        block("2001:db8:3::/64", "associating"),
    ];
    let answer = format!(
        "<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><availabilityZone>us-east-1a</availabilityZone>\
         <cidrBlock>10.0.0.0/24</cidrBlock><availableIpAddressCount>250</availableIpAddressCount>\
         <ipv6CidrBlockAssociationSet>{}</ipv6CidrBlockAssociationSet></item>\
         <item><subnetId>subnet-2</subnetId><ipv6Native>true</ipv6Native></item></subnetSet></DescribeSubnetsResponse>",
        blocks.concat()
    );
    let server = Server::saying(vec![ok(&answer)]);
    let subnets = account(&server).await.ec2.describe_subnets(&SubnetFilter::default()).await.expect("subnets");
    assert_eq!(subnets[0].ipv4, Some(cidr("10.0.0.0/24")));
    assert_eq!(subnets[0].ipv6, [cidr("2001:db8:2::/64")]);
    assert_eq!((subnets[0].zone.as_str(), subnets[0].free_ipv4), ("us-east-1a", 250));
    assert_eq!((subnets[1].ipv4, subnets[1].ipv6.len()), (None, 0));
}

#[tokio::test]
async fn instances_are_read_with_addresses_of_both_families() {
    let interface = |index: u32, primary: &str| {
        format!(
            "<item><networkInterfaceId>eni-{index}</networkInterfaceId><attachment><deviceIndex>{index}</deviceIndex></attachment>\
             <groupSet><item><groupId>sg-{index}</groupId></item></groupSet>\
             <privateIpAddressesSet><item><privateIpAddress>10.0.{index}.9</privateIpAddress><primary>false</primary></item>\
             <item><privateIpAddress>10.0.{index}.4</privateIpAddress><primary>true</primary></item></privateIpAddressesSet>\
             <ipv6AddressesSet><item><ipv6Address>2001:db8::{index}:1</ipv6Address><isPrimaryIpv6>false</isPrimaryIpv6></item>\
             <item><ipv6Address>2001:db8::{index}:2</ipv6Address><isPrimaryIpv6>{primary}</isPrimaryIpv6></item></ipv6AddressesSet></item>"
        )
    };
    let leaving = interface(2, "false").replacen("<item>", "<item><status>detaching</status>", 1);
    let answer = format!(
        "<DescribeInstancesResponse><reservationSet><item><groupSet/><instancesSet><item><instanceId>i-1</instanceId>\
         <instanceState><code>16</code><name>running</name></instanceState><instanceType>m6i.large</instanceType>\
         <placement><availabilityZone>us-east-1a</availabilityZone></placement><vpcId>vpc-1</vpcId><subnetId>subnet-1</subnetId>\
         <privateDnsName>ip-10-0-0-4.ec2.internal</privateDnsName><dnsName/><ipAddress>192.0.2.7</ipAddress>\
         <networkInterfaceSet>{}{}{leaving}</networkInterfaceSet></item></instancesSet></item></reservationSet></DescribeInstancesResponse>",
        interface(1, "false"),
        interface(0, "true"),
    );
    let server = Server::saying(vec![ok(&answer)]);
    let filter = InstanceFilter { ids: BTreeSet::from(["i-1".to_owned()]), ..InstanceFilter::default() };
    let instance = account(&server).await.ec2.describe_instances(&filter).await.expect("instances").remove(0);
    assert_eq!((instance.state.as_str(), instance.zone.as_str()), ("running", "us-east-1a"));
    assert_eq!(instance.public_ipv4.map(|address| address.to_string()).as_deref(), Some("192.0.2.7"));
    assert_eq!(instance.public_dns, "");
    let first = &instance.interfaces[0];
    let text = |addresses: Vec<String>| addresses.join(" ");
    assert_eq!((first.id.as_str(), first.device_index, first.primary_ipv6), ("eni-0", 0, true));
    assert_eq!(text(first.ipv4.iter().map(ToString::to_string).collect()), "10.0.0.4 10.0.0.9");
    assert_eq!(text(first.ipv6.iter().map(ToString::to_string).collect()), "2001:db8::2 2001:db8::1");
    assert!(!instance.interfaces[1].primary_ipv6);
    assert_eq!(instance.interfaces.len(), 2, "one that is leaving does not count");
    assert_eq!(instance.interfaces[1].security_groups, BTreeSet::from(["sg-1".to_owned()]));
}

#[tokio::test]
async fn route_tables_are_read_and_routes_written_in_both_families() {
    let answer = "<DescribeRouteTablesResponse><routeTableSet><item><routeTableId>rtb-1</routeTableId><vpcId>vpc-1</vpcId><routeSet>\
        <item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><gatewayId>igw-1</gatewayId><state>active</state></item>\
        <item><destinationIpv6CidrBlock>::/0</destinationIpv6CidrBlock><egressOnlyInternetGatewayId>eigw-1</egressOnlyInternetGatewayId></item>\
        <item><destinationIpv6CidrBlock>fd00:10::/64</destinationIpv6CidrBlock><instanceId>i-1</instanceId><networkInterfaceId>eni-1</networkInterfaceId>\
        <state>blackhole</state></item><item><destinationPrefixListId>pl-1</destinationPrefixListId><networkInterfaceId>eni-2</networkInterfaceId></item>\
        </routeSet><associationSet><item><main>true</main></item><item><subnetId>subnet-1</subnetId><main>false</main></item></associationSet>\
        </item></routeTableSet></DescribeRouteTablesResponse>";
    let server = Server::saying(vec![ok(answer), ok("<Response><return>true</return></Response>")]);
    let account = account(&server).await;
    let table = account.ec2.describe_route_tables("vpc-1").await.expect("tables").remove(0);
    assert!(table.main);
    assert_eq!(table.subnets, BTreeSet::from(["subnet-1".to_owned()]));
    let described: Vec<(Option<String>, RouteTarget, bool)> = table
        .routes
        .iter()
        .map(|route| (route.to.map(|to| to.to_string()), route.via.clone(), route.blackhole))
        .collect();
    assert_eq!(
        described,
        [
            (Some("0.0.0.0/0".to_owned()), RouteTarget::Gateway("igw-1".to_owned()), false),
            (Some("::/0".to_owned()), RouteTarget::Other("eigw-1".to_owned()), false),
            (Some("fd00:10::/64".to_owned()), RouteTarget::Instance("i-1".to_owned()), true),
            (None, RouteTarget::Interface("eni-2".to_owned()), false),
        ]
    );
    let via = RouteTarget::Instance("i-1".to_owned());
    account.ec2.create_route("rtb-1", cidr("10.128.0.0/24"), &via).await.expect("a route");
    account.ec2.delete_route("rtb-1", cidr("fd00:10::/64")).await.expect("no route");
    let bodies = server.bodies();
    assert_eq!(
        bodies[1..],
        [
            "Action=CreateRoute&Version=2016-11-15&RouteTableId=rtb-1&DestinationCidrBlock=10.128.0.0%2F24&InstanceId=i-1",
            "Action=DeleteRoute&Version=2016-11-15&RouteTableId=rtb-1&DestinationIpv6CidrBlock=fd00%3A10%3A%3A%2F64",
        ]
    );
    let refused = account.ec2.create_route("rtb-1", cidr("::/0"), &RouteTarget::Other("x".to_owned())).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn nothing_is_asked_for_no_ids() {
    let server = Server::saying(vec![]);
    let account = account(&server).await;
    assert_eq!(account.ec2.create_tags(&[], &Tags::new()).await, Ok(()));
    assert!(server.asked().is_empty());
}

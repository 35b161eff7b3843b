#!/usr/bin/env bash
# The support steps for dual-stack ingress on AWS, those that need the API and DNS: says what it sees and stops at what is not as it should be.
# usage: support.sh CONTROLLER [DIG...], with KUBECTL as the program to ask the API; DIG is how DNS is asked, such as: dig -p 5353 @127.0.0.1
set -euo pipefail
controller=${1:?name of the IngressController}
shift
kubectl=${KUBECTL:-kubectl}

wrong() { echo "WRONG: $*"; exit 1; }
seen() { echo "ok: $*"; }

# 1. The cluster is installed with dual-stack.
family=$($kubectl get infrastructure cluster -o jsonpath='{.status.platformStatus.aws.ipFamily}')
case $family in
DualStackIPv4Primary) families='["IPv4","IPv6"]' ;;
DualStackIPv6Primary) families='["IPv6","IPv4"]' ;;
*) wrong "the cluster's ipFamily is '$family', which is not dual-stack" ;;
esac
seen "the cluster is $family"

# 2. The IngressController says that its load balancer is ready and dual-stack.
for condition in LoadBalancerReady LoadBalancerDualStack DNSReady; do
    status=$($kubectl -n openshift-ingress-operator get ingresscontroller "$controller" -o jsonpath="{.status.conditions[?(@.type=='$condition')].status}")
    [ "$status" = True ] || wrong "$condition of the IngressController is '$status'"
    seen "the IngressController is $condition"
done

# 4. The Service has both families and a host name.
service="$kubectl -n openshift-ingress get svc router-$controller -o"
[ "$($service jsonpath='{.spec.ipFamilyPolicy}')" = RequireDualStack ] || wrong "ipFamilyPolicy of the Service"
[ "$($service jsonpath='{.spec.ipFamilies}' | tr -d ' ' | sed 's/^\[IPv/["IPv/; s/\([46]\)IPv/\1","IPv/; s/\([46]\)\]$/\1"]/')" = "$families" ] ||
    wrong "ipFamilies of the Service are $($service jsonpath='{.spec.ipFamilies}')"
host=$($service jsonpath='{.status.loadBalancer.ingress[0].hostname}')
[ -n "$host" ] || wrong "the Service has no host name"
seen "the Service has $families and $host"

# 6. The platform is AWS and the load balancer is an NLB.
[ "$($kubectl get infrastructure cluster -o jsonpath='{.status.platformStatus.type}')" = AWS ] || wrong "the platform"
[ "$($service jsonpath='{.metadata.annotations.service\.beta\.kubernetes\.io/aws-load-balancer-type}')" = nlb ] || wrong "the load balancer is not an NLB"
seen "the load balancer is an NLB on AWS"

# 7. The record is published in each zone.
published=$($kubectl -n openshift-ingress-operator get dnsrecord "$controller-wildcard" -o jsonpath="{.status.zones[*].conditions[?(@.type=='Published')].status}")
[ -n "$published" ] && [ -z "${published//True/}" ] || [ -z "$(echo "${published//True/}" | tr -d ' ')" ] || wrong "the record is published: $published"
seen "the record is published in each zone"

[ $# -gt 0 ] || exit 0
domain=$($kubectl -n openshift-ingress-operator get ingresscontroller "$controller" -o jsonpath='{.status.domain}')
for type in A AAAA; do
    # 5. The NLB's name has addresses of both families. 8. So has a name of the wildcard domain, the same ones.
    direct=$("$@" "$type" "$host" +short | sort)
    through=$("$@" "$type" "console.$domain" +short | sort)
    [ -n "$direct" ] || wrong "$host has no $type"
    [ "$direct" = "$through" ] || wrong "$type of console.$domain is '$through', not '$direct'"
    seen "console.$domain and $host have the same $type: $(echo $direct)"
done

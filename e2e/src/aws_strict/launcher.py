"""moto's server, without two limits that AWS does not have; the proxy in front of it has AWS's own. It ends with whoever started it,
and takes its folder with it. usage: launcher.py PORT"""

import logging
import os
import pathlib
import shutil
import sys
import threading
import time

from moto.ec2.models import security_groups
from moto.elbv2 import models as elbv2
from moto.server import main
from werkzeug.serving import WSGIRequestHandler


def any_number_of_rules(*_args, **_named):
    """AWS counts 60 rules for each family, moto 60 of both together."""


def any_number_of_subnets(self, arn, subnets, subnet_mappings):
    """A network load balancer may be in one zone only."""
    ids = list(subnets) + [mapping["SubnetId"] for mapping in subnet_mappings]
    balancer = self.load_balancers[arn]
    balancer.subnets = [self.ec2_backend.get_subnet(one) for one in ids]
    return [elbv2.AvailabilityZone(subnet) for subnet in balancer.subnets]


def end_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    shutil.rmtree(pathlib.Path(__file__).parent, ignore_errors=True)
    os._exit(0)


threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
security_groups.SecurityGroupBackend._verify_group_will_respect_rule_count_limit = any_number_of_rules
elbv2.ELBv2Backend.set_subnets = any_number_of_subnets
WSGIRequestHandler.protocol_version = "HTTP/1.1"
logging.getLogger("werkzeug").setLevel(logging.ERROR)
main(["-H", "127.0.0.1", "-p", sys.argv[1]])

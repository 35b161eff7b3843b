"""moto's server, without two limits that AWS does not have; the proxy in front of it has AWS's own. What took it most of its time is done
once. It ends with whoever started it, and takes its folder with it. usage: launcher.py PORT"""

import functools
import logging
import os
import pathlib
import shutil
import sys
import threading
import time

# Nobody asks for images, and each account would begin with a thousand. Read when moto is imported.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"

from cryptography.hazmat.primitives.asymmetric import rsa
from moto import backends
from moto.core import responses
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
# A key for each certificate, a look into each folder of moto's for each request, and at each method of the class that answers it.
rsa.generate_private_key = functools.cache(rsa.generate_private_key)
modules = frozenset(backends.list_of_moto_modules())
backends.list_of_moto_modules = lambda: modules
responses.method_names_from_class = functools.cache(responses.method_names_from_class)
WSGIRequestHandler.protocol_version = "HTTP/1.1"
logging.getLogger("werkzeug").setLevel(logging.ERROR)
main(["-H", "127.0.0.1", "-p", sys.argv[1]])

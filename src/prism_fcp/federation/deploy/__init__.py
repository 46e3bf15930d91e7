"""A real deployment: certificates, keys, Flower's programs under supervision, and nothing left behind."""

from prism_fcp.federation.deploy.certificates import Certificates, certificate_paths, make_certificates
from prism_fcp.federation.deploy.deployment import Deployment
from prism_fcp.federation.deploy.local import LocalRun, run_local
from prism_fcp.federation.deploy.nodekeys import NodeKey, make_node_key, node_key_paths
from prism_fcp.federation.deploy.program import DeploymentError

__all__ = [
    "Certificates",
    "Deployment",
    "DeploymentError",
    "LocalRun",
    "NodeKey",
    "certificate_paths",
    "make_certificates",
    "make_node_key",
    "node_key_paths",
    "run_local",
]

"""Train together, calibrate together, and say how far the result can be trusted while some clients lie.

Three phases, three rooms: `prism_fcp.train` (with `prism_fcp.engines.train` to run it), `prism_fcp.calibrate`, and
`Predictor`. `prism_fcp.pipeline` runs them in one go. This page only lists the names most programs need.
"""

from typing import TYPE_CHECKING, Any

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import PrismError
from prism_fcp.evaluation import evaluate
from prism_fcp.fitted import load_model
from prism_fcp.pipeline import CalibrationSettings, Method, Setup, run_trial
from prism_fcp.predict import Predictor
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

if TYPE_CHECKING:
    from prism_fcp.theory.planner import Plan, plan

__version__ = "0.1.0"

__all__ = [
    "Arm",
    "CalibrationSettings",
    "Choice",
    "Federation",
    "Masks",
    "Method",
    "Plan",
    "Predictor",
    "PrismError",
    "Setup",
    "SyntheticLinear",
    "__version__",
    "evaluate",
    "load_model",
    "plan",
    "run_trial",
]


def __getattr__(name: str) -> Any:
    """Load the planner when it is asked for: few programs plan, and all wait for the import."""
    if name in ("Plan", "plan"):
        from prism_fcp.theory import planner

        return getattr(planner, name)
    raise AttributeError(f"module 'prism_fcp' has no attribute {name!r}")

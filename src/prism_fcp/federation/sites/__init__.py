"""Sites ready to use: a model of this package, scikit-learn's linear estimators, PyTorch modules, JAX trees.

Bringing one takes its rows and the model:

    rows = SiteRows.cut("north", as_table("north", features, target))
    site = torch_site(rows, make_module, torch.optim.Adam)
"""

from prism_fcp.federation.sites.agree import Agreed, Description, agree, agree_on, describe
from prism_fcp.federation.sites.jax import jax_site
from prism_fcp.federation.sites.learning import Learner, Lesson, RowsSite
from prism_fcp.federation.sites.rows import SiteRows, as_table
from prism_fcp.federation.sites.scikit import estimator_site
from prism_fcp.federation.sites.table import table_site
from prism_fcp.federation.sites.torch import torch_site

__all__ = [
    "Agreed",
    "Description",
    "Learner",
    "Lesson",
    "RowsSite",
    "SiteRows",
    "agree",
    "agree_on",
    "as_table",
    "describe",
    "estimator_site",
    "jax_site",
    "table_site",
    "torch_site",
]

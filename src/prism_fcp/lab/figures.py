"""Pictures of results, as PNG and SVG. Matplotlib is loaded here and nowhere else, and only when a picture is due."""

from __future__ import annotations

import io as memory
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from prism_fcp import io
from prism_fcp.errors import MissingExtraError
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.plots_clients import histograms, intervals, scores
from prism_fcp.lab.plots_sweeps import count, energy, noise, quantile
from prism_fcp.lab.plots_tables import widths

# Each plot fills an empty figure.
PLOTS: Final[dict[str, Callable[[Any, Comparison, Sequence[ClientView]], None]]] = {
    "widths": widths,
    "quantile": quantile,
    "energy": energy,
    "count": count,
    "noise": noise,
    "histograms": histograms,
    "scores": scores,
    "intervals": intervals,
}
FROM_CLIENTS: Final = frozenset({"histograms", "scores", "intervals"})  # these need clients.json

_STYLE: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "prism-fcp",  # the same picture gives the same file
    "figure.facecolor": "white",
}


def draw(comparison: Comparison, clients: Sequence[ClientView], kinds: Sequence[str], folder: Path) -> list[Path]:
    """Draw each kind into `folder`, twice: PNG and SVG."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "pictures need matplotlib: pip install 'prism-fcp[plots]'; tables are complete"
        ) from error
    # A user's own matplotlibrc must not change the pictures; the backend is left alone, no picture needs one.
    plain = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    paths = []
    for kind in kinds:
        with matplotlib.rc_context(plain | _STYLE):
            figure = Figure(layout="constrained")
            FigureCanvasAgg(figure)
            PLOTS[kind](figure, comparison, clients)
            for suffix, options in (("png", {"dpi": 160}), ("svg", {"metadata": {"Date": None}})):
                picture = memory.BytesIO()
                figure.savefig(picture, format=suffix, **options)
                path = folder / f"{kind}.{suffix}"
                io.write_bytes(path, picture.getvalue())
                paths.append(path)
    return paths

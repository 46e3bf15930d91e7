"""Pictures of results, as PNG and SVG. Matplotlib is loaded here and nowhere else, and only when a picture is due."""

from __future__ import annotations

import io as memory
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from prism_fcp import io
from prism_fcp.errors import MissingExtraError
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.plots_clients import histograms, intervals, scores
from prism_fcp.lab.plots_data import layers, missed, tradeoff
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
    "tradeoff": tradeoff,
    "missed": missed,
    "layers": layers,
}
FROM_CLIENTS: Final = frozenset({"histograms", "scores", "intervals"})  # these need clients.json

# DejaVu comes with matplotlib; the others, where they are installed, have the letters it lacks.
_FONTS: Final = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Microsoft YaHei"]
_STYLE: Final[dict[Any, Any]] = {
    "font.family": _FONTS,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # titles and names are a user's: a dollar sign is a dollar sign
    "svg.hashsalt": "prism-fcp",  # the same picture gives the same file
    "figure.facecolor": "white",
}


def draw(comparison: Comparison, clients: Sequence[ClientView], kinds: Sequence[str], folder: Path) -> list[Path]:
    """Draw each kind into `folder`, twice: PNG and SVG. One that cannot be drawn is a warning, not an error."""
    paths: list[Path] = []
    for kind in kinds:
        paths += save(partial(_fill, kind, comparison, clients), folder / kind)
    return paths


def _fill(kind: str, comparison: Comparison, clients: Sequence[ClientView], figure: Any) -> None:
    PLOTS[kind](figure, comparison, clients)


def save(fill: Callable[[Any], None], stem: Path, size: tuple[float, float] | None = None) -> list[Path]:
    """Fill an empty figure and write it as STEM.png and STEM.svg; where that fails, warn and write neither."""
    with _quietly():
        try:
            with _without("MPLBACKEND"):  # no picture needs a backend, and a bad name would stop the import
                import matplotlib
                from matplotlib.backends.backend_agg import FigureCanvasAgg
                from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingExtraError(
                "pictures need matplotlib: pip install 'prism-fcp[plots]'; tables are complete"
            ) from error
        # A user's own matplotlibrc must not change the pictures; the backend is left alone, no picture needs one.
        plain = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
        drawn = {}
        try:
            with matplotlib.rc_context(plain | _STYLE):
                figure = Figure(layout="constrained", figsize=size)
                FigureCanvasAgg(figure)
                fill(figure)
                for suffix, options in (("png", {"dpi": 160}), ("svg", {"metadata": {"Date": None}})):
                    picture = memory.BytesIO()
                    figure.savefig(picture, format=suffix, **options)
                    drawn[stem.with_name(f"{stem.name}.{suffix}")] = picture.getvalue()
        except Exception as error:  # the numbers are computed and saved: a picture must not lose them
            failed = f"picture {stem.name!r} cannot be drawn ({type(error).__name__}: {error}); tables are complete"
            for suffix in ("png", "svg"):
                io.discard(stem.with_name(f"{stem.name}.{suffix}"))  # an earlier run's would be taken for this one's
        else:
            failed = ""
            for path, content in drawn.items():
                io.write_bytes(path, content)
    if failed:
        warnings.warn(failed, stacklevel=3)
    return [] if failed else list(drawn)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep matplotlib from telling of missing fonts, letters and cache folders, which no reader can act on."""
    logger = logging.getLogger("matplotlib")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            for message in (r"Glyph .* missing", r"constrained_layout not applied", r".*[Mm]atplotlib.*(cache|config)"):
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        logger.setLevel(before)


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Take a variable out of the environment for a while."""
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value

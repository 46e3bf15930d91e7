"""Pictures of results, as PNG and SVG. Matplotlib is loaded here and nowhere else, and only when a picture is due."""

from __future__ import annotations

import io as memory
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from prism_fcp import io
from prism_fcp.errors import MissingExtraError, SettingError
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.plots_clients import histograms, intervals, scores
from prism_fcp.lab.plots_data import layers, learning, missed, tradeoff
from prism_fcp.lab.plots_partition import partition
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
    "learning": learning,
    "partition": partition,
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

_FORMATS: Final[dict[str, dict[str, Any]]] = {"png": {"dpi": 160}, "svg": {"metadata": {"Date": None}}}


def draw(comparison: Comparison, clients: Sequence[ClientView], kinds: Sequence[str], folder: Path) -> list[Path]:
    """Draw each kind into `folder`, twice: PNG and SVG. One that cannot be drawn is a warning, not an error."""

    def fill(kind: str) -> Callable[[Any], None]:
        return lambda figure: PLOTS[kind](figure, comparison, clients)

    return paint({kind: fill(kind) for kind in kinds}, folder)


def paint(fills: Mapping[str, Callable[[Any], None]], folder: Path) -> list[Path]:
    """Draw pictures by name, each with what fills its empty figure; see `draw`."""
    with _quietly():
        matplotlib, figure_class, canvas = _loaded("tables are complete")
        style = _style(matplotlib)
        paths, failed = [], []
        for kind, fill in fills.items():
            drawn = {}
            try:
                with matplotlib.rc_context(style):
                    figure = figure_class(layout="constrained")
                    canvas(figure)
                    fill(figure)
                    for suffix, options in _FORMATS.items():
                        picture = memory.BytesIO()
                        figure.savefig(picture, format=suffix, **options)
                        drawn[folder / f"{kind}.{suffix}"] = picture.getvalue()
            except Exception as error:  # the numbers are computed and saved: a picture must not lose them
                failed.append(
                    f"picture {kind!r} cannot be drawn ({type(error).__name__}: {error}); tables are complete"
                )
                for suffix in ("png", "svg"):
                    io.discard(folder / f"{kind}.{suffix}")  # an earlier run's would be taken for this one's
                continue
            for path, content in drawn.items():
                io.write_bytes(path, content)
                paths.append(path)
    for told in failed:
        warnings.warn(told, stacklevel=2)
    return paths


def draw_one(fill: Callable[[Any], None], path: Path, remedy: str) -> None:
    """Draw a single picture into a file, PNG or SVG by its name; `remedy` says what to do if it is neither."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in _FORMATS:
        raise SettingError(f"picture {path}; the name must end in .png or .svg: {remedy}")
    with _quietly():
        matplotlib, figure_class, canvas = _loaded("everything else works without")
        with matplotlib.rc_context(_style(matplotlib)):
            figure, content = figure_class(layout="constrained"), memory.BytesIO()
            canvas(figure)
            fill(figure)
            figure.savefig(content, format=suffix, **_FORMATS[suffix])
    io.write_bytes(path, content.getvalue(), remedy)


def _loaded(otherwise: str) -> tuple[Any, Any, Any]:
    """Return matplotlib, its figures and their canvas."""
    try:
        with _without("MPLBACKEND"):  # no picture needs a backend, and a bad name would stop the import
            import matplotlib
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(f"pictures need matplotlib: pip install 'prism-fcp[plots]'; {otherwise}") from error
    return matplotlib, Figure, FigureCanvasAgg


def _style(matplotlib: Any) -> dict[Any, Any]:
    """A user's own matplotlibrc must not change the pictures; the backend is left alone, no picture needs one."""
    return {k: value for k, value in matplotlib.rcParamsDefault.items() if not k.startswith("backend")} | _STYLE


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

"""The demo: a federation under attack, told in plain words from what its few trials found."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prism_fcp.lab.catalog import named
from prism_fcp.lab.checks import Figure
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.result import Row
from prism_fcp.lab.spec import Experiment
from prism_fcp.lab.tables import MEDIUM, bar, engine_words, row_name, tell_ledgers

TRIALS: Final = 3


def demo_experiment() -> Experiment:
    """Return the paper's first table at a few trials, with every picture that needs one trial only."""
    table = named("table-synthetic")
    figures: tuple[Figure, ...] = ("widths", "histograms", "scores", "intervals")
    resolved = {**table.resolved, "name": "demo", "trials": TRIALS, "figures": list(figures)}
    title = "Train, calibrate and predict while 20 of 100 clients lie"
    return replace(table, name="demo", title=title, trials=TRIALS, figures=figures, explain=1, resolved=resolved)


def tell(
    comparison: Comparison, clients: Sequence[ClientView], files: Sequence[Path], missing: str, out: Console
) -> None:
    """Answer, in this order: who attacked, who was caught, how wide, does it cover, what was sent, what was saved."""
    spec, rows = comparison.result.spec, [judged.row for judged in comparison.rows]
    federation, calibration = spec["federation"], spec["calibration"]
    defended = next(row for row in rows if row.method == "PRISM-FCP")
    views = [view for view in clients if view.trial == 0 and view.method.startswith("PRISM-FCP")]
    attackers = views[0].attackers
    level = f"{100 * calibration['confidence_level']:g} %"
    k, d, m = federation["num_clients"], federation["dimension"], round(defended.share * federation["dimension"])

    _heading(out, f"PRISM-FCP demo: {k} clients learn one model together; {len(attackers)} of them lie")
    for step in (
        f"Train: {federation['rounds']:,} rounds; {federation['num_participants']} random clients a round share "
        f"{m} of the model's {d} numbers. A selected attacker adds noise to what it uploads, with probability "
        f"{federation['attack'].get('probability', 1):g}.",
        f"Calibrate: every client sends {calibration['samples']:,} prediction errors; attackers send all zeros "
        "(efficiency attack), huge ones (coverage attack) or noisy ones (random attack). The server leaves out the "
        f"{len(attackers)} clients whose histograms look strangest.",
        f"Predict: honest clients get intervals meant to hold the truth {level} of the time.",
    ):
        _say(out, f"- {step}")
    _heading(out, "Who attacked (trial 1; ids are shuffled, so a number tells nothing)")
    _say(out, f"clients {_ids(attackers)}")

    _heading(out, "Who was caught (trial 1, PRISM-FCP; it is told how many attackers there are, not which)")
    for view in views:
        _say(out, _caught(view))
    strangest = max(range(k), key=lambda client: views[-1].scores[client])
    _say(out, f"for example, {views[-1].attack} attack, client {strangest}: {views[-1].reasons[strangest]}")
    caught = ", ".join(f"{row.true_positives:.3g} ({row.attack})" for row in rows if row.method == "PRISM-FCP")
    _say(out, f"caught on average over {comparison.result.trials} trials: {caught} of {len(attackers)}")

    if comparison.result.ledgers:
        _heading(out, "Who was left out in training already")
        tell_ledgers(comparison.result, out)
    _heading(
        out,
        f"How wide the intervals are, and whether they cover (target {level}, mean of {comparison.result.trials} "
        "trials)",
    )
    out.print(_widths(rows, 100 * calibration["confidence_level"], out.width))
    _heading(out, "What this shows")
    for number, line in enumerate(_findings(rows, defended), 1):
        _say(out, f"{number}. {line}")

    _heading(out, "What was sent")
    full = next(row for row in rows if row.method == "FCP")
    _say(
        out,
        f"{row_name(defended)} uploads {defended.bytes_up_per_round:,.0f} bytes a round "
        f"({federation['num_participants']} clients x {m} numbers x 4 bytes), {100 * defended.share:.0f} % of the "
        f"{full.bytes_up_per_round:,.0f} bytes of {row_name(full)} and Rob-FCP (1.0). Local and Floor send nothing.",
    )
    training = defended.bytes_up_per_round * federation["rounds"] / k
    scores, bins = calibration["samples"], calibration["bins"]
    _say(
        out,
        f"For calibration every client sends {4 * scores:,} bytes once ({scores:,} scores x 4 bytes), beside the "
        f"{training:,.0f} it sends on average in all of the training; its histogram alone ({bins} counts x 4 bytes) "
        f"would be {4 * bins} bytes.",
    )
    _heading(out, f"What was saved in {files[0].parent}")
    about = {
        "result.json": "every number above, with settings, seed and versions",
        "experiment.toml": "every setting: copy it, edit it, prism-fcp run it",
        "table.csv": "the table, one column a number",
        "clients.json": "trial 1 client by client: who was judged how, and why",
        "widths": "interval widths and coverage",
        "histograms": "what the server saw of honest and lying clients",
        "scores": "how strange each client looked",
        "intervals": "every method's intervals around 30 true values",
    }
    for path in files:
        if path.suffix != ".svg":
            name = f"{path.name} (and .svg)" if path.suffix == ".png" else path.name
            out.print(f"{name:25} {about.get(path.name) or about.get(path.stem, '')}")
    if missing:
        out.print(missing)
    out.print()
    _say(
        out,
        f"seed {comparison.result.seed}, {engine_words(comparison.result)}, {comparison.result.seconds:.1f} s of "
        "computing. Next: prism-fcp reproduce table-synthetic",
    )


def _say(out: Console, text: str) -> None:
    """Print a paragraph at a width that reads well."""
    wrapped = textwrap.wrap(text, min(out.width, 112), subsequent_indent="  ", break_on_hyphens=False)
    out.print("\n".join(wrapped))


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _caught(view: ClientView) -> str:
    attackers, left_out = set(view.attackers), set(view.left_out)
    missed, accused = sorted(attackers - left_out), sorted(left_out - attackers)
    caught = sorted(attackers & left_out)
    whom = "all of them" if not missed else _ids(caught)
    return (
        f"{view.attack + ' attack:':18} caught {len(caught)} of {len(attackers)} ({whom}); "
        f"missed: {_ids(missed) or 'none'}; wrongly accused: {_ids(accused) or 'none'}"
    )


def _widths(rows: Sequence[Row], level: float, width: int) -> Table:
    wide_enough = width >= MEDIUM
    names = ("method (share)", *(("what it is",) if wide_enough else ()), "attack", "covers", "width", "x floor", "")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, int(wide_enough), 0, 0), show_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name in ("covers", "width", "x floor") else "left", no_wrap=True)
    about = {
        "PRISM-FCP": "partial sharing, filter", "Rob-FCP": "full sharing, filter", "FCP": "undefended",
        "Local": "never sends anything", "Floor": "knows the true model",
    }  # fmt: skip
    largest = max(row.width.mean or 0 for row in rows)
    floors = {row.attack: row.width.mean for row in rows if row.method == "Floor"}
    for method in dict.fromkeys(row.method for row in rows):
        table.add_section()
        own = [row for row in rows if row.method == method]
        same = method in ("Local", "Floor") and len({round(row.width.mean or 0, 2) for row in own}) == 1
        own = own[:1] if same else own  # no attack moves it
        told = [row_name(own[0]), about.get(method, "")]
        below = ["\n".join(told)] if len(own) == 1 else [*told, *[""] * len(own)]  # in one column, two lines
        for place, row in enumerate(own):
            covers, wide = row.coverage.mean or 0.0, row.width.mean or float("inf")
            off = abs(covers - level) > 0.5
            verdict = " too narrow" if covers < level - 0.5 else " too wide" if off else ""
            name = [below[place]] if not wide_enough else ["", ""] if place else told
            table.add_row(
                *name, "any" if same else row.attack, f"{covers:.1f} %", f"{wide:.2f}",
                f"{wide / (floors[row.attack] or wide):.1f}", bar(wide, largest, 24 if wide_enough else 8) + verdict,
                style="bold red" if off else "",
            )  # fmt: skip
    return table


def _findings(rows: Sequence[Row], defended: Row) -> list[str]:
    def of(method: str) -> list[Row]:
        return [row for row in rows if row.method == method and row.width.mean and row.coverage.mean]

    def told(row: Row) -> str:
        return f"{row.coverage.mean:.1f} % at width {row.width.mean:.2f}"

    bare = "; ".join(f"{told(row)} ({row.attack})" for row in of("FCP"))
    ours = " / ".join(dict.fromkeys(told(row) for row in of("PRISM-FCP")))
    lines = [
        f"Undefended, lies in calibration decide: FCP covers {bare}.",
        f"Filtered, they do not: PRISM-FCP covers {ours}, sending {100 * defended.share:.0f} % of what full sharing "
        "sends.",
    ]
    local, floor = of("Local"), of("Floor")
    if local and floor and defended.width.mean and (local[0].width.mean or 0) < defended.width.mean:
        lines.append(
            f"Yet clients that never share do better here: width {local[0].width.mean:.2f}, where the true model gives "
            f"{floor[0].width.mean:.2f}. With a robust rule such as the median, sharing does "
            "better than both: prism-fcp reproduce table-gaussian"
        )
    return lines


def _ids(clients: Sequence[int]) -> str:
    return ", ".join(map(str, clients))

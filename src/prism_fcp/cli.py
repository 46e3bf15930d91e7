"""The command line: parse, call, print.

Exit codes are a contract: 0 done; 1 a bug of ours; 2 something you can mend, said in one line; 3 `--check` found a row
that should reproduce and does not; 130 interrupted; 141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import threading
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from prism_fcp import __version__
from prism_fcp.errors import PrismError, SettingError, did_you_mean
from prism_fcp.exchange.arguments import HELP, add_commands
from prism_fcp.federation.arguments import add_commands as add_federate

OUT = Path("prism-results")
LONGEST = 1000  # characters of an error
EPILOG = """examples, on simulated federations:
  prism-fcp demo                                   a federation under attack, in seconds
  prism-fcp reproduce table-synthetic --quick      five trials of the paper's first table
  prism-fcp reproduce all --out results            every table and figure; interrupt and rerun as you like
  prism-fcp run --example > my.toml                an experiment of your own: edit it, then
  prism-fcp run my.toml
  prism-fcp compare results --check                ours beside the paper's, nothing recomputed
  prism-fcp plan --share 0.3                       width, bytes, rounds and step size before training
  prism-fcp gauntlet                               protocols against attacks, regime by regime
  prism-fcp gauntlet calibration                   score attacks against filters, in a few minutes

examples, data of your own:
  prism-fcp run --example data > my.toml           a table of yours: name it and its target, then
  prism-fcp run my.toml                            a calibrated predictor and a page that explains it
  prism-fcp predict new.csv --model prism-results/my/model.json --predictor prism-results/my/predictor.json

examples, a real federation on Flower:
  prism-fcp federate init hospitals                a project of four sites with example data, then
  prism-fcp federate run hospitals                 in this process, or
  prism-fcp federate local hospitals               on a deployment of its own, with TLS and keys

examples, calibrating a model of your own by files:
  prism-fcp spec --title "length of stay" --model model.bin -o spec.json       the agreement, for every site
  prism-fcp summarize scores.csv --spec spec.json --client north               a site: its scores in a small file
  prism-fcp calibrate inbox --spec spec.json -o result                         the coordinator: radii and verdicts
  prism-fcp report result/calibration.json -o page.html                        what happened, in one page

exit codes: 0 done, 1 internal error, 2 something to mend (one line says what), 3 --check failed, 130 interrupted
"""
PLANNING = """examples:
  prism-fcp plan --share 0.3                                   the paper's federation
  prism-fcp plan --share 0.3 --step-size best --plot width.png the best step size under attack; width against bytes
  prism-fcp plan --dimension 1000000 --share 0.1 --step-size best --attack-variance 1e-12
  prism-fcp plan --share 0.2 --masks common --download previous --rule median
  prism-fcp plan --wanted-coverage 0.88 --liars 1 --json       calibration scores for a certificate

The mean rule is predicted, docs/theory.md says how well; other rules are measured, and the first line says so.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage: an error is one line."""
        raise SettingError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    before = _handle_signals()
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or bool(os.environ.get("PRISM_FCP_DEBUG"))
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        _mend_streams()
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except PrismError as error:
        if debug:
            raise
        _tell(f"prism-fcp: error: {_one_line(error)}")
        return error.code
    except KeyboardInterrupt as interrupt:
        _tell(f"\nprism-fcp: {_interrupted(interrupt, arguments)}")
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except MemoryError:
        if debug:
            raise
        _tell(
            "prism-fcp: error: not enough memory; lower the largest of trials, rounds, num_clients, dimension, samples "
            "and bins, or take fewer --jobs"
        )
        return 2
    except Exception as error:
        if debug:
            raise
        if _of_output(error):
            _drop_output()
            _tell(f"prism-fcp: error: cannot write standard output: {_one_line(error)}; send it elsewhere")
            return 2
        _tell(
            f"prism-fcp: internal error: {type(error).__name__}: {_one_line(error)}; this is a bug; "
            "run again with --debug for the traceback"
        )
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _dispatch(arguments: list[str]) -> int:
    parser, commands = _parser()
    first = arguments[0] if arguments else ""
    if arguments and not first.startswith("-") and first not in commands:
        raise SettingError(f"unknown command {first!r}{did_you_mean(first, commands)}")
    if first.startswith("-") and first not in _options(parser):
        name = first.partition("=")[0]
        if any(name in _options(command) for command in commands.values()):
            raise SettingError(f"options follow the command: prism-fcp COMMAND {name} ...; see `prism-fcp --help`")
        raise SettingError(f"unknown argument {first!r}{did_you_mean(first, _options(parser))}")
    try:
        options, unknown = parser.parse_known_args(arguments)
    except SystemExit:  # --help and --version have printed
        return 0
    if unknown:
        known = _options(commands.get(options.command, parser))
        raise SettingError(f"unknown argument {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    if options.command is None:
        parser.print_help()
        return 0
    if options.command in HELP:
        from prism_fcp.exchange.commands import COMMANDS
    elif options.command == "federate":
        from prism_fcp.federation import needs_flower

        return int(needs_flower("prism_fcp.federation.commands").federate(options))
    elif options.command == "run":
        from prism_fcp.own.commands import COMMANDS
    elif options.command == "gauntlet":
        from prism_fcp.lab.gauntlet_command import COMMANDS
    else:
        from prism_fcp.lab.commands import COMMANDS  # the method and its tables, only now
    return COMMANDS[options.command](options)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]


def _parser() -> tuple[_Parser, dict[str, argparse.ArgumentParser]]:
    style: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(
        prog="prism-fcp",
        description="Byzantine-robust federated conformal prediction, from one command.",
        epilog=EPILOG,
        **style,
    )
    parser.add_argument("--version", action="version", version=f"prism-fcp {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks (anywhere on the line)")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=_Parser)

    demo = commands.add_parser("demo", help="a federation under attack, trained, calibrated and explained", **style)
    demo.add_argument("--seed", type=_whole, help="another seed, another federation (default 1)")
    _add_output(demo)

    reproduce = commands.add_parser(
        "reproduce", help="the paper's tables and figures by name, or all", **style,
        epilog="example:\n  prism-fcp reproduce table-synthetic table-gaussian --trials 100 --seed 7",
    )  # fmt: skip
    reproduce.add_argument("names", nargs="+", metavar="NAME", help="names as `prism-fcp list` shows them, or all")
    _add_running(reproduce)
    _add_output(reproduce)

    run = commands.add_parser(
        "run", help="a table of your own, or an experiment, from a TOML file", **style,
        epilog="examples:\n  prism-fcp run --example data > my.toml      from a table of yours to a predictor\n"
        "  prism-fcp run --example > my.toml           an experiment\n  prism-fcp run my.toml --trials 20",
    )  # fmt: skip
    run.add_argument("file", nargs="?", type=Path, metavar="FILE.toml", help='data = "table.csv", or an experiment')
    run.add_argument(
        "--example", nargs="?", const="experiment", metavar="data",
        help="print a commented experiment (or, with data, a project on a table of yours) with every key, and stop",
    )  # fmt: skip
    _add_running(run)
    _add_output(run)

    compare = commands.add_parser("compare", help="stored results beside the paper's; never recomputes", **style)
    compare.add_argument(
        "folder", nargs="?", type=Path, default=OUT, metavar="DIR", help=f"an --out folder (default {OUT})"
    )
    compare.add_argument("--check", action="store_true", help="exit 3 if a row that should reproduce does not")
    compare.add_argument("--json", metavar="FILE", help="write the comparison as JSON (- for standard output)")

    _add_planning(
        commands.add_parser(
            "plan", help="what a federation will do, before it trains", epilog=PLANNING, **style,
            description="Predict deviation, interval width, bytes, rounds and the best step size of a linear model.",
        )
    )  # fmt: skip

    catalogue = commands.add_parser("list", help="the experiments there are", **style)
    catalogue.add_argument("--json", nargs="?", const="-", metavar="FILE", help="as JSON (to FILE, or standard output)")

    gauntlet = commands.add_parser(
        "gauntlet", help="attacks against defences, every one against every other", **style,
        epilog="examples:\n  prism-fcp gauntlet                              regimes x training attacks x protocols\n"
        "  prism-fcp gauntlet --regime slow --attack push --trials 100\n"
        "  prism-fcp gauntlet --plugin mine.py --attack mine\n"
        "  prism-fcp gauntlet calibration                  calibration attacks x filters\n"
        "  prism-fcp gauntlet calibration --regime beta-50 --attack 'collude 3.5' --trials 50",
    )  # fmt: skip
    gauntlet.add_argument(
        "matrix", nargs="?", choices=("training", "calibration"), default="training",
        help="training (default): attacks against protocols; calibration: score attacks against filters",
    )  # fmt: skip
    _add_matrix(gauntlet)
    _add_output(gauntlet)
    add_commands(commands.add_parser, style)
    add_federate(commands.add_parser, style, _Parser)
    return parser, dict(commands.choices)


def _add_planning(parser: argparse.ArgumentParser) -> None:
    """Add the options of `plan`; defaults are the paper's synthetic section."""
    for name, default, told in (
        ("clients", 100, "clients K"), ("dimension", 50, "model dimension D"), ("byzantine", 20, "attackers B"),
        ("participants", 10, "clients a round"), ("rounds", 1000, "rounds of training"),
        ("samples", 1000, "calibration scores a client"), ("bins", 100, "histogram bins"),
        ("liars", 0, "attackers a certificate allows for among the kept"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=_whole, default=default, metavar="N", help=f"{told} (default {default})")
    for name, start, told in (
        ("share", None, "share M/D that travels (default 1)"), ("level", 0.9, "confidence level (default 0.9)"),
        ("attack-variance", 0.1, "variance of an attack's noise (default 0.1)"),
        ("attack-probability", 0.2, "chance of an attack a round (default 0.2)"),
        ("wanted-coverage", None, "least coverage a certificate is to promise"),
        ("guard", 0.05, "fraction of lies a guarded radius allows for (default 0.05)"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=float, default=start, metavar="X", help=told)
    parser.add_argument("--num-shared", type=_whole, metavar="M", help="in place of --share")
    parser.add_argument("--step-size", default="0.025", metavar="X", help="a number, or best (default 0.025)")
    parser.add_argument("--masks", default="client", help="drawn per client (default) or common")
    parser.add_argument(
        "--download", default="same", help="mask coming down: same (default), previous, independent, full"
    )
    parser.add_argument("--idle-rests", action="store_true", help="clients that are not chosen do not learn")
    parser.add_argument("--rule", default="mean", help="mean (default); others are measured on a small one")
    parser.add_argument("--scoring-model", default="local", help="local (default) or global")
    for name, ends in (("means", (-0.1, 0.1)), ("variances", (0.2, 1.2)), ("noise", (0.005, 0.025))):
        told = f"range of the clients' {'noise variances' if name == 'noise' else name} (default {ends[0]} {ends[1]})"
        parser.add_argument(f"--{name}", type=float, nargs=2, default=ends, metavar=("LOW", "HIGH"), help=told)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw width against bytes, .png or .svg")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="as JSON (to FILE, or standard output)")


def _add_running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=_whole, help="trials an experiment (default: the experiment's)")
    parser.add_argument("--seed", type=_whole, help="seed of everything random (default: the experiment's)")
    parser.add_argument("--jobs", type=_whole, help="trials side by side (default: one a core); changes no number")
    parser.add_argument("--engine", default="auto", help="auto (default), compiled, xla or readable")
    parser.add_argument("--quick", action="store_true", help="five trials unless --trials says otherwise")
    parser.add_argument("--fresh", action="store_true", help="forget finished trials and start over")
    parser.add_argument("--check", action="store_true", help="exit 3 if a row that should reproduce does not")
    parser.add_argument("--data", type=Path, metavar="FILE", help="the superconductivity data (UCI 464), CSV or npz")


def _add_matrix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--full", action="store_true", help="every regime, attack and protocol or filter, not the core alone"
    )
    parser.add_argument("--list", action="store_true", help="print the names there are, and stop")
    for name, where in (("regime", ""), ("attack", ""), ("protocol", " (training)"), ("filter", " (calibration)")):
        text = f"only this {name}, by its name in the table or the registry; may be repeated{where}"
        parser.add_argument(f"--{name}", action="append", metavar="NAME", help=text)
    text = "a file or module that registers attacks, filters or regimes of your own; may be repeated"
    parser.add_argument("--plugin", action="append", metavar="FILE.py", help=text)
    parser.add_argument("--trials", type=_whole, help="trials a cell (default 20)")
    parser.add_argument("--seed", type=_whole, help="seed of everything random (default 1)")
    parser.add_argument("--jobs", type=_whole, help="trials side by side (default: one a core); changes no number")
    parser.add_argument("--fresh", action="store_true", help="forget finished trials and start over")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"where results go (default {OUT})")
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON too (- for standard output)")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _interrupted(interrupt: KeyboardInterrupt, command: list[str]) -> str:
    folder = getattr(interrupt, "folder", None)
    again = "run the same command again to continue"
    if hasattr(interrupt, "finished"):
        return f"interrupted; {interrupt}{f', kept in {folder}' if folder else ''}; {again}"
    if command[:1] == ["federate"]:
        return f"interrupted; closed rounds are kept, {again}"
    return f"interrupted; finished trials are kept, {again}" if command[:1] != ["plan"] else "interrupted"


def _handle_signals() -> dict[int, Any]:
    """Take the end of a terminal, and of a job, for Ctrl-C; return what was done before, to be put back."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in found.items():
        if handler is not signal.SIG_IGN:  # nohup
            signal.signal(number, _terminate)
    return {number: handler for number, handler in found.items() if handler is not None}


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt  # the same clean way out as Ctrl-C


def _mend_streams() -> None:
    """Let output that is closed lead nowhere, and what its encoding cannot say become a question mark."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _of_output(error: Exception) -> bool:
    """Return whether this is standard output's: every other file's error is an `OutputError` before it gets here."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
    return isinstance(error, OSError) and error.filename is None and error.errno in full


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at exit


def _tell(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass  # there is nobody to tell; the exit code still does


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


if __name__ == "__main__":
    sys.exit(main())

"""The command line: parse, call, print.

Exit codes are a contract: 0 done; 1 a bug of ours; 2 something you can mend, said in one line; 3 `--check` found a row
that should reproduce and does not; 130 interrupted; 141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from prism_fcp import __version__
from prism_fcp.errors import PrismError, SettingError, did_you_mean

OUT = Path("prism-results")
EPILOG = """examples:
  prism-fcp demo                                   a federation under attack, in seconds
  prism-fcp reproduce table-synthetic --quick      five trials of the paper's first table
  prism-fcp reproduce all --out results            every table and figure; interrupt and rerun as you like
  prism-fcp run --example > my.toml                an experiment of your own: edit it, then
  prism-fcp run my.toml
  prism-fcp compare results --check                ours beside the paper's, nothing recomputed

exit codes: 0 done, 1 internal error, 2 something to mend (one line says what), 3 --check failed, 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage: an error is one line."""
        raise SettingError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or bool(os.environ.get("PRISM_FCP_DEBUG"))
    arguments = [argument for argument in arguments if argument != "--debug"]
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except PrismError as error:
        if debug:
            raise
        print(f"prism-fcp: error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt as interrupt:
        print(f"\nprism-fcp: {_interrupted(interrupt)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at exit
        return 141
    except Exception as error:
        if debug:
            raise
        print(
            f"prism-fcp: internal error: {type(error).__name__}: {' '.join(str(error).split())}; this is a bug; "
            "run again with --debug for the traceback",
            file=sys.stderr,
        )
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


def _dispatch(arguments: list[str]) -> int:
    parser, commands = _parser()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in commands:
        raise SettingError(f"unknown command {arguments[0]!r}{did_you_mean(arguments[0], commands)}")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        known = [option for action in commands[options.command]._actions for option in action.option_strings]
        raise SettingError(f"unknown argument {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    if options.command is None:
        parser.print_help()
        return 0
    from prism_fcp.lab.commands import COMMANDS  # the method and its tables, only now

    return COMMANDS[options.command](options)


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
        "run", help="an experiment of your own from a TOML file", **style,
        epilog="example:\n  prism-fcp run --example > my.toml\n  prism-fcp run my.toml --trials 20",
    )  # fmt: skip
    run.add_argument("file", nargs="?", type=Path, metavar="FILE.toml", help="the experiment")
    run.add_argument("--example", action="store_true", help="print a commented experiment with every key, and stop")
    _add_running(run)
    _add_output(run)

    compare = commands.add_parser("compare", help="stored results beside the paper's; never recomputes", **style)
    compare.add_argument(
        "folder", nargs="?", type=Path, default=OUT, metavar="DIR", help=f"an --out folder (default {OUT})"
    )
    compare.add_argument("--check", action="store_true", help="exit 3 if a row that should reproduce does not")
    compare.add_argument("--json", metavar="FILE", help="write the comparison as JSON (- for standard output)")

    catalogue = commands.add_parser("list", help="the experiments there are", **style)
    catalogue.add_argument("--json", nargs="?", const="-", metavar="FILE", help="as JSON (to FILE, or standard output)")
    return parser, dict(commands.choices)


def _add_running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=_whole, help="trials an experiment (default: the experiment's)")
    parser.add_argument("--seed", type=_whole, help="seed of everything random (default: the experiment's)")
    parser.add_argument("--jobs", type=_whole, help="trials side by side (default: one a core); changes no number")
    parser.add_argument("--engine", default="auto", help="auto (default), compiled or readable")
    parser.add_argument("--quick", action="store_true", help="five trials unless --trials says otherwise")
    parser.add_argument("--fresh", action="store_true", help="forget finished trials and start over")
    parser.add_argument("--check", action="store_true", help="exit 3 if a row that should reproduce does not")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"where results go (default {OUT})")
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON too (- for standard output)")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _interrupted(interrupt: KeyboardInterrupt) -> str:
    folder = getattr(interrupt, "folder", None)
    if folder is None:
        return "interrupted; finished trials are kept, run the same command again to continue"
    return f"interrupted; {interrupt}, kept in {folder}; run the same command again to continue"


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt  # the same clean way out as Ctrl-C


if __name__ == "__main__":
    sys.exit(main())

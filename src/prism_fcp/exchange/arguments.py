"""The command lines of calibration by files: what each command takes, with an example in its help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = {
    "spec": """examples:
  prism-fcp spec --title "length of stay" --model model.bin --level 0.9 --level 0.95 -o spec.json
  prism-fcp spec --title "length of stay" --model model.bin --quorum 5 --deadline 2026-12-31T18:00Z \\
      --client north --client south --client east --client west --client lake -o spec.json""",
    "keygen": """example:
  prism-fcp keygen north -o keys        the private key is keys/north.pem; the printed line is for the coordinator""",
    "trust": """examples:
  prism-fcp trust trust-folder                                      who is known, by which keys
  prism-fcp trust trust-folder --add north "ed25519 ..."            a client's first key
  prism-fcp trust trust-folder --rotate north "ed25519 ..." --until 2026-12-31T18:00:00Z
  prism-fcp trust trust-folder --revoke SHA256:... --why "laptop stolen" """,
    "summarize": """examples:
  prism-fcp summarize scores.csv --spec spec.json --client north -o north.summary
  prism-fcp summarize test.parquet --y days --prediction predicted --spec spec.json \\
      --client north --key keys/north.pem""",
    "calibrate": """examples:
  prism-fcp calibrate inbox --spec spec.json -o result            every *.summary in the folder
  prism-fcp calibrate *.summary --spec spec.json --trust trust-folder --guard 0.05 -o result
  prism-fcp calibrate late.summary --spec spec.json --state desk.sqlite -o result    adds to what was taken before""",
    "withdraw": """example:
  prism-fcp withdraw north --spec spec.json --state desk.sqlite --why "scores of the wrong model" """,
    "audit": """examples:
  prism-fcp audit result/calibration.json                         every client, one line each
  prism-fcp audit result/calibration.json lake                    all that is known of one""",
    "predict": """example:
  prism-fcp predict new.csv --prediction predicted --predictor result/predictor.json \\
      --model model.bin -o intervals.csv
  prism-fcp predict new.csv --model my/model.json --predictor my/predictor.json    a table of features, and the
                                                                                   model of `prism-fcp run my.toml`""",
    "evaluate": """examples:
  prism-fcp evaluate north=test-north.csv south=test-south.csv --y days --prediction predicted \\
      --predictor result/predictor.json --model model.bin -o evaluation.json
  prism-fcp evaluate all.csv --client-column site --group sex --y days --prediction predicted \\
      --predictor result/predictor.json --model model.bin""",
    "report": """example:
  prism-fcp report result/calibration.json --evaluation evaluation.json -o page.html""",
}  # fmt: skip
HELP = {
    "spec": "what a federation agrees on before it calibrates: levels, bins, model, round",
    "keygen": "make a key that signs a client's summaries",
    "trust": "show or change whose signatures a coordinator believes",
    "summarize": "turn a file of scores into one small summary file",
    "calibrate": "check summaries, leave out suspects, and make radii, verdicts and certificates",
    "withdraw": "take an accepted summary back, so that its client may send another",
    "audit": "why each client was judged as it was",
    "predict": "put intervals around predictions",
    "evaluate": "coverage, width and Winkler score on test data, by client and subgroup",
    "report": "a page that explains a calibration, in one HTML file",
}


def add_commands(add: Callable[..., argparse.ArgumentParser], style: dict[str, Any]) -> None:
    """Add every command of this room."""

    def command(name: str) -> argparse.ArgumentParser:
        parser = add(name, help=HELP[name], description=HELP[name], epilog=EXAMPLES[name], **style)
        parser.add_argument("--json", metavar="FILE", help="write what is told as JSON (- for standard output)")
        return parser

    _add_agreement(command("spec"))
    keygen = command("keygen")
    keygen.add_argument("client", help="the client's name, as it will stand in summaries")
    keygen.add_argument("-o", "--out", type=Path, default=Path(), metavar="PATH", help="folder or file (default: here)")
    _add_passphrase(keygen)
    trust = command("trust")
    trust.add_argument("folder", type=Path, help="the trust folder: one NAME.keys file a client")
    change = trust.add_mutually_exclusive_group()
    change.add_argument(
        "--add", nargs=2, metavar=("CLIENT", "LINE"), help="believe a key: the line that keygen printed"
    )
    change.add_argument("--rotate", nargs=2, metavar=("CLIENT", "LINE"), help="add a key and end the old ones --until")
    change.add_argument("--revoke", metavar="FINGERPRINT", help="believe a key no more, whatever it signed")
    trust.add_argument("--until", metavar="TIME", help="when rotated keys end (default: now)")
    trust.add_argument("--why", default="", help="the reason of a revocation")
    _add_summarize(command("summarize"))
    _add_calibrate(command("calibrate"))
    withdraw = command("withdraw")
    withdraw.add_argument("client")
    _add_spec_file(withdraw)
    withdraw.add_argument(
        "--state", type=Path, required=True, metavar="FILE", help="the file given to calibrate --state"
    )
    withdraw.add_argument("--why", required=True, help="the reason, for the receipts")
    audit = command("audit")
    _add_calibration(audit)
    audit.add_argument("clients", nargs="*", metavar="CLIENT", help="only these, with everything known")
    _add_use(command("predict"), command("evaluate"))
    report = command("report")
    _add_calibration(report)
    report.add_argument("--evaluation", type=Path, metavar="FILE", help="what `prism-fcp evaluate` wrote")
    report.add_argument(
        "-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="default report.html"
    )


def _add_agreement(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--title", required=True, help="what is calibrated, in words")
    parser.add_argument("--model", required=True, metavar="FILE|HASH", help="the model's file, or its 64 hex digits")
    parser.add_argument(
        "--level", action="append", metavar="LEVEL", help="a confidence level; several times for several"
    )
    parser.add_argument("--grid", default="log", help="log (default: no range is needed) or linear (the paper's)")
    parser.add_argument(
        "--steps", type=int, default=64, help="log: bins an octave, a power of two (default 64: 1.6 %%)"
    )
    parser.add_argument("--lowest", type=int, default=-30, help="log: bins begin at 2^LOWEST (default -30)")
    parser.add_argument("--highest", type=int, default=30, help="log: bins end at 2^HIGHEST (default 30)")
    parser.add_argument("--upper", type=float, help="linear: where the bins end")
    parser.add_argument("--bins", type=int, default=100, help="linear: how many (default 100)")
    parser.add_argument("--overflow", action="store_true", help="linear: one more bin for what lies above")
    parser.add_argument("--pilot", nargs="+", type=Path, metavar="FILE", help="linear: score files that give the range")
    parser.add_argument(
        "--range", default="high_quantile", help="how --pilot gives it: max, high_quantile, median_mad, overflow"
    )
    parser.add_argument(
        "--score", default="absolute_residual", help="absolute_residual (default) or normalised_residual"
    )
    parser.add_argument("--round", type=int, default=1, help="which round this is (default 1)")
    parser.add_argument("--client", action="append", metavar="NAME", help="who may take part; none named: anybody")
    parser.add_argument("--quorum", type=int, default=1, help="summaries that a result needs (default 1)")
    parser.add_argument("--deadline", default="", metavar="TIME", help="when summaries are due, in UTC")
    parser.add_argument("--late", default="accept", help="accept (default: a new version) or refuse what comes later")
    parser.add_argument("--most-scores", type=int, default=100_000_000, help="no client is believed to have more")
    parser.add_argument(
        "--cap", type=float, default=3.0, help="times the median client's scores one counts for (default 3)"
    )
    parser.add_argument(
        "--least-count", type=int, default=1, help="smaller counts are merged upwards (default 1: none)"
    )
    parser.add_argument("--cells", type=int, help="cells that filters compare (default: 40 on the log grid)")
    parser.add_argument("--correction", default="n+1", help="n+1 (default) or n+K")
    parser.add_argument("-o", "--out", type=Path, default=Path("spec.json"), metavar="FILE", help="default spec.json")


def _add_summarize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="CSV, TSV (also .gz), Parquet, npy or npz")
    _add_spec_file(parser)
    parser.add_argument("--client", required=True, metavar="NAME", help="who is speaking")
    parser.add_argument("--scores", metavar="COLUMN", help="the column of scores (none needed if it is the only one)")
    _add_answers(parser)
    parser.add_argument("--model", type=Path, metavar="FILE", help="check that this is the model the spec names")
    parser.add_argument("--key", type=Path, metavar="FILE", help="sign with this private key")
    _add_passphrase(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="default CLIENT.summary")


def _add_calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "summaries", nargs="+", type=Path, metavar="FILE|FOLDER", help="summaries, or folders of *.summary"
    )
    _add_spec_file(parser)
    parser.add_argument("--trust", type=Path, metavar="FOLDER", help="accept only what these keys have signed")
    parser.add_argument(
        "--filter", help="cautious (default), mad, known_count, down_weight, estimated_count or keep_all"
    )
    parser.add_argument("--suspects", type=int, help="known_count: how many clients are thought to lie")
    parser.add_argument("--guard", metavar="FRACTION", help="radii that hold even if this share of the kept mass lies")
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="keep what is accepted here, and add to it next time"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("calibration"), metavar="FOLDER", help="default calibration"
    )


def _add_use(predict: argparse.ArgumentParser, evaluate: argparse.ArgumentParser) -> None:
    for parser in (predict, evaluate):
        parser.add_argument("--predictor", type=Path, required=True, metavar="FILE", help="what calibrate wrote")
        parser.add_argument("--model", metavar="FILE|HASH", help="the model that predicts: must be the calibrated one")
        parser.add_argument("--level", action="append", metavar="LEVEL", help="default: every calibrated one")
    predict.add_argument("file", type=Path, help="a table with predictions, or of a model.json's features")
    predict.add_argument("--prediction", metavar="COLUMN", help="default: what model.json predicts, or the only column")
    predict.add_argument("--sigma", metavar="COLUMN", help="normalised scores: the column of sigma")
    predict.add_argument("--client", help="use this client's own radius")
    predict.add_argument(
        "-o", "--out", type=Path, default=Path("intervals.csv"), metavar="FILE", help="csv, tsv, npy or parquet"
    )
    evaluate.add_argument("files", nargs="+", metavar="[CLIENT=]FILE", help="test data; without a name the file's own")
    _add_answers(evaluate)
    evaluate.add_argument("--client-column", metavar="COLUMN", help="the column that names the client")
    evaluate.add_argument("--group", metavar="COLUMN", help="a column of subgroups")
    evaluate.add_argument("--own-radii", action="store_true", help="judge each client by its own radius")
    evaluate.add_argument("-o", "--out", type=Path, metavar="FILE", help="write the evaluation, for `prism-fcp report`")


def _add_answers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--y", metavar="COLUMN", help="the column of true values")
    parser.add_argument("--prediction", metavar="COLUMN", help="the column of predictions")
    parser.add_argument("--sigma", metavar="COLUMN", help="normalised scores: the column of sigma")


def _add_passphrase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="a file whose first line protects the key")


def _add_spec_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", type=Path, required=True, metavar="FILE", help="the agreement, from `prism-fcp spec`")


def _add_calibration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "calibration", type=Path, metavar="CALIBRATION", help="the calibration.json that calibrate wrote"
    )

"""A site's own file, sites/NAME.toml: where its rows, its key and its state lie. It never leaves the site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prism_fcp import io
from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.data.table import read_table
from prism_fcp.errors import SettingError
from prism_fcp.federation.sites.rows import SHARE, SiteRows, check_shares
from prism_fcp.lab.typed import build, choice
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.types import Choice

PATHS = ("data", "key", "passphrase_file", "state")


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteFile:
    """What a site's file says. Its paths are relative to its folder."""

    data: str  # CSV, TSV, Parquet or npz
    target: str = ""  # the column to predict; where it is not said the federation's
    drop: tuple[str, ...] = ()  # columns that are no features
    key: str | None = None  # the private key that signs its summary, see `prism-fcp keygen`
    passphrase_file: str | None = None
    state: str | None = None  # the folder of its state between rounds
    calibration_share: float = SHARE
    test_share: float = SHARE
    attack: Choice | None = None  # of a drill: this site plays an attacker
    score_attack: Choice | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_shares(self.calibration_share, self.test_share)
        if not self.data:
            raise SettingError("data is empty; name a CSV, TSV, Parquet or npz file")
        if self.target and self.target in self.drop:
            raise SettingError(f"target = {self.target!r} stands in drop too; leave it out there")
        if self.passphrase_file is not None and self.key is None:
            raise SettingError("passphrase_file without key; name the key it opens, or leave it out")

    @classmethod
    def load(cls, path: Path) -> SiteFile:
        """Read a file, its paths made absolute."""
        return cls.of(io.read_toml(path), str(path)).beside(path.absolute().parent)

    @classmethod
    def of(cls, table: Mapping[str, Any], where: str) -> SiteFile:
        """Read a table that is one already."""
        told = dict(table)
        for name, registry, kind in (
            ("attack", UPDATE_ATTACKS, "training attack"),
            ("score_attack", SCORE_ATTACKS, "score attack"),
        ):
            if name in told:
                told[name] = choice(told[name], registry, kind, f"{where}: {name}")
        return build(cls, told, where)

    def beside(self, folder: Path) -> SiteFile:
        """Return the same with its paths taken from this folder."""
        told = {name: getattr(self, name) for name in PATHS}
        absolute: dict[str, Any] = {name: str(folder / value) for name, value in told.items() if value is not None}
        return replace(self, **absolute)

    def rows(self, name: str, target: str = "") -> SiteRows:
        """Read the rows and cut them; `target` is the federation's."""
        wanted = self.target or target
        if not wanted:
            raise SettingError(f"site {name!r}: target is missing; name the column to predict: target = ...")
        table = read_table(Path(self.data), wanted, drop=self.drop, constant=True)
        return SiteRows.cut(name, table, calibration_share=self.calibration_share, test_share=self.test_share)

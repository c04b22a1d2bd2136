"""Published tables: `tables/*.toml`, and `house.toml`, which has sizes of our own that nobody published."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}
BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6}


@dataclass(frozen=True)
class Cell:
    """One published figure. Where the document prints none, `value` is None and `printed` says what stands there."""

    table: str
    document: str
    section: str
    protocol: str
    machine: str | None
    network: str | None
    quantity: str
    phase: str | None
    n: int | None
    m: int | None
    l: int | None
    common: int | None
    value: float | None
    unit: str
    printed: str | None

    @property
    def name(self) -> str:
        """What `--only` is matched with."""
        parts = [self.protocol, self.machine, self.network, self.quantity, self.phase, self.n, self.m, self.l]
        return " ".join(str(part) for part in parts if part is not None)

    @property
    def seconds(self) -> float | None:
        """The figure in seconds, if it is a time."""
        return None if self.value is None or self.unit not in SECONDS else self.value * SECONDS[self.unit]


@dataclass(frozen=True)
class Table:
    """A published table. `ours` says for each of its protocols what is run here in its place; `growth` what it says of growth."""

    name: str
    title: str
    document: str
    cells: tuple[Cell, ...]
    ours: dict[str, dict]
    note: str
    growth: tuple[dict, ...] = ()


def load(name: str) -> Table:
    """A table by its name."""
    path = HERE / "tables" / f"{name}.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    fields = Cell.__dataclass_fields__.keys() - {"table"}
    cells = []
    for row in data["cells"]:
        unknown = row.keys() - fields - {"printed_common"}
        if unknown:
            raise ValueError(f"{path.name}: a cell has unknown fields: {sorted(unknown)}")
        whole = {field: row.get(field, data.get(field)) for field in fields}
        cells.append(Cell(table=name, **whole))
    # A line's end within a paragraph is none.
    note, growth = re.sub(r"(?<!\n)\n(?!\n)", " ", data["note"]), tuple(data.get("growth", []))
    return Table(name, data["title"], data["document"], tuple(cells), data["ours"], note, growth)


def names() -> list[str]:
    """All published tables, the oldest document first."""
    order = ["whitepaper", "caict", "secretflow-v2", "unbalanced", "spu", "kctsb"]
    found = {path.stem for path in (HERE / "tables").glob("*.toml")}
    return [name for name in order if name in found] + sorted(found - set(order))


def house() -> list[dict]:
    """The jobs of `house.toml`."""
    return tomllib.loads((HERE / "house.toml").read_text(encoding="utf-8"))["job"]

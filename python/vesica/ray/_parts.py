"""The parts of an output as Ray Data reads them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from .._cluster import output


class Parts(Datasource):
    """Reads parts by what wrote them, so whatever store could be written to can be read. Ray's own reader would make a column of a folder
    like `day=2026-11-27`, and of several files it fails where aiohttp is not installed: threads meet in a module that cannot be imported.

    Where a Dataset asks for some columns, the others are not decoded. A task reads a part long behind the Dataset's making, and looks once more
    whether it is this run's."""

    def __init__(self, place: output.Output) -> None:
        super().__init__()
        self.address, self.parts, self.were = place.address, place.standing(), place.were()
        self.columns: list[str] | None = None
        self.schema: pa.Schema = next(output.tables(self.address, self.parts[0][0])).schema

    def get_name(self) -> str:
        """What Ray's progress calls it."""
        return "Matched"

    def estimate_inmemory_data_size(self) -> int | None:
        """Nobody knows: parts are compressed."""
        return None

    def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list[ReadTask]:
        """So many tasks, or one for each part if these are fewer."""
        columns, schema = self.columns, self.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        count = max(1, min(parallelism, len(self.parts)))
        ends = [len(self.parts) * at // count for at in range(count + 1)]
        tasks = []
        for first, end in zip(ends, ends[1:]):
            some = self.parts[first:end]
            told = BlockMetadata(num_rows=sum(rows for _, rows, _ in some), size_bytes=None, input_files=None, exec_stats=None)
            read = partial(_read, self.address, {name: self.were.get(name) for name, _, _ in some}, columns)
            tasks.append(ReadTask(read, told, schema=schema, per_task_row_limit=per_task_row_limit))
        return tasks

    def supports_projection_pushdown(self) -> bool:
        """Some columns can be read alone."""
        return True

    def get_projection_map(self) -> dict[str, str] | None:
        """The columns that are read, each by its own name; None if all are."""
        return None if self.columns is None else {name: name for name in self.columns}

    def apply_projection(self, projection_map: dict[str, str] | None) -> Parts:
        """The same with these columns only."""
        narrow = copy.copy(self)
        if projection_map is not None:
            narrow.columns = [name for name in (projection_map if self.columns is None else self.columns) if name in projection_map]
        return narrow


def _read(address: str, parts: dict[str, output.Seen | None], columns: list[str] | None) -> Iterator[Any]:
    for name, was in parts.items():
        for table in output.tables(address, name, columns, was):
            # Tables without a column lose their rows when they are joined together. Ray has a way of its own to keep how many there are.
            yield BlockAccessor.for_block(table).select([]) if columns == [] else table

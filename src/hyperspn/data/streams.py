"""Streams: the training rows of files that need not fit into memory."""

from __future__ import annotations

import hashlib
import json

from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numpy.typing import NDArray

from .frames import standard_table
from .pieces import Piece, pieces_of, read_piece
from .recognize import recognize
from .schema import Schema
from .summaries import ColumnSummary, Keys, Sample, row_keys

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE, HELD_OUT = 100_000, 50_000  # training rows that show what a table is like; of valid and test, rows that count
BUFFER, BUFFERED_VALUES = 200_000, 20_000_000  # rows that are shuffled together, and values if columns are many

FloatArray = NDArray[np.float64]


class Stream:
    """The training rows of files, in an order that is shuffled anew in each pass.

    A pass takes the pieces of the files in random order, some of them at a time, whose rows are shuffled together. The
    order depends on the seed alone, and a batch in the middle of a pass can be read without those before it.

    Arguments:
        pieces: The parts of the files.
        counts: How many of the rows of each piece are training rows.
        schema: The columns.
        sample: Some of the training rows, (rows, variables), for all that needs to see them together.
        seed: Determines which rows are training rows, and their order.
        reading: Further arguments of `read_piece`.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        counts: Sequence[int],
        schema: Schema,
        sample: FloatArray,
        seed: int,
        reading: dict[str, Any],
    ) -> None:
        self.pieces, self.counts, self.schema, self.sample = pieces, np.array(counts), schema, sample
        self.seed, self.reading = seed, reading
        self._window: Window | None = None
        self._ahead: Future[Window] | None = None

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self.schema.columns)

    def batch(self, batch_size: int, step: int, part: slice | None = None) -> list[tuple[Window, slice]]:
        """The rows of a step, counted from 1, as slices of windows: those that follow the rows of the step before.

        Of several processes each asks for its part of every batch, and only reads what is in it.
        """
        size = min(batch_size, len(self))
        of_batch = Part(size, *(part or slice(None)).indices(size)[:2])
        place, end = (step - 1) * size + of_batch.first, (step - 1) * size + of_batch.last
        slices: list[tuple[Window, slice]] = []
        while place < end or not slices:
            window = self._read(place, of_batch)
            slices.append((window, slice(*np.searchsorted(window.places, [place, end]).tolist())))
            place = window.end
        return slices

    def digest(self) -> str:
        """A short name of the rows: files with other names, sizes or rows have another one."""
        names = [piece[1:] for piece in self.pieces]
        text = json.dumps([names, self.counts.tolist(), self.schema.digest(), self.seed])
        return f"{hashlib.sha256(text.encode()).hexdigest()[:12]} ({len(self)} rows in files)"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_window": None, "_ahead": None}

    def _windows(self, turn: int) -> tuple[NDArray[np.intp], list[int]]:
        """The pieces in the order of a pass, and where each window of them begins."""
        order = np.random.default_rng((self.seed, turn)).permutation(len(self.pieces))
        starts, rows, most = [0], 0, min(BUFFER, BUFFERED_VALUES // self.shape[1])
        for place, count in enumerate(self.counts[order].tolist()):
            rows += count
            if rows >= most and place + 1 < len(order):
                starts.append(place + 1)
                rows = 0
        return order, starts

    def _find(self, place: int) -> tuple[int, NDArray[np.intp], int]:
        """The window with the row at this place: its pass, its pieces, and the place where it begins."""
        turn = place // len(self)
        order, starts = self._windows(turn)
        before = turn * len(self) + np.concatenate([[0], np.cumsum(self.counts[order])])
        window = int(np.searchsorted(before[starts], place, side="right")) - 1
        stop = starts[window + 1] if window + 1 < len(starts) else len(order)
        return turn, order[starts[window] : stop], int(before[starts[window]])

    def _read(self, place: int, part: Part) -> Window:
        """The window with the row at this place; the last one is kept, and the next one is read meanwhile."""
        if self._window is None or not self._window.has(place, part):
            self._window = self._ahead.result() if self._ahead else None
            if self._window is None or not self._window.has(place, part):
                self._window = self._load(place, part)
            reader = ThreadPoolExecutor(1)
            self._ahead = reader.submit(self._load, self._window.end, part)
            reader.shutdown(wait=False)
        return self._window

    def _load(self, place: int, part: Part) -> Window:
        """Of the window with the row at this place what is in this part of batches."""
        turn, pieces, first = self._find(place)
        ends = np.cumsum(self.counts[pieces])
        places = first + np.arange(ends[-1])
        is_asked = (places % part.size >= part.first) & (places % part.size < part.last)
        shuffled = np.random.default_rng((self.seed, turn, int(pieces[0]))).permutation(len(places))[is_asked]
        asked = np.split(np.sort(shuffled), np.searchsorted(np.sort(shuffled), ends[:-1]))
        rows = [
            self._train_rows(self.pieces[index], numbers - (end - self.counts[index]))
            for index, numbers, end in zip(pieces, asked, ends, strict=True)
        ]
        in_order = np.concatenate(rows)[np.argsort(np.argsort(shuffled))]
        return Window(part, first, first + len(places), places[is_asked], in_order)

    def _train_rows(self, piece: Piece, numbers: NDArray[np.intp]) -> FloatArray:
        """Some of the training rows of a piece, by their numbers, in ascending order."""
        chosen = np.flatnonzero(split_of(_keys(piece, self.seed)) == 0)[numbers]
        return self.schema.encode(read_piece(piece, **self.reading).take(chosen))


class Part(NamedTuple):
    """The rows first, ..., last - 1 of every batch of this size."""

    size: int
    first: int
    last: int


class Window(NamedTuple):
    """Rows of a stream that were shuffled together, of them those in a part of its batches.

    Arguments:
        part: The part.
        first: The place of the first row of the window in the stream, counted over all passes.
        end: The place after its last row.
        places: Where the rows of the part are, (rows,), ascending.
        rows: They, encoded, (rows, variables).
    """

    part: Part
    first: int
    end: int
    places: NDArray[np.intp]
    rows: FloatArray

    def has(self, place: int, part: Part) -> bool:
        return self.part == part and self.first <= place < self.end


class Files(NamedTuple):
    """Files as a circuit sees them: a stream of training rows, and held-out rows, (rows, variables)."""

    train: Stream
    valid: FloatArray
    test: FloatArray


def load_files(
    source: str,
    seed: int = 0,
    drop: Collection[str] = (),
    missing_values: Collection[str] | None = None,
    schema: Schema | None = None,
    notes: list[str] | None = None,
    **wishes: Any,
) -> Files:
    """Reads files once, to know what their columns are and which rows are held out; memory is bounded.

    Rows go to train, valid and test by a seeded hash of the name of the file and the number of the row. At most
    `HELD_OUT` rows of valid and of test count.

    Arguments:
        source: A folder with Parquet, CSV or TSV files, or a pattern of such (see `find_files`).
        seed: Determines which rows are held out, and the order of the others.
        drop: Columns to leave out.
        missing_values: The words that are missing values in text (see `read_table`).
        schema: What the columns are; by default they are recognized.
        notes: A list to which sentences are added that the user may want to read.
        **wishes: What is asked of single columns (see `recognize`).
    """
    reading: dict[str, Any] = {"drop": drop, "missing_values": missing_values}
    pieces, samples = pieces_of(source), [Sample(size) for size in (SAMPLE, HELD_OUT, HELD_OUT)]
    summaries: dict[str, ColumnSummary] = {}
    counts = []
    for piece in pieces:
        table, keys = standard_table(read_piece(piece, **reading)), _keys(piece, seed)
        splits = split_of(keys)
        counts.append(int((splits == 0).sum()))
        for part, sample in enumerate(samples):
            sample.add(*_rows_of(table, keys, splits == part))
        if schema is None:
            _summarize(table, splits == 0, summaries)
    for name, sample in zip(("train", "valid", "test"), samples, strict=True):
        if not sample.rows:
            raise ValueError(f"expected enough rows to split into train, valid and test, found none for {name}")
    tables = [sample.table() for sample in samples]
    schema = schema or _recognize(tables[0], summaries, [] if notes is None else notes, **wishes)
    train, valid, test = (schema.encode(rows) for rows in tables)
    return Files(Stream(pieces, counts, schema, train, seed, reading), valid, test)


def split_of(keys: Keys) -> NDArray[np.int64]:
    """For each key 0 for train, 1 for valid, 2 for test: 70, 10 and 20 % of them."""
    return np.searchsorted([0.7, 0.8], (keys >> np.uint64(11)) * 2.0**-53, side="right")


def _keys(piece: Piece, seed: int) -> Keys:
    return row_keys(piece.name, piece.first, piece.rows, seed)


def _rows_of(table: pa.Table, keys: Keys, chosen: NDArray[np.bool_]) -> tuple[pa.Table, Keys]:
    import pyarrow as pa

    return table.filter(pa.array(chosen)), keys[chosen]


def _summarize(table: pa.Table, is_train: NDArray[np.bool_], summaries: dict[str, ColumnSummary]) -> None:
    """Adds the rows of a piece to the summaries of its columns."""
    import pyarrow as pa

    chosen = pa.array(is_train)
    for name, values in zip(table.column_names, table.columns, strict=True):
        summaries.setdefault(name, ColumnSummary()).add(values, chosen)


def _recognize(sample: pa.Table, summaries: dict[str, ColumnSummary], notes: list[str], **wishes: Any) -> Schema:
    kinds = wishes.pop("kinds", None) or {}
    runs = [name for name, summary in summaries.items() if summary.is_run and name not in kinds]
    notes += [f"column {name!r} is left out: row numbers, a run without gaps" for name in runs]
    columns = {name: summary.values(sample.column(name)) for name, summary in summaries.items() if name not in runs}
    schema = recognize(columns, notes=notes, kinds=kinds, **wishes)
    return Schema(schema.columns, (*schema.left_out, *((name, "row numbers, a run without gaps") for name in runs)))


def in_memory(rows: np.ndarray | Stream) -> np.ndarray:
    """The rows themselves, or of a stream its sample."""
    return rows.sample if isinstance(rows, Stream) else rows

"""Scoring: what a model says of many rows, batch by batch, where the rows lie."""

from __future__ import annotations

import json
import os

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..checks import did_you_mean
from ..data import like, table_of, write_table
from ..data.frames import standard_table
from ..data.pieces import Piece, pieces_of, read_piece
from ..files import write
from .surprisal import surprisal_of_rows
from .table_model import TableModel

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 16_384
PART = 200_000
ARGUMENTS = "score.json"


def _likelihood(model: TableModel, frame: Any, column: str | None) -> Any:
    import pyarrow as pa

    return like(frame, pa.table({"log_likelihood": model.log_likelihood(frame)}))


def _surprisal(model: TableModel, frame: Any, column: str | None) -> Any:
    import pyarrow as pa

    return like(frame, pa.table({"surprisal": surprisal_of_rows(model, frame)}))


def _probabilities(model: TableModel, frame: Any, column: str | None) -> Any:
    if column is None:
        raise ValueError("expected the column whose probabilities are asked for, found none")
    return model.predict(frame, column)


def _impute(model: TableModel, frame: Any, column: str | None) -> Any:
    return model.impute(frame)


QUESTIONS: dict[str, Callable[[TableModel, Any, str | None], Any]] = {
    "likelihood": _likelihood,
    "surprisal": _surprisal,
    "probabilities": _probabilities,
    "imputed": _impute,
}
"""What can be asked of each batch of rows."""


@dataclass(frozen=True)
class Scorer:
    """A question about batches of rows that can be sent to other processes, each of which opens the model once.

    Answers are computed in single precision, in which models are trained.

    Arguments:
        run: The folder of a trained model, or its file; or a model, which is then sent along.
        question: "likelihood", "surprisal" in bits, "probabilities" of a column given the others, or "imputed" rows.
        column: The column whose probabilities are asked for.
        keep: Columns of the rows that stand beside the answers.
    """

    run: str | TableModel
    question: str = "likelihood"
    column: str | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.question not in QUESTIONS:
            hint = did_you_mean(self.question, QUESTIONS)
            raise ValueError(f"expected a question {', '.join(QUESTIONS)}, found {self.question!r}{hint}")
        if (self.column is None) == (self.question == "probabilities"):
            raise ValueError("expected a column with the question 'probabilities', and with no other")

    def __call__(self, frame: Any) -> Any:
        """The answers for a DataFrame or table, as one of its kind."""
        model = self.run if isinstance(self.run, TableModel) else open_model(self.run, _change_time(self.run))
        answers = QUESTIONS[self.question](model, frame, self.column)
        if not self.keep:
            return answers
        import pyarrow as pa

        kept, table = table_of(frame).select(list(self.keep)), table_of(answers)
        names = [name for name in table.column_names if name not in self.keep]
        return like(frame, pa.table([*kept.columns, *table.select(names).columns], [*self.keep, *names]))


@lru_cache(maxsize=4)
def open_model(run: str, change_time: int) -> TableModel:
    """The model of a folder or file, opened once by each process as long as it does not change."""
    model = TableModel.load(run)
    model.circuit.float()
    return model


def _change_time(run: str) -> int:
    path = Path(run)
    return os.stat(path / "model.safetensors" if path.is_dir() else path).st_mtime_ns


def map_batches(
    run: str | os.PathLike[str] | TableModel,
    dataset: Any,
    question: str = "likelihood",
    column: str | None = None,
    **options: Any,
) -> Any:
    """What a model says of the rows of a Ray Dataset or a Dask DataFrame, computed lazily by its workers.

    Arguments:
        run: The folder of a trained model, or its file, where all workers can read it; or a model.
        dataset: The rows.
        question: What to ask (see `Scorer`).
        column: The column whose probabilities are asked for.
        options: Further arguments of the dataset's own `map_batches` or `map_partitions`.
    """
    scorer = Scorer(run if isinstance(run, TableModel) else os.path.abspath(run), question, column)
    if hasattr(dataset, "map_batches"):
        return dataset.map_batches(scorer, batch_format="pyarrow", **options)
    if hasattr(dataset, "map_partitions"):
        return dataset.map_partitions(scorer, **options)
    raise TypeError(f"expected a Ray Dataset or a Dask DataFrame, found {type(dataset).__name__}")


@dataclass(frozen=True)
class Part:
    """Pieces of a file that are scored together, and the file with their answers."""

    pieces: tuple[Piece, ...]
    out: Path

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


def score_files(
    scorer: Scorer,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    workers: int = 1,
    missing_values: Collection[str] | None = None,
) -> Iterator[Part]:
    """Answers for all rows of files, in Parquet files of a folder; yields each part of them that is there.

    Parts that are in the folder already are not computed again, so that the same call goes on where it was stopped. The
    answers of ``rows.parquet`` are in ``rows.parquet.00000.parquet`` and so on, in the order of its rows.

    Arguments:
        scorer: What to ask.
        source: A folder with Parquet, CSV or TSV files, a pattern of such, or one file.
        out: The folder.
        workers: The number of processes.
        missing_values: The words that are missing values in text (see `read_table`).
    """
    import joblib

    parts, folder = list(_parts(pieces_of(source), Path(out))), Path(out)
    _check_arguments(folder, scorer, {piece.path for part in parts for piece in part.pieces})
    done = [part for part in parts if part.out.exists()]
    yield from done
    work, home = joblib.delayed(_score), os.getcwd() if workers > 1 else None
    tasks = (work(scorer, part, missing_values, home) for part in parts if part not in set(done))
    try:
        yield from joblib.Parallel(workers, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(
            tasks
        )
    except BrokenExecutor as error:
        raise ChildProcessError("a worker was killed: run the same command again to resume") from error


def _parts(pieces: Sequence[Piece], folder: Path) -> Iterator[Part]:
    for name, of_file in groupby(pieces, key=lambda piece: piece.name):
        for number, (_, group) in enumerate(groupby(of_file, key=lambda piece: piece.first // PART)):
            yield Part(tuple(group), folder / f"{name}.{number:05}.parquet")


def _check_arguments(folder: Path, scorer: Scorer, files: Collection[str]) -> None:
    """Keeps what was asked in the folder, and refuses to mix it with something else."""
    stats = {file: [os.stat(file).st_size, os.stat(file).st_mtime_ns] for file in sorted(files)}
    asked = {"question": scorer.question, "column": scorer.column, "keep": list(scorer.keep)}
    model = None if isinstance(scorer.run, TableModel) else _change_time(scorer.run)
    text = json.dumps({**asked, "model": model, "files": stats}, indent=1)
    path = folder / ARGUMENTS
    if path.exists() and path.read_text() != text:
        raise ValueError(f"{folder} holds the answers of another model, question or table: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write(path, text.encode())


def _score(scorer: Scorer, part: Part, missing_values: Collection[str] | None, home: str | None) -> Part:
    """Writes the answers of a part; in a worker, which may have begun elsewhere, paths are relative to `home`."""
    if home is not None:
        torch.set_num_threads(1)
        os.chdir(home)
    part.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(_answers(scorer, part, missing_values), part.out)
    return part


def _answers(scorer: Scorer, part: Part, missing_values: Collection[str] | None) -> Iterator[pa.Table]:
    schema = None
    for piece in part.pieces:
        table = read_piece(piece, missing_values=missing_values)
        for start in range(0, len(table), BATCH):
            answers = standard_table(scorer(table.slice(start, BATCH)))
            schema = schema or answers.schema
            yield answers.cast(schema)

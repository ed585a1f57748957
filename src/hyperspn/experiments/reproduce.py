"""Reproduce: train what is missing, then write the table or figure."""

from __future__ import annotations

import os

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import joblib

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..datasets import did_you_mean, load
from ..learning.checkpoint import write
from .artefacts import ARTEFACTS, Artefact
from .figures import save, training_curves
from .runs import Records, train_all
from .tables import Table

BACKENDS = ("loky", "dask", "ray")


def reproduce(
    what: str,
    results: str | os.PathLike[str] = "results",
    *,
    datasets: Sequence[str] = (),
    seeds: int | None = None,
    jobs: int | None = None,
    backend: str = "loky",
    data_dir: str | None = None,
    train: bool = True,
) -> Table:
    """Makes a table or figure of the paper from records; what it needs and is not there yet is trained first.

    A run is one record in the folder `results`; an interrupted one goes on where it stopped. The table is written
    there as Markdown and CSV, a figure as PNG and SVG.

    Arguments:
        what: "table1" to "table7", or "figure5".
        results: The folder of records, tables and figures.
        datasets: Only these of the data sets.
        seeds: How many seeds the setting chosen on validation has; by default as many as published.
        jobs: How many runs at a time; by default one per core.
        backend: Where they run: "loky" for processes here; "dask" for the cluster that Dask is configured for
            (DASK_SCHEDULER_ADDRESS), "ray" for that of Ray (RAY_ADDRESS). Both need their packages.
        data_dir: The folder of the benchmarks; by default the environment variable HYPERSPN_DATA.
        train: Whether to train; otherwise the records at hand must do, and no file is written.
    """
    artefact = _named(what)
    chosen = tuple(datasets) or artefact.datasets
    for name in chosen:
        if name not in artefact.datasets:
            options = did_you_mean(name, artefact.datasets) or f": one of {', '.join(artefact.datasets)}"
            raise ValueError(f"expected a data set of {what}, found {name!r}{options}")
    records = Records(Path(results))
    if train:
        with _cluster(backend):
            _train_missing(artefact, records, chosen, seeds, jobs or joblib.cpu_count(), data_dir)
        _write(what, artefact.table(records, artefact.datasets), Path(results))
    return artefact.table(records, chosen)


def _named(what: str) -> Artefact:
    if what not in ARTEFACTS:
        raise ValueError(f"expected one of {', '.join(ARTEFACTS)}, found {what!r}{did_you_mean(what, ARTEFACTS)}")
    return ARTEFACTS[what]


@contextmanager
def _cluster(backend: str) -> Iterator[None]:
    """Lets joblib train on this backend."""
    if backend not in BACKENDS:
        raise ValueError(f"expected a backend of {', '.join(BACKENDS)}, found {backend!r}")
    try:
        if backend == "dask":
            from distributed import Client
        elif backend == "ray":
            from ray.util.joblib import register_ray
    except ImportError as error:
        raise ValueError(f"expected the packages of {backend}: pip install 'hyperspn[{backend}]'") from error
    with ExitStack() as stack:
        if backend == "dask":
            stack.enter_context(Client())
        elif backend == "ray":
            register_ray()
        stack.enter_context(joblib.parallel_config(backend))
        yield


def _train_missing(
    artefact: Artefact, records: Records, datasets: Sequence[str], seeds: int | None, jobs: int, data_dir: str | None
) -> None:
    """Trains until nothing is missing: the seeds to come depend on what was chosen on validation."""
    console = Console(stderr=True)
    while missing := artefact.missing(records, datasets, seeds):
        for name in {run.dataset for run in missing}:
            load(name, data_dir=data_dir)
        minutes = sum(run.core_seconds for run in missing) / 60 / min(jobs, joblib.cpu_count())
        console.print(f"{len(missing)} runs are missing: at most about {minutes:.0f} minutes with {jobs} jobs")
        columns = (TextColumn("runs"), MofNCompleteColumn(), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.description}"), console=console) as bar:
            task = bar.add_task("", total=len(missing))
            for run in train_all(missing, records, jobs, data_dir):
                text = f"{run.dataset} {run.setting} seed {run.seed}: test {records[run]['test']:.3f}"
                bar.update(task, advance=1, description=text)
                if not console.is_terminal:
                    console.print(text)


def _write(what: str, table: Table, folder: Path) -> None:
    """Writes the table or figure with all records at hand."""
    if what.startswith("figure"):
        save(training_curves(table.rows), folder / what)
        return
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / f"{what}.md", lambda file: file.write(table.markdown().encode()))
    write(folder / f"{what}.csv", lambda file: file.write(table.csv().encode()))

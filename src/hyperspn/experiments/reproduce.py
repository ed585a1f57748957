"""Reproduce: train what is missing, then write the table or figure."""

from __future__ import annotations

import os

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ..checks import did_you_mean
from ..files import write
from .artifacts import ARTIFACTS
from .figures import FIGURES, save
from .records import Records
from .reports import Report
from .runs import AnyRun
from .workers import train_all

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
) -> Report:
    """Makes a table or figure of the paper from records; trains first what it needs and is not there yet.

    Each run becomes one record in the folder `results`; an interrupted run resumes where it stopped. A table is written
    there as Markdown and CSV, a figure as PNG and SVG, with all data sets that have their records.

    Arguments:
        what: "table1" to "table7", "figure5", "figure6" or "beyond".
        results: The folder of records, tables and figures.
        datasets: Train and return only these of the data sets.
        seeds: How many seeds the setting that is best on validation has; by default as many as published.
        jobs: How many runs at a time, which share the cores; by default one per core. Dask always takes all its cores.
        backend: Where they run: "loky" for processes here; "dask" for the cluster that Dask is configured for
            (DASK_SCHEDULER_ADDRESS), "ray" for that of Ray (RAY_ADDRESS). Both need their packages.
        data_dir: The folder of the benchmarks; by default the environment variable HYPERSPN_DATA.
        train: Whether to train; if not, only existing records count, and no file is written.

    Example:
        >>> report = reproduce("table4", train=False)
        >>> report.rows[0]
        {'option': 'learning rate', 'weight_decay': '0.02', 'hyperspn': '0.005'}
    """
    artifact = ARTIFACTS[_check_name(what, ARTIFACTS)]
    selected: Sequence[str] = [_check_name(name, artifact.datasets) for name in datasets]
    for name, number in (("seeds", seeds), ("jobs", jobs)):
        if number is not None and number < 1:
            raise ValueError(f"expected {name} >= 1, found {number}")
    records = Records(Path(results))
    if not train:
        return artifact.report(records, selected or artifact.datasets)
    selected = selected or artifact.default_datasets(data_dir)
    with _cluster(_check_name(backend, BACKENDS)):
        _train_missing(what, records, selected, seeds or artifact.seeds, jobs or -1, data_dir)
    report = artifact.report(records, artifact.datasets)
    write_report(what, report, records.folder)
    return report if set(selected) == set(artifact.datasets) else report.only(selected)


def write_report(what: str, report: Report, folder: Path) -> None:
    """Writes a table or figure into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if what in FIGURES:
        save(FIGURES[what](report), folder / what)
    else:
        write(folder / f"{what}.md", report.markdown().encode())
        write(folder / f"{what}.csv", report.csv().encode())


def _check_name(name: str, names: Collection[str]) -> str:
    if name not in names:
        raise ValueError(f"expected one of {', '.join(names) or 'none'}, found {name!r}{did_you_mean(name, names)}")
    return name


@contextmanager
def _cluster(backend: str) -> Iterator[None]:
    """Lets joblib train on this backend."""
    if backend == "loky":
        yield
        return
    try:
        client = _dask_client() if backend == "dask" else _ray_client()
    except ImportError as error:
        raise ValueError(f"{backend} is not installed: pip install 'hyperspn[{backend}]'") from error
    with client, joblib.parallel_config(backend):
        yield


def _dask_client() -> Any:
    from distributed import Client

    return Client()


def _ray_client() -> Any:
    import ray

    from ray.util.joblib import register_ray

    register_ray()
    return ray.init(ignore_reinit_error=True)


def _train_missing(
    what: str, records: Records, datasets: Sequence[str], seeds: int, jobs: int, data_dir: str | None
) -> None:
    """Trains until nothing is missing: which settings get more seeds depends on their validation values."""
    artifact, console = ARTIFACTS[what], Console(stderr=True, highlight=False)
    while missing := artifact.missing_runs(records, datasets, seeds):
        train_one = artifact.prepare(missing, records, data_dir)
        console.print(f"{what}: {_plan(missing, artifact.later_runs(records, datasets, seeds))}", soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("training", total=sum(run.core_seconds for run in missing))
            for number, run in enumerate(train_all(missing, records, jobs, data_dir, train_one), 1):
                console.print(f"{number}/{len(missing)} {_result(run, records)}", soft_wrap=True)
                bar.advance(task, run.core_seconds)


def _plan(runs: Sequence[AnyRun], later: Sequence[AnyRun]) -> str:
    """How many runs there are to train, and for how long."""
    cores = joblib.effective_n_jobs(-1)
    minutes = sum(run.core_seconds for run in (*runs, *later)) / cores / 60
    time = f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min" if minutes >= 1 else "a minute"
    more = f", then {len(later)} that depend on these" if later else ""
    return f"{_count(len(runs), 'run')} to train{more}, on {_count(cores, 'core')}: about {time}, less with early stops"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _result(run: AnyRun, records: Records) -> str:
    """A finished run in one line."""
    record = records[run]
    steps = f" at step {record['best_step']} of {record['steps']}" if "steps" in record else ""
    return (
        f"{run.dataset} {run.setting} seed {run.seed}: test {record['test']:.3f}, "
        f"valid {record['valid']:.3f}{steps}, {record['seconds']:.0f} s"
    )

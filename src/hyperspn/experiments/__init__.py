"""Experiments: every table and figure of the paper by one command each."""

from .artifacts import ARTIFACTS
from .kinds import Artifact
from .records import Records
from .reports import Report
from .reproduce import reproduce
from .runs import Run

__all__ = ["ARTIFACTS", "Artifact", "Records", "Report", "Run", "reproduce"]

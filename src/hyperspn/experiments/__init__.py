"""Experiments: every table and figure of the paper by one command each."""

from .artefacts import ARTEFACTS, Artefact
from .reproduce import reproduce
from .runs import Records, Run
from .tables import Table

__all__ = ["ARTEFACTS", "Artefact", "Records", "Run", "Table", "reproduce"]

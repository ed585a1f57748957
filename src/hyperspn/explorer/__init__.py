"""Pages: the explorer of a model, for the browser, and the report on it."""

from .page import Explorer

__all__ = ["Explorer"]

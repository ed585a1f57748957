"""Pages: the explorer of a model, for the browser."""

from .page import Explorer

__all__ = ["Explorer"]

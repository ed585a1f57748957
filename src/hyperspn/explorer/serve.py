"""Serve: the page with the native engine behind it, for models that are too large for a browser."""

from __future__ import annotations

import json
import secrets

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from threading import Lock
from typing import Any

import numpy as np
import torch

from ..asking import TableModel
from ..asking.reading import read, values_of
from ..data.columns import Column
from ..data.events import Known
from .page import page

ADDRESS = "127.0.0.1"
LONGEST = 50_000_000


class Answers:
    """The answers to the page's questions, from a model."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        self.lock = Lock()

    def infer(self, evidences: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """The log-probability of each evidence, and the posterior of each column's leaf distributions."""
        rows = [self._known(evidence) for evidence in evidences]
        values = np.concatenate([values_of(self.model.schema, row) for row in rows])
        evidence = read(self.model, *rows)
        log_p = self.model.circuit.log_prob(evidence).double().numpy() - self.model.schema.log_scale(values)
        posterior = self.model.circuit.marginals(evidence[torch.from_numpy(log_p > -inf)]).double()
        widths = [family.width for family in self.model.circuit.leaves.families]
        possible = iter([[row[v, :width].tolist() for v, width in enumerate(widths)] for row in posterior])
        return [
            {"log_p": p, "posterior": next(possible)} if p > -inf else {"log_p": None, "posterior": None}
            for p in log_p.tolist()
        ]

    def sample(self, known: Sequence[Any], count: int, seed: int) -> list[list[str]]:
        """Rows drawn under evidence, as text."""
        generator = torch.Generator().manual_seed(seed)
        drawn = self.model.circuit.sample_given(read(self.model, self._known(known)), n=count, generator=generator)
        columns = self.model.schema.decode(drawn[0].double().numpy(), seed).columns
        texts = [["" if value is None else str(value) for value in column.to_pylist()] for column in columns]
        return [list(row) for row in zip(*texts, strict=True)]

    def _known(self, entries: Sequence[Mapping[str, Any] | None]) -> dict[int, Known]:
        columns = self.model.schema.columns
        return {v: _known(columns[v], entry) for v, entry in enumerate(entries) if entry is not None}


def _known(column: Column, entry: Mapping[str, Any]) -> Known:
    """What the page knows of a column, in the circuit's units."""
    if "weights" in entry:
        return Known(event=np.array(entry["weights"], np.float64))
    if "value" in entry:
        return Known(value=(float(entry["value"]) - column.mean) / column.std)
    intervals = np.array([[float(end) for end in ends] for ends in entry["intervals"]] or [[0.0, 0.0]])
    return Known(event=(intervals - column.mean) / column.std)


class Server(ThreadingHTTPServer):
    """Serves the page of a model to whoever has its address, on this machine only.

    The address holds a token that nobody can guess. Requests with another one, or for another host than this (which a page
    from elsewhere would need), are answered with an error.
    """

    daemon_threads = True

    def __init__(
        self, model: TableModel, more: Mapping[str, Any] | None = None, port: int = 0, rows: Any = None
    ) -> None:
        super().__init__((ADDRESS, port), Handler)
        self.token = secrets.token_urlsafe(24)
        self.content = page(model, more, served=True, rows=rows).encode()
        self.answers = Answers(model)

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """Answers requests for the page, and its questions."""

    server: Server
    server_version, sys_version = "hyperspn", ""

    def do_GET(self) -> None:
        if self._is_welcome():
            is_page = self.path.split("?")[0] == f"/{self.server.token}/"
            self._send(*((HTTPStatus.OK, self.server.content) if is_page else (HTTPStatus.NOT_FOUND, b"not found")))

    def do_POST(self) -> None:
        question = self.path.rpartition("/")[2]
        length = self.headers.get("Content-Length", "")
        if not self._is_welcome():
            return
        if question not in ("infer", "sample") or not length.isdecimal() or int(length) > LONGEST:
            self._send(HTTPStatus.NOT_FOUND, b"not found")
            return
        try:
            arguments = json.loads(self.rfile.read(int(length)))
            with self.server.answers.lock, torch.no_grad():
                answer = getattr(self.server.answers, question)(**arguments)
            self._send(HTTPStatus.OK, json.dumps(answer).encode(), "application/json")
        except (ValueError, TypeError, KeyError, IndexError) as error:
            self._send(HTTPStatus.BAD_REQUEST, str(error).encode())

    def _is_welcome(self) -> bool:
        """Whether the request is for this host, from its own page, and knows the token."""
        host = f"{ADDRESS}:{self.server.server_port}"
        is_ours = self.headers.get("Host") == host and self.headers.get("Origin", f"http://{host}") == f"http://{host}"
        token = self.path.split("/")[1].encode() if "/" in self.path else b""
        if is_ours and secrets.compare_digest(token, self.server.token.encode()):
            return True
        self._send(HTTPStatus.FORBIDDEN, b"forbidden")
        return False

    def _send(self, status: HTTPStatus, content: bytes, kind: str = "text/html; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind if status == HTTPStatus.OK else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

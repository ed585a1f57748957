import gzip
import hashlib
import os

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pooch
import pytest

from hyperspn.data import load_splits, tables

ROWS = {"adult": 32561, "beijing": 43824, "default": 30000, "magic": 19020, "shoppers": 12330, "titanic": 1309}


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """An empty world: no folder, no cache."""
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.delenv("HYPERSPN_DATA", raising=False)


@pytest.fixture
def tiny(monkeypatch, empty):
    """Makes "titanic" a tiny table. Returns its content."""
    content = b"a,b\n" + b"".join(b"%d,%d\n" % (i % 3, i % 2) for i in range(20))
    entry = tables.TableFile(hashlib.sha256(content).hexdigest(), "http://127.0.0.1:9/titanic.csv")
    monkeypatch.setitem(tables.TABLES, "titanic", {"": entry})
    return content


def test_penguins_are_built_in(empty):
    splits = load_splits("penguins")
    assert [len(part) for part in splits[1:4]] == [241, 34, 69]
    assert splits.schema.names[:2] == ("species", "island")
    assert tables.where("penguins") == "built in"


@pytest.mark.parametrize("place", ["tables", "."])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_layouts_of_the_data_folder(tiny, tmp_path, monkeypatch, place, end):
    (tmp_path / "data" / place).mkdir(parents=True, exist_ok=True)
    file = tmp_path / "data" / place / f"titanic.csv{end}"
    file.write_bytes(gzip.compress(tiny) if end else tiny)
    assert load_splits("titanic", data_dir=str(tmp_path / "data")).train.shape == (14, 2)
    assert tables.where("titanic") == "download"
    monkeypatch.setenv("HYPERSPN_DATA", str(tmp_path / "data"))
    assert tables.where("titanic") == "at hand"
    file.write_bytes(gzip.compress(tiny + b"1,1\n") if end else tiny + b"1,1\n")
    with pytest.raises(
        ValueError, match=r"expected sha256 .* of .*titanic.csv.*, found another file: replace or remove"
    ):
        load_splits("titanic")


@pytest.fixture
def server(tmp_path, monkeypatch, tiny):
    """Serves a folder, where "titanic" is then. Returns the folder."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        entry = tables.TABLES["titanic"][""]._replace(url=f"http://127.0.0.1:{server.server_port}/titanic.csv")
        monkeypatch.setitem(tables.TABLES, "titanic", {"": entry})
        yield folder
        server.shutdown()
        thread.join()


def test_downloads(server, tiny):
    (server / "titanic.csv").write_bytes(tiny)
    assert load_splits("titanic").train.shape == (14, 2)
    (server / "titanic.csv").unlink()
    assert load_splits("titanic").train.shape == (14, 2)
    assert tables.where("titanic") == "at hand"


def test_downloads_are_prepared(server, tiny, monkeypatch):
    (server / "titanic.csv").write_bytes(gzip.compress(tiny))
    entry = tables.TABLES["titanic"][""]._replace(prepare=gzip.decompress)
    monkeypatch.setitem(tables.TABLES, "titanic", {"": entry})
    assert load_splits("titanic").train.shape == (14, 2)


def test_downloads_that_fail(server, tiny):
    with pytest.raises(
        OSError, match=r"titanic.csv cannot be downloaded .*: try again, or put titanic.csv into a folder"
    ):
        load_splits("titanic")
    (server / "titanic.csv").write_bytes(tiny[:-1])
    with pytest.raises(
        ValueError, match=r"expected sha256 .* of titanic.csv from http.*, found another file: try again"
    ):
        load_splits("titanic")


def test_adult_is_prepared():
    raw = b"39, State-gov, 77516, <=50K.\n50, ?, 83311, >50K.\n\n"
    assert tables._adult(raw) == tables.ADULT + b"39,State-gov,77516,<=50K\n50,?,83311,>50K\n"


@pytest.mark.skipif(not os.environ.get("HYPERSPN_DATA"), reason="needs the real tables")
@pytest.mark.parametrize("name", ROWS)
def test_real_tables(name):
    splits = load_splits(name)
    assert sum(map(len, splits[1:4])) == ROWS[name] + (16281 if name == "adult" else 0)
    again = splits.schema.encode(splits.schema.decode(splits.test))
    np.testing.assert_array_equal(again, splits.test)
    assert not any("unknown values" in note for note in splits.notes)

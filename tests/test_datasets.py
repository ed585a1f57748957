import gzip
import hashlib
import os
import re
import socket

from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pooch
import pytest

from hyperspn import datasets


def test_hand_crafted_data():
    data = datasets.load_dataset("hand-crafted")
    assert [part.shape for part in data] == [(7000, 256), (1000, 256), (2000, 256)]
    rows = np.concatenate(data).astype(float)
    assert set(np.unique(rows)) == {0, 1}
    assert abs(rows.mean() - 0.5) < 0.01
    correlation = np.corrcoef(rows.T)
    near = np.mean([correlation[i, i + 1] for i in range(0, 256, 2)])
    far = np.mean([correlation[i, i + 128] for i in range(64)])
    assert near > 0.1
    assert far < 0.05


def test_hand_crafted_probabilities_have_the_variance_of_eight_uniform_steps():
    """Neighbors share seven of eight steps, each of variance 0.4^2 / 12: their covariance is that of the shared part."""
    rows = np.concatenate(datasets.hand_crafted(seed=1)).astype(float)
    covariance = np.mean([np.cov(rows[:, i], rows[:, i + 1])[0, 1] for i in range(0, 256, 2)])
    clipped = np.clip(0.5 + np.random.default_rng(0).uniform(-0.2, 0.2, (100_000, 7)).sum(1), 0, 1)
    assert covariance == pytest.approx(clipped.var(), rel=0.1)


def test_digits():
    data = datasets.load_dataset("digits")
    assert [part.shape for part in data] == [(1257, 64), (180, 64), (360, 64)]
    assert set(np.unique(np.concatenate(data))) == {0, 1}


@pytest.mark.parametrize("name", ["hand-crafted", "digits"])
def test_seeds(name):
    assert np.array_equal(datasets.load_dataset(name, seed=2).test, datasets.load_dataset(name, seed=2).test)
    assert not np.array_equal(datasets.load_dataset(name, seed=2).test, datasets.load_dataset(name, seed=3).test)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", "a data set or a folder, found 'digit'; did you mean digits?"),
        ("pumsb-star", "found 'pumsb-star'; did you mean pumsb_star?"),
        ("some/where", "found 'some/where'$"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        datasets.load_dataset(name)


TINY = {"train": "0,1,1\n1,0,0\n", "valid": "0,0,0\n", "test": "1,1,1\n0,1,0\n1,0,1\n"}


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Makes "nltcs" a tiny data set, in an empty world: no folder, no cache. Returns its three arrays."""
    checksums = tuple(hashlib.sha256(text.encode()).hexdigest() for text in TINY.values())
    monkeypatch.setitem(datasets.BENCHMARKS, "nltcs", datasets.Benchmark("DEBD", 3, (2, 1, 3), checksums))
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.delenv("HYPERSPN_DATA", raising=False)
    return [np.loadtxt(text.splitlines(), np.uint8, delimiter=",", ndmin=2) for text in TINY.values()]


def write(folder, name="nltcs", zipped=False, **files):
    """Writes the files of the tiny data set, or others instead."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, text in (TINY | files).items():
        if zipped:
            (folder / f"{name}.{split}.data.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{name}.{split}.data").write_bytes(text.encode())
    return folder


def equal(data, arrays):
    return all(part.dtype == np.uint8 and np.array_equal(part, array) for part, array in zip(data, arrays))


def where(name, **options):
    return next(row.where for row in datasets.available(**options) if row.name == name)


@pytest.mark.parametrize("layout", ["DEBD/nltcs", "nltcs", "."])
@pytest.mark.parametrize("zipped", [False, True])
def test_layouts_of_the_data_folder(tiny, tmp_path, monkeypatch, layout, zipped):
    write(tmp_path / "data" / layout, zipped=zipped)
    assert equal(datasets.load_dataset("nltcs", data_dir=tmp_path / "data"), tiny)
    assert where("nltcs", data_dir=tmp_path / "data") == "at hand"
    assert where("nltcs") == "download"
    monkeypatch.setenv("HYPERSPN_DATA", str(tmp_path / "data"))
    assert equal(datasets.load_dataset("nltcs"), tiny)
    assert where("nltcs") == "at hand"


def test_a_data_folder_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"expected a folder of data sets, found none at .*: check"):
        datasets.load_dataset("nltcs", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("HYPERSPN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="HYPERSPN_DATA"):
        datasets.available()


@pytest.mark.parametrize("text", ["0,1,1\n", "0,1\n1,0\n"])
def test_benchmarks_have_their_size(tiny, tmp_path, text):
    write(tmp_path, train=text)
    with pytest.raises(ValueError, match=r"expected 2 rows of 3 values in .*nltcs.train.data, found .*: replace it by"):
        datasets.load_dataset("nltcs", data_dir=tmp_path)


@pytest.mark.parametrize("cut", [5, 25, -9])
def test_damaged_gzip_files(tiny, tmp_path, cut):
    write(tmp_path, zipped=True)
    path = tmp_path / "nltcs.valid.data.gz"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"the gzip file .*nltcs.valid.data.gz is damaged: copy or fetch it again"):
        datasets.load_dataset("nltcs", data_dir=tmp_path)


@pytest.mark.parametrize("name", ["mine", "other"])
@pytest.mark.parametrize("zipped", [False, True])
def test_folders_of_ones_own(tiny, tmp_path, monkeypatch, name, zipped):
    folder = write(tmp_path / "mine", name, zipped)
    assert equal(datasets.load_dataset(folder), tiny)
    assert equal(datasets.load_dataset(str(folder)), tiny)
    monkeypatch.chdir(folder)
    assert equal(datasets.load_dataset("."), tiny)


def test_folders_of_several_data_sets(tiny, tmp_path):
    folder = write(write(tmp_path / "mine", "a"), "b", train="0,0,0\n")
    with pytest.raises(ValueError, match=r"expected one data set <name>.\{train,valid,test\}.data in .*, found a, b"):
        datasets.load_dataset(folder)
    write(folder, "mine")
    assert equal(datasets.load_dataset(folder), tiny)


def test_incomplete_folders(tmp_path):
    with pytest.raises(ValueError, match="found none"):
        datasets.load_dataset(tmp_path)
    (write(tmp_path, "mine") / "mine.valid.data").unlink()
    with pytest.raises(FileNotFoundError, match=r"expected mine.valid.data or mine.valid.data.gz in .*, found neither"):
        datasets.load_dataset(tmp_path)
    write(tmp_path, "mine", test="0,1\n")
    with pytest.raises(
        ValueError, match=r"expected equally many variables .*, found 3 in train, 3 in valid, 2 in test"
    ):
        datasets.load_dataset(tmp_path)


@pytest.mark.parametrize("text", ["0,1,1\r\n1,0,0\r\n", "0,1,1\n1,0,0", "0,1,1\n1,0,0\n\n"])
def test_ends_of_lines(tiny, tmp_path, text):
    assert equal(datasets.load_dataset(write(tmp_path, train=text)), tiny)


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("", 1, ""),
        ("0,1,2\n", 1, "0,1,2"),
        ("0,1,\n", 1, "0,1,"),
        ("0 1 1\n", 1, "0 1 1"),
        ("\x00,1,1\n", 1, r"\x00,1,1"),
        ("0,1,1\n0,1\n", 2, "0,1"),
        ("0,1,1\n\n0,1,1\n", 2, ""),
        ("0,1,1\n0,1,1,0\n0,1\n", 2, "0,1,1,0"),
        ("0,1,1\n1,0,0\n0,?,1\n", 3, "0,?,1"),
        ("0,1,1\n1,0;0\n", 2, "1,0;0"),
    ],
)
def test_bad_lines(tmp_path, text, line, found):
    write(tmp_path, "mine", train=text)
    message = f"every line, found '{found}' in line {line} of {tmp_path / 'mine.train.data'}: fix the file"
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.load_dataset(tmp_path)


@pytest.fixture
def server(tiny, tmp_path, monkeypatch):
    """Serves a folder at the address of DEBD, and counts what is asked for. Returns the folder and the list."""
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setitem(datasets.URLS, "DEBD", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield folder, asked
        server.shutdown()
        thread.join()


def test_downloads(tiny, server, tmp_path):
    folder, asked = server
    write(folder / "nltcs")
    assert equal(datasets.load_dataset("nltcs"), tiny)
    assert asked == [f"/nltcs/nltcs.{split}.data" for split in datasets.SPLITS]
    assert where("nltcs") == "at hand"
    assert equal(datasets.load_dataset("nltcs"), tiny)
    assert len(asked) == 3
    cached = tmp_path / "cache" / "hyperspn" / "DEBD" / "nltcs" / "nltcs.valid.data"
    cached.write_text("1,1,1\n")
    assert equal(datasets.load_dataset("nltcs"), tiny)
    assert len(asked) == 4


def test_only_what_is_missing_is_downloaded(tiny, server, tmp_path):
    folder, asked = server
    write(folder / "nltcs")
    (write(tmp_path / "data") / "nltcs.test.data").unlink()
    assert equal(datasets.load_dataset("nltcs", data_dir=tmp_path / "data"), tiny)
    assert asked == ["/nltcs/nltcs.test.data"]


def test_downloads_with_a_wrong_checksum(server):
    write(server[0] / "nltcs", valid="1,1,1\n")
    message = r"expected sha256 \w{64} of http://.*nltcs.valid.data, found another file: .* HYPERSPN_DATA"
    with pytest.raises(ValueError, match=message):
        datasets.load_dataset("nltcs")
    assert where("nltcs") == "download"


def test_downloads_that_the_server_does_not_have(server):
    with pytest.raises(OSError, match=r"nltcs.train.data cannot be downloaded \(HTTPError\): .* HYPERSPN_DATA"):
        datasets.load_dataset("nltcs")


def test_downloads_without_a_server(tiny, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setitem(datasets.URLS, "DEBD", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(
            OSError, match=r"downloaded \(ConnectionError\): try again, or put nltcs.train.data into a folder"
        ):
            datasets.load_dataset("nltcs")


def test_the_list_of_data_sets(tiny):
    rows = datasets.available()
    assert [row.name for row in rows] == list(datasets.BENCHMARKS)
    assert Counter(row.collection for row in rows) == {"built in": 2, "DEBD": 20, "amzn": 15}
    assert Counter(row.where for row in rows) == {"built in": 2, "download": 35}
    assert rows[3] == datasets.Listing("msnbc", "DEBD", 17, 291326, 38843, 58265, "download")


@pytest.mark.parametrize("name", datasets.BUILT_IN)
def test_built_in_data_sets_are_as_listed(name):
    listed = next(row for row in datasets.available() if row.name == name)
    assert [part.shape for part in datasets.load_dataset(name)] == [(rows, listed.variables) for rows in listed[3:6]]
    assert listed.where == "built in"


def test_addresses_and_checksums():
    for name, known in datasets.BENCHMARKS.items():
        if name not in datasets.BUILT_IN:
            assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in known.sha256)
            assert re.fullmatch(
                r"https://[\w./]+/\w+/\w+/[0-9a-f]{40}/datasets(/amzn)?", datasets.URLS[known.collection]
            )


@pytest.mark.skipif("HYPERSPN_DATA" not in os.environ, reason="needs benchmark data")
@pytest.mark.parametrize("name", [name for name in datasets.BENCHMARKS if name not in datasets.BUILT_IN])
def test_benchmarks(name):
    known = datasets.BENCHMARKS[name]
    data = datasets.load_dataset(name)
    assert [part.shape for part in data] == [(rows, known.variables) for rows in known.rows]
    for part, checksum in zip(data, known.sha256):
        text = np.full((len(part), 2 * known.variables), ord(","), np.uint8)
        text[:, ::2] = part + ord("0")
        text[:, -1] = ord("\n")
        assert hashlib.sha256(text.data).hexdigest() == checksum

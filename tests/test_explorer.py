"""The explorer: what its page contains, the command that writes it, and the server."""

import base64
import gzip
import hashlib
import http.client
import json
import re
import subprocess

from html import unescape
from threading import Thread

import numpy as np
import pytest

from evaluator import node

from hyperspn import EiNet, TableModel
from hyperspn.data import read_table
from hyperspn.data.columns import Column
from hyperspn.data.schema import Schema
from hyperspn.explorer import page as pages
from hyperspn.explorer.serve import Server
from hyperspn.structures import poon_domingos


@pytest.fixture(scope="module")
def model(people):
    return TableModel.load(people[0] / "run")


@pytest.fixture
def server(model):
    with Server(model) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def content(html):
    packed = re.search(r'<script type="text/plain" id="model">(.*?)</script>', html, re.DOTALL)[1]
    unpacked = gzip.decompress(base64.b64decode(packed))
    length = int.from_bytes(unpacked[:4], "little")
    return json.loads(unpacked[4 : 4 + length]), unpacked


def test_a_page_says_what_it_contains(model):
    header, _ = content(model.explore().html)
    assert [column["name"] for column in header["columns"]] == list(model.schema.names)
    assert header["rows"] == model.num_rows
    weights = [entry["count"] for entry in header["arrays"] if entry["name"].startswith("weights.")]
    learnable = sum(parameter.numel() for parameter in model.circuit.weights.parameters())
    assert sum(weights) == learnable + len(model.circuit.mixture)


def test_the_scripts_of_the_page_are_whole(tmp_path):
    """Joined in one file, modules must not give one name to two things."""
    for number, names in enumerate((pages.EVALUATOR, pages.PAGE)):
        script = tmp_path / f"{number}.mjs"
        script.write_text(pages._script(names))
        checked = subprocess.run([node(), "--check", str(script)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_only_the_scripts_of_the_page_may_run(model):
    html = model.explore().html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    scripts = re.findall(r"<script(?: id=\"evaluator\")?>(.*?)</script>", html, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in [*scripts, *styles]}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert not re.search(r"^(import|export) ", scripts[0] + scripts[1], re.MULTILINE)


def test_a_notebook_shows_the_page(model, tmp_path):
    explorer = model.explore()
    assert unescape(re.search(r'srcdoc="([^"]*)"', explorer._repr_html_())[1]) == explorer.html
    explorer.save(tmp_path / "people.html")
    assert (tmp_path / "people.html").read_text(encoding="utf-8") == explorer.html


def test_the_command_writes_one_file(run, people, tmp_path):
    code, said, _ = run(f"explore {people[0]}/run --out {tmp_path}/people.html")
    assert code == 0
    assert "no row of the table in it" in said
    header, _ = content((tmp_path / "people.html").read_text(encoding="utf-8"))
    assert header["run"] == f"{people[0]}/run"


def test_rows_only_if_asked_for(run, people, model, tmp_path):
    path = tmp_path / "people.html"
    code, said, _ = run(f"explore {people[0]}/run --out {path} --with-rows")
    assert code == 0
    assert "400 rows of the table in it" in said
    header, unpacked = content(path.read_text(encoding="utf-8"))
    assert header["with_rows"]
    table = read_table(people[0] / "people.csv")
    surprisal = model.surprisal(table)
    sizes = {"f4": 4, "f8": 8, "u1": 1, "i2": 2, "i4": 4}
    at = len(unpacked) - sum(entry["count"] * sizes[entry["type"]] for entry in header["arrays"])
    rows = {}
    for entry in header["arrays"]:
        size, count = sizes[entry["type"]], entry["count"]
        shuffled = np.frombuffer(unpacked, np.uint8, size * count, at).reshape(size, count)
        dtype = f"{entry['type'][0]}{size}"
        rows[entry["name"]] = np.ascontiguousarray(shuffled.T).view(dtype).ravel()
        at += size * count
    np.testing.assert_array_equal(rows["rows.codes"].reshape(400, -1), model.schema.encode(table))
    np.testing.assert_allclose(rows["rows.bits"], surprisal.rows, rtol=1e-6)
    marked = rows["rows.strange"] >= 0
    assert marked.any()
    np.testing.assert_array_equal(rows["rows.strange"][marked], surprisal.rarity.argmax(1)[marked])
    assert "rows.codes" not in {entry["name"] for entry in content(model.explore().html)[0]["arrays"]}


def test_a_large_page_is_served(run, people, monkeypatch):
    monkeypatch.setattr(pages, "LARGEST", 1000)
    monkeypatch.setattr(Server, "serve_forever", lambda self: None)
    code, said, told = run(f"explore {people[0]}/run")
    assert code == 0
    assert said.startswith("http://127.0.0.1:")
    assert "too much for a browser" in told


def test_other_circuits_are_refused():
    circuit = EiNet(poon_domingos((2, 2), delta=1), layer_size=2)
    columns = tuple(Column(f"pixel {i}", "categorical", tuple(range(256))) for i in range(4))
    with pytest.raises(ValueError, match="another kind of circuit"):
        TableModel(circuit, Schema(columns)).explore()


def ask(server, path, host=None, method="GET", body=None, origin=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    headers = {"Host": host or f"127.0.0.1:{server.server_port}"} | ({"Origin": origin} if origin else {})
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_the_server_answers_only_its_own_page(server):
    own = f"/{server.token}/"
    status, html = ask(server, own)
    assert status == 200
    assert b"connect-src 'self'" in html
    assert ask(server, "/")[0] == ask(server, "/guess/")[0] == 403
    assert ask(server, own, host="evil.example")[0] == 403
    assert ask(server, own, host=f"localhost.evil.example:{server.server_port}")[0] == 403
    assert ask(server, own + "infer", method="POST", body="{}", origin="http://evil.example")[0] == 403
    assert ask(server, "/guess/infer", method="POST", body="{}")[0] == 403
    assert ask(server, own + "infer", method="POST", body="nonsense")[0] == 400
    assert ask(server, own + "model", method="POST", body="{}")[0] == 404
    assert server.server_address[0] == "127.0.0.1"


def test_the_server_evaluates(server, model):
    price = {"intervals": [[10, "inf"]]}
    color = model.schema.columns[0]
    impossible = {"weights": [0.0] * color.size}
    body = json.dumps({"evidences": [[None, None, price, None], [impossible, None, None, None]]})
    status, answer = ask(server, f"/{server.token}/infer", method="POST", body=body)
    assert status == 200
    possible, none = json.loads(answer)
    assert none == {"log_p": None, "posterior": None}
    assert np.exp(possible["log_p"]) == pytest.approx(model.probability("price>=10"), rel=1e-2)
    expected = model.distribution("color", "price>=10").probabilities
    assert possible["posterior"][0] == pytest.approx([expected[label] for label in color.labels], rel=1e-2)
    body = json.dumps({"known": [None, None, price, None], "count": 5, "seed": 1})
    rows = json.loads(ask(server, f"/{server.token}/sample", method="POST", body=body)[1])
    assert len(rows) == 5
    assert all(float(row[2]) >= 10 for row in rows)

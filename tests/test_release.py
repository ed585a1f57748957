"""What a release consists of: versions, licenses, and wheels that are whole."""

import re
import runpy
import zipfile

from pathlib import Path

import pytest

import hyperspn

ROOT = Path(__file__).parents[1]
TRY_WHEEL = ROOT / ".ci" / "try_wheel.py"


@pytest.fixture
def try_wheel():
    if not TRY_WHEEL.is_file():
        pytest.skip("the script is not there")
    return runpy.run_path(str(TRY_WHEEL))


def make_wheel(path, names):
    with zipfile.ZipFile(path, "w") as wheel:
        for name in names:
            wheel.writestr(name, "")
    return path


def test_wheels_without_a_part_are_refused(try_wheel, tmp_path):
    name = "hyperspn-1.0-cp312-abi3-manylinux_2_28_x86_64.whl"
    try_wheel["check"](make_wheel(tmp_path / name, try_wheel["CONTENTS"]))
    for part in try_wheel["CONTENTS"]:
        others = [other for other in try_wheel["CONTENTS"] if other != part]
        with pytest.raises(SystemExit, match=f"{re.escape(name)} lacks {re.escape(part)}$"):
            try_wheel["check"](make_wheel(tmp_path / name, others))


def test_wheels_for_one_machine_are_refused(try_wheel, tmp_path):
    wheel = make_wheel(tmp_path / "hyperspn-1.0-cp312-abi3-linux_x86_64.whl", try_wheel["CONTENTS"])
    with pytest.raises(SystemExit, match="expected a wheel with a manylinux tag, found"):
        try_wheel["check"](wheel)


def test_the_version_is_in_one_place_and_in_the_changelog():
    assert not re.search(r"^version *=", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert hyperspn.__version__ in versions[:2]
    assert versions == sorted(versions, reverse=True)


def test_what_is_shipped_has_its_license():
    table = (ROOT / "licenses" / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in (ROOT / "licenses").glob("*.txt")} == set(re.findall(r"\]\(([\w-]+\.txt)\)", table))

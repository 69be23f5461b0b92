"""ARCHITECTURE.md stays true, and the rules that no linter states hold in the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("realtime", "models", "kernels", "loadtest")
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def _modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_document_stays_short():
    assert len(TEXT.splitlines()) <= 250


def _named_in(folder: str) -> set[str]:
    """File names in the list item that starts with the folder's path."""
    item = re.search(
        rf"^- `{re.escape(folder)}/`:(.*?)(?=^- |^\n|^#)", TEXT, re.MULTILINE | re.DOTALL
    )
    return set(re.findall(r"`([\w]+\.(?:py|cpp))`", item.group(1))) if item else set()


def test_every_module_is_named():
    sources = [p for p in _modules() if p.name != "__init__.py"]
    missing = [_relative(p) for p in sources if p.name not in _named_in(_relative(p.parent))]
    assert not missing, f"ARCHITECTURE.md does not name {missing}"


def test_every_path_exists():
    paths = set(re.findall(r"`((?:[\w-]+/)[\w./-]*|[\w-]+\.(?:md|toml|yaml))`", TEXT))
    missing = [p for p in paths if not (ROOT / p).exists()]
    assert not missing, f"ARCHITECTURE.md names {missing}, which do not exist"


def _calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


@pytest.mark.parametrize(
    ("forbidden", "allowed"),
    [
        (r"os\.(environ|getenv).*", {"realtime/config.py"}),
        (r"time\.(time|monotonic|perf_counter)(_ns)?", {"realtime/clock.py"}),
        (r"asyncio\.create_task", set[str]()),
        (r"pickle\..*", set[str]()),
    ],
)
def test_one_owner_of_environment_time_and_tasks(forbidden: str, allowed: set[str]):
    offenders = [
        f"{_relative(path)}: {name}"
        for path in _modules()
        if path.is_relative_to(ROOT / "realtime") and _relative(path) not in allowed
        for name in _calls(ast.parse(path.read_text(encoding="utf-8")))
        if re.fullmatch(forbidden, name)
    ]
    assert not offenders


def test_no_path_of_a_machine_and_no_unfinished_marks():
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError|/(?:work|home|root)/")
    offenders = [
        f"{_relative(path)}:{number}"
        for path in _modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not offenders

"""Building the kernels: found, cached, and refused with a typed error."""

from pathlib import Path

import pytest

from kernels.cpu import build
from kernels.cpu.build import CompilerMissingError, KernelBuildError, build_library, find_compiler


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


# Answers --version, notes each compilation and writes the file named after -o.
FAKE = 'if [ "$1" = --version ]; then echo fake 1; exit; fi\necho run >> "{log}"\n{rest}'
WRITE_OUTPUT = 'while [ "$1" != -o ]; do shift; done\necho library > "$2"'


def test_missing_compiler_is_a_typed_error():
    with pytest.raises(CompilerMissingError, match="no-such-compiler"):
        find_compiler("no-such-compiler")


def test_second_build_comes_from_the_cache(tmp_path):
    log = tmp_path / "log"
    compiler = script(tmp_path / "cc", FAKE.format(log=log, rest=WRITE_OUTPUT))
    first = build_library(compiler=compiler, cache_directory=tmp_path / "cache")
    second = build_library(compiler=compiler, cache_directory=tmp_path / "cache")
    assert first == second
    assert first.read_text() == "library\n"
    assert log.read_text().count("run") == 1
    assert list((tmp_path / "cache").iterdir()) == [first]


def test_other_flags_make_another_library(tmp_path):
    compiler = script(tmp_path / "cc", FAKE.format(log=tmp_path / "log", rest=WRITE_OUTPUT))
    plain = build_library(compiler=compiler, cache_directory=tmp_path)
    portable = build_library(
        compiler=compiler, cache_directory=tmp_path, defines=("KERNELS_PORTABLE",)
    )
    assert plain != portable


def test_failing_compiler_says_why_and_leaves_nothing_behind(tmp_path):
    compiler = script(
        tmp_path / "cc", FAKE.format(log=tmp_path / "log", rest="echo no vectors here >&2; exit 1")
    )
    with pytest.raises(KernelBuildError, match="no vectors here"):
        build_library(compiler=compiler, cache_directory=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_compiler_without_march_gets_the_next_architecture_flags(tmp_path):
    refuse = 'case "$*" in *-march=native*) exit 1;; esac\n' + WRITE_OUTPUT
    compiler = script(tmp_path / "cc", FAKE.format(log=tmp_path / "log", rest=refuse))
    assert build_library(compiler=compiler, cache_directory=tmp_path / "cache").exists()


def test_unusable_cache_directory_falls_back_to_a_private_one(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    registered = []
    monkeypatch.setattr(build.atexit, "register", lambda *a, **k: registered.append(a))
    compiler = script(tmp_path / "cc", FAKE.format(log=tmp_path / "log", rest=WRITE_OUTPUT))
    library = build_library(compiler=compiler, cache_directory=tmp_path / "file" / "below")
    assert library.exists()
    remove, directory = registered[0]
    remove(directory)
    assert not library.exists()

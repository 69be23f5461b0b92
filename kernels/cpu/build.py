"""Compiles the C++ kernels with the machine's own compiler and caches the library.

The cache key covers sources, flags, compiler version and CPU, so a changed source or a home
directory shared between machines never meets a stale or foreign library.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE_DIRECTORY = Path(__file__).parent
COMPILERS = ("c++", "g++", "clang++")
FLAGS = (
    "-O3",
    "-std=c++17",
    "-shared",
    "-fPIC",
    # A compiler may not fuse a * b + c on its own: rounding would depend on its inlining.
    "-ffp-contract=off",
    "-Wno-psabi",
)
# In order of preference: clang on arm64 may know only the second, an unusual target neither.
ARCHITECTURE_FLAGS = (("-march=native",), ("-mcpu=native",), ())
COMPILE_TIMEOUT_S = 300.0


class CompilerMissingError(RuntimeError):
    """No C++ compiler was found on this machine."""


class KernelBuildError(RuntimeError):
    """A compiler was found but could not build the kernels."""


def find_compiler(compiler: str | None = None) -> str:
    """Path of the C++ compiler to use.

    Args:
        compiler: Name or path to use instead of the first of ``COMPILERS`` on the path.

    Raises:
        CompilerMissingError: Nothing executable by that name, or by any of the usual names.
    """
    for name in (compiler,) if compiler else COMPILERS:
        if path := shutil.which(name):
            return path
    wanted = compiler or ", ".join(COMPILERS)
    raise CompilerMissingError(f"no C++ compiler found (looked for {wanted})")


def build_library(
    *,
    compiler: str | None = None,
    cache_directory: Path | None = None,
    defines: tuple[str, ...] = (),
) -> Path:
    """Path of the compiled kernels, building them if the cache does not hold them.

    Safe with concurrent processes: each builds into its own file and renames it into place.

    Args:
        compiler: C++ compiler; ``None`` finds one.
        cache_directory: Where libraries are kept; ``None`` is the user's cache directory, or a
            temporary one where that cannot be written.
        defines: Preprocessor definitions, such as ``KERNELS_PORTABLE`` for the code without
            intrinsics.

    Raises:
        CompilerMissingError: No compiler.
        KernelBuildError: The compiler failed; carries what it said.
    """
    path = find_compiler(compiler)
    flags = (*FLAGS, *(f"-D{name}" for name in defines))
    name = f"kernels-{_fingerprint(path, flags)}.so"
    directory = _writable_directory(cache_directory)
    library = directory / name
    if not library.exists():
        _compile(path, flags, library)
    return library


def _fingerprint(compiler: str, flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for source in sorted(SOURCE_DIRECTORY.glob("*.[ch]*")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    version = _run([compiler, "--version"]).stdout
    digest.update("\0".join((*flags, str(ARCHITECTURE_FLAGS), version, _cpu())).encode())
    return digest.hexdigest()[:20]


def _cpu() -> str:
    """What ``-march=native`` may look at: the CPU's model and features."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    keys = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(keys)}))


def _writable_directory(wanted: Path | None) -> Path:
    directory = wanted or Path.home() / ".cache" / "realtime-speech"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        # A directory of this process alone: a fixed name in a shared place could be planted.
        private = tempfile.mkdtemp(prefix="realtime-speech-")
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        return Path(private)


def _compile(compiler: str, flags: tuple[str, ...], library: Path) -> None:
    handle, name = tempfile.mkstemp(suffix=".so", dir=library.parent)
    os.close(handle)
    partial = Path(name)
    source = str(SOURCE_DIRECTORY / "decoder.cpp")
    complaint = ""
    try:
        for architecture in ARCHITECTURE_FLAGS:
            result = _run([compiler, *flags, *architecture, source, "-o", name])
            if result.returncode == 0:
                partial.replace(library)
                return
            complaint = result.stderr
        raise KernelBuildError(f"{compiler} failed:\n{complaint[-2000:]}")
    finally:
        partial.unlink(missing_ok=True)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelBuildError(f"could not run {command[0]}: {error}") from error

"""The packages of the `judge` extra: imported where they are needed, named where they are missing.

They are large, slow to import and not installed where nothing is judged.
"""

import importlib
import warnings
from typing import Any

from realtime.errors import RequestError

HOW_TO_INSTALL = {
    "resemblyzer": "pip install --no-deps resemblyzer webrtcvad-wheels",
    "webrtcvad": "pip install --no-deps resemblyzer webrtcvad-wheels",
}
JUDGE_EXTRA = "pip install 'realtime-speech[judge]'"


class MissingPackageError(RequestError):
    """A measurement was asked for whose package is not installed."""

    code = "missing_package"


def load(module: str, purpose: str) -> Any:
    """Import a module of the `judge` extra.

    Args:
        module: Its dotted name.
        purpose: What cannot be measured without it, for the message.

    Raises:
        MissingPackageError: It, or a package it needs, is not installed.
    """
    try:
        with warnings.catch_warnings():
            # their own old imports and deprecations are not ours to show
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        name = (error.name or module).partition(".")[0]
        how = HOW_TO_INSTALL.get(name, JUDGE_EXTRA)
        raise MissingPackageError(f"{purpose} needs the package {name}: {how}") from error

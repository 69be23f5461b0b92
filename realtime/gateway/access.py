"""Who may open a socket, from the headers of the upgrade request. Pure."""

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from realtime import wire
from realtime.config import GatewayConfig
from realtime.errors import RequestError, SpeechError, UnauthorizedError


def refusal(
    headers: Mapping[str, str], subprotocols: Sequence[str], config: GatewayConfig
) -> tuple[int, SpeechError] | None:
    """HTTP status and error with which an upgrade is refused; `None` accepts it.

    Args:
        headers: Of the request, by lower-case name.
        subprotocols: Those the caller offers.
        config: Keys and origins that are accepted.
    """
    origin = headers.get("origin")
    if origin is not None and not _is_allowed_origin(origin, headers.get("host"), config):
        return 403, RequestError(f"origin {origin!r} is not allowed")
    credential = bearer(headers)
    if config.api_keys and credential is not None and not is_accepted(credential, config.api_keys):
        return 401, UnauthorizedError("the credential is not accepted")
    if wire.SUBPROTOCOL not in subprotocols:
        return 400, RequestError(f"subprotocol {wire.SUBPROTOCOL} must be offered")
    return None


def bearer(headers: Mapping[str, str]) -> str | None:
    """The credential in the request's headers; `None` if there is none."""
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    return credential.strip() if scheme.lower() == "bearer" else None


def is_accepted(credential: str | None, accepted: tuple[str, ...]) -> bool:
    """Whether a credential is one of the accepted ones.

    Takes as long for a near miss as for a far one.
    """
    given = (credential or "").encode()
    matches = [hmac.compare_digest(given, key.encode()) for key in accepted]
    return credential is not None and True in matches


def _is_allowed_origin(origin: str, host: str | None, config: GatewayConfig) -> bool:
    """Whether a browser page may open a socket: pages of this very host and those listed may.

    A host name other than `localhost` has to be listed: an attacker's name may be made to resolve
    to this address.
    """
    try:
        page = urlsplit(origin)
    except ValueError:
        return False
    is_same_host = page.netloc != "" and page.netloc == host
    return origin in config.allowed_origins or (is_same_host and _is_address(page.hostname or ""))


def _is_address(hostname: str) -> bool:
    if hostname == "localhost":
        return True
    try:
        ipaddress.ip_address(hostname)
    except ValueError:
        return False
    return True

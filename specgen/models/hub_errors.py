"""The errors of the hub's client, whatever library they come from, in plain words."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from specgen.errors import MissingWeights

if TYPE_CHECKING:
    from specgen.profile import ModelSpec


def _causes(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and seen not in chain:
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    return chain


def explain(error: BaseException, spec: ModelSpec, patience: float) -> MissingWeights:
    """Turn whatever the client raised into one line and a next step.

    Args:
        error: what was raised.
        spec: the model that was asked for.
        patience: the seconds that an answer was waited for.
    """
    chain = _causes(error)
    return (
        _refused(chain, spec)
        or _unreachable(chain, spec, patience)
        or MissingWeights(f"cannot get {spec.model}: {_first_line(error)}", f"hf download {spec.model}")
    )


def _refused(chain: list[BaseException], spec: ModelSpec) -> MissingWeights | None:
    """Explain an answer of the hub that is not the model."""
    from huggingface_hub import errors

    def raised(*kinds: type[BaseException]) -> bool:
        return any(isinstance(error, kinds) for error in chain)

    page = f"{_endpoint()}/{spec.model}"
    response: Any = next((r for error in chain if (r := getattr(error, "response", None)) is not None), None)
    status = int(response.status_code) if response is not None else 0
    said = response.headers.get("X-Error-Message", "") if response is not None else ""
    if raised(errors.HFValidationError):
        return MissingWeights(f"{spec.model!r} is neither a folder nor a file here, nor a hub id", "see docs/models.md")
    if "credentials" in said:
        return MissingWeights(f"cannot get {spec.model}: the hub refuses the token that it was given", "hf auth login")
    if raised(errors.GatedRepoError) or status == 403 or (status == 401 and spec.gated):
        return MissingWeights(
            f"{spec.model} is gated: its terms must be accepted first", f"accept them at {page}, then: hf auth login"
        )
    if raised(errors.RevisionNotFoundError):
        return MissingWeights(
            f"{spec.model} has no revision {spec.revision!r} on the hub", f"its revisions: {page}/commits/main"
        )
    if raised(errors.RepositoryNotFoundError) or status in (401, 404):
        return MissingWeights(
            f"the hub has no model {spec.model}, or it is private", f"check the name at {page}; private: hf auth login"
        )
    if status == 429:
        return MissingWeights(
            f"cannot get {spec.model}: the hub asks to wait, there were too many requests",
            "wait a little, or: hf auth login",
        )
    if status:
        return MissingWeights(
            f"cannot get {spec.model}: the hub answers with an error ({status})",
            "try again later: https://status.huggingface.co",
        )
    return None


def _unreachable(chain: list[BaseException], spec: ModelSpec, patience: float) -> MissingWeights | None:
    """Explain why there was no answer."""
    reason, hint = _silence(chain, patience)
    return MissingWeights(f"cannot get {spec.model}: {reason}", hint) if reason else None


def _silence(chain: list[BaseException], patience: float) -> tuple[str | None, str | None]:
    from huggingface_hub.errors import OfflineModeIsEnabled

    endpoint = urlsplit(_endpoint())
    host = endpoint.netloc
    if endpoint.scheme in getproxies() and not proxy_bypass(endpoint.hostname or ""):
        host += ", through the proxy,"
    names = {type(error).__name__ for error in chain}
    network = "connect to a network and run the same command again"

    def raised(*kinds: type[BaseException]) -> bool:
        return any(isinstance(error, kinds) for error in chain)

    if raised(OfflineModeIsEnabled):
        return "the hub was not asked, because HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE"
    if "ProxyError" in names:
        return f"{host} cannot be reached", "check HTTPS_PROXY and NO_PROXY"
    if raised(socket.gaierror):
        return f"{host} cannot be found: no network, or no name service", network
    if raised(ssl.SSLError):
        return f"the certificate of {host} cannot be verified", "check the clock, or SSL_CERT_FILE"
    if raised(ConnectionRefusedError):
        return f"{host} refuses the connection", f"{network}, or check HF_ENDPOINT"
    if raised(TimeoutError) or any("Timeout" in name for name in names):
        return f"{host} did not answer within {patience:g} s", network
    if any(name in names for name in ("ConnectError", "ReadError", "RemoteProtocolError", "NetworkError")):
        return f"the connection to {host} failed", network
    return None, None


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__

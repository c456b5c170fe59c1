"""Messages between workers and parameter servers: a bounded JSON header, then arrays of numbers.

4 bytes     length of the header, big-endian
header      {"verb": "pull", …, "arrays": [["ids", "<i8", [812]], …]}
arrays      their bytes, one after the other
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from podsim.errors import LabError

LONGEST_HEADER = 64 << 10
LARGEST = 1 << 30
"""B. The largest size of a message's arrays."""
_DTYPES = ("<f8", "<i8")
_LENGTH = struct.Struct(">I")
Arrays = Mapping[str, npt.NDArray[Any]]


class PeerGone(LabError):
    """The other end closed the connection, or does not answer."""


def send_message(peer: socket.socket, fields: Mapping[str, Any], arrays: Arrays | None = None) -> None:
    """Send a message. Raises PeerGone, and LabError for one that is too large."""
    held = {name: np.ascontiguousarray(value) for name, value in (arrays or {}).items()}
    shapes = [[name, value.dtype.str, list(value.shape)] for name, value in held.items()]
    header = json.dumps({**fields, "arrays": shapes}).encode()
    if len(header) > LONGEST_HEADER or sum(value.nbytes for value in held.values()) > LARGEST:
        raise LabError("a message of more than 1 GiB: take a smaller --batch, or more servers")
    try:
        peer.sendall(_LENGTH.pack(len(header)) + header)
        for value in held.values():
            if value.size:
                peer.sendall(value.reshape(-1).view(np.uint8).data)
    except OSError as problem:
        raise PeerGone(f"the connection broke: {problem.strerror or problem}") from None


def receive_message(peer: socket.socket) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """(fields, arrays) of a message. Raises PeerGone, and LabError for bytes that are none."""
    (length,) = _LENGTH.unpack(_receive(peer, _LENGTH.size))
    if length > LONGEST_HEADER:
        raise LabError(f"a header of {length:,} bytes; at most {LONGEST_HEADER:,}")
    try:
        fields = json.loads(_receive(peer, length))
        shapes = [(str(name), str(dtype), tuple(shape)) for name, dtype, shape in fields.pop("arrays")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise LabError("a header that is no JSON object with its arrays") from None
    total = 0
    for name, dtype, shape in shapes:
        if dtype not in _DTYPES or len(shape) > 2 or not all(type(n) is int and n >= 0 for n in shape):
            raise LabError(
                f"array {name[:40]!r} of {dtype[:20]} {str(shape)[:40]}; {' and '.join(_DTYPES)} are taken"
            )
        total += 8 * math.prod(shape)
    if total > LARGEST:
        raise LabError(f"arrays of {total:,} bytes; at most {LARGEST:,}")
    arrays = {}
    for name, dtype, shape in shapes:
        data = _receive(peer, 8 * math.prod(shape))
        arrays[name] = np.frombuffer(data, dtype).reshape(shape)
    return fields, arrays


def _receive(peer: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        try:
            count = peer.recv_into(view[done:])
        except OSError as problem:
            raise PeerGone(f"the connection broke: {problem.strerror or problem}") from None
        if not count:
            raise PeerGone("the connection was closed")
        done += count
    return data


def open_connection(port: int, timeout: float) -> socket.socket:
    """A connection to a server of this machine. Raises PeerGone if nobody listens there."""
    try:
        return socket.create_connection(("127.0.0.1", port), timeout=timeout)
    except OSError as problem:
        raise PeerGone(f"no server answers: {problem.strerror or problem}") from None

"""A client of shared memory written from docs/shared-memory.md alone: os.memfd_create, one hello, numpy on the mapping."""

import fcntl
import hashlib
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import uuid

import grpc
import numpy as np
import pytest
from rustle import BINARY, KEY, noise, plan, rustle, write_plan

DIMENSION = 3000
PAGE = 4096
F32, BF16 = 1, 2
FILL = 0xA5


# Protobuf by hand: the few shapes these messages need.


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """Number → values, in order: integers, or bytes."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            value = number()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or number()
            value = message[at : at + size]
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def span(start, end):
    return field(1, start) + field(2, end)


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.spec = plan({"name": "band-sqrt", "bands": 4}, 30)
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(KEY)
        key.chmod(0o400)
        words = ["up", "--plan", write_plan(folder, self.spec), "--dimension", DIMENSION, "--workers", 2]
        words += ["--key-file", key, "--data-dir", folder / "data", "--unix", "--shared-memory", "--format", "json"]
        self.process = subprocess.Popen([str(BINARY), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline()
        assert line, "rustle up ended at once"
        endpoint = json.loads(line)["coordinator"]
        self.coordinator = self.channel(endpoint)
        self.noise_id = rustle("job", "show", "--coordinator", endpoint)["noise_id"]

    def channel(self, endpoint):
        # gRPC's own library names the socket's path as the authority, which HTTP/2 servers refuse.
        options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 1 << 24)]
        return grpc.insecure_channel(endpoint.replace("unix://", "unix:"), options=options)

    def call(self, method, request):
        return fields(self.coordinator.unary_unary(f"/rustle.v1.Noise/{method}")(request, timeout=20))

    def expected(self, row):
        """The whole row as `rustle noise` makes it from the key and the id of the job's noise."""
        with_id = {"noise_id": self.noise_id, "dimension": DIMENSION}
        return noise(self.folder, self.spec, (row, row + 1), (0, DIMENSION), **with_id)[0]

    def routes(self):
        while True:
            routes = [fields(route) for route in self.call("GetRouting", field(1, "default"))[5]]
            if all(4 in route for route in routes):
                return routes

    def token(self, row):
        commitment = hashlib.sha256(b"the batch of step %d" % row).digest()
        request = field(1, "default") + field(3, span(row, row + 1)) + field(4, commitment)
        # A release token: the grant, and the commitments that it is for.
        return field(1, self.call("Bind", request)[2][0]) + field(2, commitment)

    def fetch(self, route, row, token, extra=b""):
        """The chunks of one shard's part of a row."""
        local = fields(route[5][0])
        endpoint = (local.get(2) or route[4])[0].decode()
        request = field(1, "default") + field(3, route.get(1, [0])[0]) + field(4, route[3][0])
        request += field(5, span(row, row + 1)) + field(6, route[2][0]) + field(8, 10_000) + field(12, token)
        with self.channel(endpoint) as channel:
            stream = channel.unary_stream("/rustle.v1.Shards/FetchSlice")(request + extra, timeout=20)
            return [fields(chunk) for chunk in stream]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("shm"))
    yield running
    running.stop()


class Region:
    """Memory of this process, lent to workers over their lending sockets."""

    def __init__(self, slots, element=F32, seals=None, size=None):
        self.id = uuid.uuid4().bytes
        self.slots, self.element = slots, element
        width = {F32: 4, BF16: 2}[element]
        self.stride = -(-DIMENSION * width // PAGE) * PAGE
        size = size or slots * self.stride
        self.file = os.memfd_create("rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL if seals is None else seals
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, seals)
        self.memory = mmap.mmap(self.file, size)
        self.memory[:] = bytes([FILL]) * size
        self.loans = []

    def hello(self, **changed):
        known = {"magic": b"RUSTLSHM", "version": 1, "slots": self.slots} | changed
        return struct.pack(
            "<8sII16sQQIIQQ",
            *(known["magic"], known["version"], self.element, self.id, 0, DIMENSION, known["slots"], 0, 0, self.stride),
        )

    def lend(self, path, files=None, **changed):
        """The worker's refusal, or None."""
        loan = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        loan.connect(path)
        loan.settimeout(10)
        socket.send_fds(loan, [self.hello(**changed)], [self.file] if files is None else files)
        status, length = struct.unpack("<II", loan.recv(8, socket.MSG_WAITALL))
        if status:
            return loan.recv(length, socket.MSG_WAITALL).decode()
        self.loans.append(loan)
        return None

    def row(self, slot):
        """The row itself, not a copy of it."""
        kind = {F32: "<f4", BF16: "<u2"}[self.element]
        return np.frombuffer(self.memory, kind, DIMENSION, slot * self.stride)

    def is_untouched(self):
        return bytes(self.memory) == bytes([FILL]) * len(self.memory)


def lending_sockets(routes):
    return sorted({fields(route[5][0])[3][0].decode() for route in routes})


def lent(cluster, slots, element=F32):
    region, routes = Region(slots, element), cluster.routes()
    for path in lending_sockets(routes):
        assert region.lend(path) is None
    return region, routes


def test_rows_appear_in_numpy_without_a_copy(cluster):
    region, routes = lent(cluster, 2)
    assert len(routes) == 2
    view = region.row(1)
    for row in (0, 1, 7):
        token = cluster.token(row)
        for route in routes:
            chunks = cluster.fetch(route, row, token, field(10, region.id) + field(11, 1))
            assert all(3 not in chunk and chunk[6][0] > 0 for chunk in chunks)
        good = cluster.expected(row)
        assert np.array_equal(view.view("<u4"), good.view("<u4"))
    assert bytes(region.memory[: region.stride]) == bytes([FILL]) * region.stride, "slot 0 was not asked for"


def test_bf16_is_rounded_to_nearest_even(cluster):
    region, routes = lent(cluster, 1, BF16)
    token = cluster.token(3)
    for route in routes:
        cluster.fetch(route, 3, token, field(9, BF16) + field(10, region.id))
    bits = cluster.expected(3).view("<u4").astype(np.uint64)
    assert np.array_equal(region.row(0), ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2"))


def test_the_same_bytes_come_as_data_to_a_foreign_grpc_client(cluster):
    row, token = 5, cluster.token(5)
    good = cluster.expected(row)
    got = b"".join(chunk[3][0] for route in cluster.routes() for chunk in cluster.fetch(route, row, token))
    assert got == good.tobytes()


def test_no_token_no_byte(cluster):
    region, routes = lent(cluster, 1)
    token = cluster.token(9)
    # A byte of the signature, and one of the commitment.
    signature = token[:90] + bytes([token[90] ^ 1]) + token[91:]
    for bad, row in [(signature, 9), (token[:-1] + bytes([token[-1] ^ 1]), 9), (token, 10)]:
        with pytest.raises(grpc.RpcError) as refused:
            cluster.fetch(routes[0], row, bad, field(10, region.id))
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert b"not_bound" in dict(refused.value.trailing_metadata())["rustle-error-bin"]
    assert region.is_untouched()


def test_what_could_crash_a_worker_is_refused(cluster):
    path = lending_sockets(cluster.routes())[0]
    assert "not sealed" in Region(1, seals=0).lend(path)
    assert "at least" in Region(2, size=PAGE).lend(path)
    read, write = os.pipe()
    assert "another kind" in Region(1).lend(path, [read])
    assert "descriptors" in Region(1).lend(path, [])
    assert "descriptors" in Region(1).lend(path, [read, write])
    assert "magic" in Region(1).lend(path, magic=b"RUSTLSHX")
    assert "version" in Region(1).lend(path, version=2)
    assert "slots" in Region(1).lend(path, slots=0)
    assert Region(1).lend(path) is None, "the worker still takes what is sound"


def test_a_region_is_gone_with_its_connection(cluster):
    region, routes = lent(cluster, 1)
    token = cluster.token(12)
    for loan in region.loans:
        loan.close()
    with pytest.raises(grpc.RpcError) as refused:
        for _ in range(200):
            cluster.fetch(routes[0], 12, token, field(10, region.id))
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND

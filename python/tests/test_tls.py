"""`grpcs://`: the same bits from a cluster that speaks TLS, and a clear word where certificates are wrong."""

import shutil
import subprocess

import numpy as np
import pytest
from conftest import BINARY, DIMENSION, Cluster, rows

import rustle
from rustle import errors


def certificates(*words):
    subprocess.run([BINARY, "certs", *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def secured(folder):
    """A cluster with its own authority in the folder cluster/tls, on a port of its own."""
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    started = Cluster(folder, links=["--tls", "--listen", "127.0.0.1:0"])
    yield started
    started.stop()


def test_certificates_decide_who_gets_rows(secured, session, folder, tmp_path):
    address = secured.answer["coordinator"].removeprefix("https://")
    authority = folder / "cluster/tls"

    def connect(certificate, scheme="grpcs"):
        return rustle.connect(f"{scheme}://{address}?tls_dir={certificate}&timeout=30")

    with connect(authority / "job-default") as remote:
        assert np.array_equal(rows(remote, 3), rows(session, 3))
        cursor = remote.cursor()
    with connect(authority / "job-default", "shm") as remote:
        remote.resume(cursor)
        assert remote.fetch_into(3, np.empty(DIMENSION, np.float32)).std() > 0

    # `up` calls its trust domain so.
    domain = ["--trust-domain", "local"]
    certificates("new", "--out", tmp_path / "other", "--workers", "1", "--job", "default", *domain)
    with pytest.raises(errors.Untrusted, match="ca.pem"):
        connect(tmp_path / "other/job-default")
    # Trusts the cluster, and shows a certificate that the cluster does not know: it says nothing and hangs up.
    shutil.copytree(tmp_path / "other/job-default", tmp_path / "foreign")
    (tmp_path / "foreign/ca.pem").chmod(0o600)
    shutil.copy(authority / "ca.pem", tmp_path / "foreign/ca.pem")
    with pytest.raises(errors.Unavailable):
        connect(tmp_path / "foreign")
    role = ["--role", "job/another", *domain]
    certificates("issue", "--authority", authority, *role, "--out", tmp_path / "another")
    with pytest.raises(errors.AccessDenied, match="may not"):
        connect(tmp_path / "another")
    with pytest.raises(errors.AccessDenied, match="cannot be read"):
        connect(tmp_path / "nothing")
    with pytest.raises(errors.Unavailable, match=f"the coordinator at http://{address}"):
        rustle.connect(f"grpc://{address}?timeout=1")


def test_a_token_of_ranges_says_what_it_allows():
    fields = '{"kind": "range_not_allowed", "asked": {"start": 0, "end": 9}, "allowed": [{"start": 0, "end": 8}]}'
    error = errors.make("range_not_allowed", "coordinates 0..9 are more", False, fields)
    assert isinstance(error, errors.RangeNotAllowed) and isinstance(error, errors.AccessDenied)
    assert error.fields == {"asked": {"start": 0, "end": 9}, "allowed": [{"start": 0, "end": 8}]}
    assert not error.retry_safe

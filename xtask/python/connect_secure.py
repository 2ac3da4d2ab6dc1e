"""Encryption and tokens: what opens a server to a client, and what does not.

    connect_secure.py BINARY FOLDER
"""

import functools
import os
import pathlib
import subprocess
import sys

from millstream_server import Server

TOKEN = "0123-secret"

# What a client prints when it is let in, and the exit code when it is not. A session would try again for ten minutes.
CLIENT = """
import sys
from pyspark.sql.connect.client import SparkConnectClient
client = SparkConnectClient(sys.argv[1], retry_policy={"max_retries": 0})
try:
    print(client._analyze(method="spark_version").spark_version)
except Exception as error:
    print(f"{type(error).__name__}: {error}"[:800])
    sys.exit(3)
"""


def certificates(folder):
    """A certificate authority of our own, and a certificate for this machine that it signed."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    for name, subject in (("ca", "/CN=Millstream test CA"), ("other", "/CN=Another CA")):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names",
            "-out", "server.pem")
    (folder / "chain.pem").write_text((folder / "server.pem").read_text() + (folder / "ca.pem").read_text())


def ask(client, url, roots=None):
    """Whether a client gets an answer, and what it says."""
    environment = {**os.environ, "GRPC_VERBOSITY": "NONE"}
    environment.pop("SPARK_CONNECT_AUTHENTICATE_TOKEN", None)
    if roots is not None:
        environment["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(roots)
    done = subprocess.run([sys.executable, str(client), url], env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode == 0 and done.stdout.startswith("4."), (done.stdout + done.stderr).strip()


def check(client, what, url, opens, roots=None, says=""):
    opened, said = ask(client, url, roots)
    assert opened == opens and says in said, f"{what}: {'an answer' if opens else 'a refusal'} was expected, and it said: {said}"
    print(f"secure: {what}: {'answered' if opened else 'refused'}")


def starts(binary, folder, code, bind, *arguments):
    """Starts a server that has to refuse to start."""
    try:
        server = Server(binary, folder / "refused", *arguments, bind=bind).start()
    except RuntimeError as error:
        assert code in str(error), f"{code} was expected: {error}"
        print(f"secure: a server on {bind} {' '.join(map(str, arguments))}: refused with {code}".rstrip())
        return
    server.kill()
    raise AssertionError(f"a server on {bind} {arguments} must not start")


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    certificates(folder)
    client = folder / "client.py"
    client.write_text(CLIENT)
    expect = functools.partial(check, client)
    ca, other = folder / "ca.pem", folder / "other.pem"
    tls = ("--tls-cert", str(folder / "chain.pem"), "--tls-key", str(folder / "server.key"))

    with Server(binary, folder / "token", environment={"SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN}) as server:
        # PySpark sends a token in plain text to this machine only.
        expect("the token in plain text, on this machine", f"sc://localhost:{server.port}/;token={TOKEN}", True)
        expect("no token", f"sc://localhost:{server.port}", False, says="UNAUTHENTICATED")
        expect("another token", f"sc://localhost:{server.port}/;token=x", False, says="UNAUTHENTICATED")

    with Server(binary, folder / "tls", *tls) as server:
        secure = f"sc://localhost:{server.port}/;use_ssl=true"
        expect("TLS under our authority", secure, True, roots=ca)
        expect("TLS by its address", f"sc://127.0.0.1:{server.port}/;use_ssl=true", True, roots=ca)
        expect("TLS under another authority", secure, False, roots=other)
        expect("plain text to a server that speaks TLS", f"sc://localhost:{server.port}", False)

    with Server(binary, folder / "both", *tls, "--token", TOKEN, bind="0.0.0.0:0") as server:
        secure = f"sc://localhost:{server.port}/;use_ssl=true"
        expect("TLS and the token, on an address for others", f"{secure};token={TOKEN}", True, roots=ca)
        expect("TLS without the token", secure, False, roots=ca, says="UNAUTHENTICATED")
        expect("TLS with another token", f"{secure};token={TOKEN}x", False, roots=ca, says="UNAUTHENTICATED")

    everyone = "0.0.0.0:0"
    starts(binary, folder, "INSECURE_BIND", everyone)
    starts(binary, folder, "INSECURE_BIND", everyone, "--token", TOKEN)
    starts(binary, folder, "INSECURE_BIND", everyone, *tls)
    starts(binary, folder, "INVALID_CERTIFICATE", "127.0.0.1:0", "--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "names"))
    starts(binary, folder, "INVALID_CERTIFICATE", "127.0.0.1:0", "--tls-cert", str(other), "--tls-key", str(folder / "server.key"))
    starts(binary, folder, "INVALID_CERTIFICATE", "127.0.0.1:0", "--tls-cert", str(folder / "none.pem"), "--tls-key", str(folder / "server.key"))
    with Server(binary, folder / "insecure", "--insecure", bind=everyone) as server:
        expect("an open server that was asked for", f"sc://localhost:{server.port}", True)


if __name__ == "__main__":
    main()

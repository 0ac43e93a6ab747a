"""Certificates made for one test run: a root, and one for 127.0.0.1, localhost and what else is asked for below it."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Certificates:
    """PEM files: what to trust, and what a server shows."""

    root: Path
    certificate: Path
    key: Path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: str, issuer: str, public_key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(_name(issuer)).public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=2))


def make(folder: Path, addresses: Sequence[str] = ("127.0.0.1",)) -> Certificates:
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = _builder("root", "root", root_key.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    names = [x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses)]
    own = _builder("localhost", "root", key.public_key())
    own = own.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = Certificates(folder / "root.pem", folder / "certificate.pem", folder / "key.pem")
    made.root.write_bytes(root.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(own.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    made.key.write_bytes(key.private_bytes(*form))
    return made

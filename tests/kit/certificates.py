"""An authority of the tests' own, and the certificates it signs: PEM files for Kafka and librdkafka."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

YEAR = timedelta(days=365)
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Certificate:
    """Files: the certificate, its key (unencrypted), and `both` in one, which is Kafka's PEM key store."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates. file: its own certificate, for clients and brokers that trust it."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._subject = folder, _subject(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        made = (
            self._builder(self._subject, self._key.public_key(), now - YEAR, now + YEAR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(made))

    def issue(
        self, name: str, *hosts: str, ends: datetime | None = None, passphrase: str | None = None
    ) -> Certificate:
        """A certificate for hosts (names, addresses or URIs; none: a client's), valid from a year ago on.

        ends: in a year unless given. passphrase: of the key's file.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        builder = self._builder(_subject(name), key.public_key(), now - YEAR, ends or now + YEAR)
        if hosts:
            names = [_general_name(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        files = Certificate(*(self._folder / f"{name}{end}.pem" for end in ("", "-key", "-both")))
        files.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        files.key.write_bytes(_key_pem(key, passphrase))
        files.both.write_bytes(_key_pem(key, None) + files.certificate.read_bytes() + self.file.read_bytes())
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
    ) -> x509.CertificateBuilder:
        """With both key identifiers, which Python demands from 3.13 on (ssl.VERIFY_X509_STRICT)."""
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(signer, critical=False)
        )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    if "://" in host:
        return x509.UniformResourceIdentifier(host)
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, passphrase: str | None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

"""One secret makes a cluster. All certificates come from it, so whoever has it belongs to the cluster and nobody else.

Every replica derives the same key of a certificate authority from the secret, signs a certificate for itself with it,
and trusts that authority and no other. Nothing is sent around and nothing expires: certificates begin in the past and
end in the far future, because a clock that is wrong must not break a cluster. To shut somebody out, change the secret.
While it is being changed (``secret_file``) a replica has a certificate of the first secret and trusts the authorities
of all of them.

etcd reads its certificate at each handshake, but the authorities that it trusts only at its start. So the name of their
file is made of them: an etcd that was started with other authorities has another command, and is not taken over.
"""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tocsin.files import make_folder, unwritable, write_whole
from tocsin.member.address import split_address
from tocsin.member.secret_file import Secrets
from tocsin.model.cluster import Member

_DOMAIN = "tocsin.internal"
_BEGIN, _END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class Credentials:
    """The certificates of one replica: as files for etcd, and as contexts for what Tocsin itself says and hears."""

    def __init__(self, secrets: Secrets, member: Member, folder: Path) -> None:
        self.fingerprints = fingerprints(secrets)
        """Of the secret in use, and of the others that are trusted."""
        self._key = _authority_key(secrets.in_use)
        self._authority = _authority_certificate(self._key)
        others = [_authority_certificate(_authority_key(secret)) for secret in secrets.others]
        self._trusted_pem = "".join(_pem(authority) for authority in (self._authority, *others))
        # Which one is in use makes no difference to an etcd that runs.
        mark = hashlib.sha256(" ".join(sorted(self.fingerprints)).encode()).hexdigest()[:16]
        self.authority_file = folder / f"authority-{mark}.pem"
        self.own_file = folder / "replica.pem"
        """Certificate and key in one file, so that both change in one step."""
        self._member = member

    def write(self) -> None:
        """Put the files there. What is there and still right stays: an etcd that runs on may be reading it."""
        folder = self.authority_file.parent
        try:
            make_folder(folder)
            if not self._is_right():
                write_whole(self.own_file, self._own_pair())
            write_whole(self.authority_file, self._trusted_pem.encode())
        except OSError as wrong:
            raise unwritable(folder, wrong) from None

    def remove_former_authorities(self) -> None:
        """Only for the one process that may start an etcd here: another one may still name such a file to its etcd."""
        for file in self.authority_file.parent.glob("authority*.pem"):
            if file != self.authority_file:
                with suppress(OSError):
                    file.unlink()

    def server_context(self) -> ssl.SSLContext:
        """For listeners. Without a certificate of this cluster nobody gets through the handshake."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        return self._furnished(context)

    def client_context(self) -> ssl.SSLContext:
        """For calls. The name is checked too, not as a proof (who has the secret can make any certificate) but so that
        a replica which moved to the address of another is not taken for it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = True
        return self._furnished(context)

    def _furnished(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self._trusted_pem)
        context.load_cert_chain(self.own_file)
        return context

    def _is_right(self) -> bool:
        try:
            content = self.own_file.read_bytes()
            certificate = x509.load_pem_x509_certificate(content)
            key = serialization.load_pem_private_key(content, password=None)
            certificate.verify_directly_issued_by(self._authority)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return False
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return key.public_key() == certificate.public_key() and list(names) == _names(self._member)

    def _own_pair(self) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            _begun(self._member.name, self._authority.subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName(_names(self._member)), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(usage, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def secrets_differ(error: BaseException | None) -> bool:
    """Did a connection fail because one of the two does not have the cluster's secret?"""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if isinstance(error, ssl.SSLError) and any(
            alert in (error.reason or "")
            for alert in ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_REQUIRED")
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def fingerprints(secrets: Secrets) -> list[str]:
    """They tell secrets apart and give none of them away. The first is of the one in use."""
    return [_fingerprint(_authority_key(secret)) for secret in (secrets.in_use, *secrets.others)]


def certified_name(name: str) -> str:
    """What the certificate of a replica says beside its addresses."""
    return f"{name}.{_DOMAIN}"


def _authority_key(secret: bytes) -> ec.EllipticCurvePrivateKey:
    """More bits than the order has, so that no value is likelier than another."""
    stretched = HKDF(hashes.SHA256(), length=48, salt=b"tocsin cluster", info=b"authority P-256").derive(
        secret
    )
    return ec.derive_private_key(int.from_bytes(stretched) % (_P256_ORDER - 1) + 1, ec.SECP256R1())


def _fingerprint(key: ec.EllipticCurvePrivateKey) -> str:
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(public).hexdigest()[:16]


def _authority_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Its name holds the fingerprint: authorities of two secrets are strangers, not one with a bad signature."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Tocsin cluster {_fingerprint(key)}")])
    return (
        _begun(f"Tocsin cluster {_fingerprint(key)}", name, key.public_key(), serial=1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _begun(
    name: str, issuer: x509.Name, public: ec.EllipticCurvePublicKey, serial: int | None = None
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _names(member: Member) -> list[x509.GeneralName]:
    host, _ = split_address(member.peer)
    names: list[x509.GeneralName] = [x509.DNSName(certified_name(member.name)), x509.DNSName("localhost")]
    addresses = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    try:
        address = ipaddress.ip_address(host)
        addresses += [address] if address not in addresses else []
    except ValueError:
        name = x509.DNSName(host.rstrip("."))
        names += [name] if name not in names else []
    return [*names, *(x509.IPAddress(address) for address in addresses)]


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

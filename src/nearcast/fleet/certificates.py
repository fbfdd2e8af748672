"""The certificates of a local fleet: an authority of its own, and one certificate that all of its servers show.

Clients trust the authority by its file, which is no secret; its key signs the servers' certificate anew and is read by
nobody else.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nearcast.domain.errors import FleetError
from nearcast.fleet.credentials import FOLDER, kept_secret
from nearcast.fleet.ports import HOST
from nearcast.transport.endpoint import Tls

AUTHORITY = f"{FOLDER}/authority.pem"
_AUTHORITY_KEY = f"{FOLDER}/authority.key"
_SERVERS, _SERVERS_KEY = f"{FOLDER}/servers.pem", f"{FOLDER}/servers.key"

_AUTHORITY_LASTS, _SERVERS_LAST = timedelta(days=3650), timedelta(days=365)
_RENEWED = timedelta(days=30)  # before it runs out; a fleet that runs on for longer is to be started again by then
_EARLIER = timedelta(hours=1)  # clocks differ


def kept_certificates(state: Path, now: datetime | None = None) -> Tls:
    """What the servers of the fleet in `state` show, and whom to trust; made if absent, or soon to run out.

    Raises FleetError.
    """
    now = now or datetime.now(UTC)
    try:
        authority_key, servers_key = _kept_key(state / _AUTHORITY_KEY), _kept_key(state / _SERVERS_KEY)
        authority = _kept(state / AUTHORITY, now)
        if authority is None or authority.public_key() != authority_key.public_key():
            authority = _write(state / AUTHORITY, _authority(authority_key, now))
        servers = _kept(state / _SERVERS, now)
        if servers is None or servers.public_key() != servers_key.public_key() or not _signed(servers, authority):
            _write(state / _SERVERS, _for_servers(servers_key, authority, authority_key, now))
    except (OSError, ValueError) as error:
        raise FleetError(
            f"{state / FOLDER}: the certificates there cannot be used: {error}; remove authority.* and servers.*, and"
            " new ones are made"
        ) from error
    return Tls(state / AUTHORITY, state / _SERVERS, state / _SERVERS_KEY)


def _kept_key(file: Path) -> ec.EllipticCurvePrivateKey:
    kept = kept_secret(file, lambda: _pem(ec.generate_private_key(ec.SECP256R1())))
    key = load_pem_private_key(kept.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{file.name} is no key of an elliptic curve")  # noqa: TRY004 a file's content, not an argument
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _kept(file: Path, now: datetime) -> x509.Certificate | None:
    """None when there is none, or when it soon runs out."""
    if not file.exists():
        return None
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    return certificate if certificate.not_valid_after_utc - _RENEWED > now else None


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 a signature that is wrong, or of another kind, or of somebody else
        return False
    return True


def _write(file: Path, certificate: x509.Certificate) -> x509.Certificate:
    file.write_bytes(certificate.public_bytes(Encoding.PEM))
    return certificate


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _named("nearcast local fleet")
    return (
        _begun(name, name, key.public_key(), now, _AUTHORITY_LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, SHA256())
    )


def _for_servers(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """For both ends of a connection: servers of one cluster connect to each other."""
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST)), x509.DNSName("localhost")])
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        _begun(_named("nearcast server"), authority.subject, key.public_key(), now, _SERVERS_LAST)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(uses, critical=False)
        .add_extension(names, critical=False)
        .add_extension(issued_by, critical=False)
        .sign(authority_key, SHA256())
    )


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )

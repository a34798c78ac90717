"""What the file or Variable says about webhooks, checked when the receiver starts."""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ...engine.errors import ConfigError
from ...events.attributes import CORE, is_name, shown
from ...events.errors import EventError
from ...events.event import Event
from ...events.listed import is_own
from ...events.template import in_uri
from .endpoint import SHA256, AttributeChoices, Webhook
from .presets import PRESETS
from .template import Choice
from .verification import SIGNINGS, WINDOW_S, Nothing, Signature, Signing, Token, Verification, after

Texts = str | tuple[str, ...]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MOST_WINDOW_S: Final = 3600
_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "preset": tuple(PRESETS),
    "verify": (*SIGNINGS, "gitlab", "hmac", "token", "bearer", "basic", "none"),
    "hmac.encoding": ("hex", "base64"),
    "hmac.algorithm": ("sha1", "sha256", "sha384", "sha512"),
}
_STANDARD_BYTES: Final = (24, 64)  # Standard Webhooks 1.0.0, Signature scheme


class Secret(NamedTuple):
    """An Airflow connection's login and password."""

    login: str
    password: str


class Hmac(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `hmac` of a webhook."""

    header: str
    prefix: str = ""
    encoding: str = "hex"
    algorithm: str = "sha256"
    signs: str = "{body}"
    timestamp: str | None = None
    timestamp_prefix: str = ""


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One webhook, with the fields of its preset. docs/use/webhooks.md describes each."""

    name: str
    preset: str | None = None
    type: Texts = ()
    source: Texts = ()
    id: Texts = ()
    subject: Texts = ()
    time: Texts = ()
    extensions: dict[str, Texts] = {}
    verify: str | None = None
    secret: Texts = ()
    hmac: Hmac | None = None
    token_header: str | None = None
    window: int | None = None
    json_field: str | None = None
    ignore: tuple[str, ...] = ()
    verify_token: str | None = None


# Gets the id of a connection; None if there is none. Raises ValueError if it may not be read.
SecretOf = Callable[[str], Secret | None]


def read_webhooks(text: str, origin: str, secret_of: SecretOf) -> list[Webhook]:
    """The webhooks of a TOML text. Raises ConfigError naming the origin, the webhook and the fault."""
    try:
        found = tomllib.loads(text)
        given = msgspec.convert(found, dict[str, list[dict[str, Any]]]).get("webhook", [])
        if set(found) - {"webhook"} or not given:
            raise ValueError("it needs [[webhook]] tables and nothing else")
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ConfigError(f"{origin} has no webhooks: {error}") from None
    webhooks: list[Webhook] = []
    for number, each in enumerate(given, 1):
        name = each.get("name", f"number {number}")
        try:
            webhook = _webhook(_declared(each), secret_of)
            if any(other.name == webhook.name for other in webhooks):
                raise ValueError("the name is taken: give each webhook its own")
        except (ValueError, msgspec.ValidationError) as error:
            raise ConfigError(f"{origin}, webhook {name!r}: {str(error).removesuffix('.')}.") from None
        webhooks.append(webhook)
    return webhooks


def _declared(given: Mapping[str, Any]) -> Declaration:
    _check_names("", given, Declaration)
    _check_names("hmac.", given.get("hmac", {}), Hmac)
    declared = msgspec.convert(given, Declaration)
    if _NAME.fullmatch(declared.name) is None:
        raise ValueError("name is not 1 to 64 letters, digits, '.', '_' or '-'")
    if declared.preset is None:
        return declared
    filled: dict[str, Any] = {**PRESETS[declared.preset], **given}
    if "source" not in given and "source" in filled:
        filled["source"] = [each.replace("{name}", declared.name) for each in filled["source"]]
    return msgspec.convert(filled, Declaration)


def _check_names(prefix: str, given: object, struct: type[msgspec.Struct]) -> None:
    """Raises ValueError for an unknown field, and for an unknown word where only certain ones are allowed."""
    if not isinstance(given, dict):
        return  # the conversion refuses it
    fields = [field.name for field in msgspec.structs.fields(struct)]
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"{prefix}{name} is not a field: write one of {', '.join(fields)}")
        words = _WORDS.get(prefix + name)
        if words is not None and value not in words:
            raise ValueError(f"{prefix}{name} is {shown(value)}: write one of {', '.join(words)}")


def _webhook(declared: Declaration, secret_of: SecretOf) -> Webhook:
    default_source = f"/webhooks/{declared.name}"
    attributes = AttributeChoices(
        type=_choice(declared, "type"),
        source=Choice("source", declared.source or default_source),
        id=_choice(declared, "id"),
        subject=Choice("subject", declared.subject),
        time=Choice("time", declared.time),
        extensions={name: Choice(name, texts) for name, texts in declared.extensions.items()},
    )
    return Webhook(
        declared.name,
        _checked(attributes),
        _verification(declared, secret_of),
        json_field=declared.json_field,
        ignore=declared.ignore,
        answers_challenge=declared.verify == "slack",
        verify_token=_verify_token(declared, secret_of),
    )


def _choice(declared: Declaration, name: str) -> Choice:
    texts: Texts = getattr(declared, name)
    if not texts:
        hint = ', or "sha256" if the sender has none' if name == "id" else ""
        raise ValueError(
            f'{name} is missing: write {name} = "..." with {{data.NAME}} or {{header.NAME}}{hint},'
            " or name a preset"
        )
    return Choice(name, texts)


def _checked(attributes: AttributeChoices) -> AttributeChoices:
    for template in attributes.type.templates:
        if is_own(template.pattern):
            raise ValueError(
                f"type {template.text!r} is Interlock's own: it says what happened in Airflow and Spark, or"
                " that the bus reads a plain record. Choose another"
            )
    for template in attributes.id.templates:
        if template.is_constant and template.text != SHA256:
            raise ValueError(
                f"id {template.text!r} is the same for each request, so that all but the first would count as"
                ' repeats: write {data.NAME} or {header.NAME}, or "sha256"'
            )
    for name in attributes.extensions:
        if not is_name(name) or name in CORE:
            raise ValueError(
                f"extensions.{name} is not an extension: use lower-case letters and digits,"
                " and not the name of an attribute that CloudEvents defines"
            )
    for template in attributes.source.templates:
        if template.is_constant and in_uri(template.text) != template.text:
            raise ValueError(f"source {template.text!r} is not a URI reference (RFC 3986)")
    try:  # constant texts that no event may have
        for type_ in attributes.type.templates:
            for source in attributes.source.templates:
                Event.of(type_.pattern, source.pattern.replace("*", "x"))
    except EventError as error:
        raise ValueError(str(error)) from None
    return attributes


def _verification(declared: Declaration, secret_of: SecretOf) -> Verification:
    verify = declared.verify
    if verify is None:
        raise ValueError(
            'verify is missing: write how the sender proves itself, or verify = "none" if anybody may write'
            " these events"
        )
    if (declared.hmac is not None) != (verify == "hmac"):
        raise ValueError('verify = "hmac" and the table hmac belong together: hmac = { header = "..." }')
    if (declared.token_header is not None) != (verify == "token"):
        raise ValueError('verify = "token" and token_header = "..." belong together')
    if verify == "none":
        if declared.secret or declared.window is not None:
            raise ValueError('verify = "none" uses neither secret nor window: remove them')
        return Nothing()
    secrets = _secrets(declared, secret_of)
    signing = SIGNINGS.get(verify) if declared.hmac is None else _signing(declared.hmac)
    if declared.window is not None and (signing is None or not signing.has_time):
        raise ValueError(f"window has no effect: verify = {verify!r} signs no time. Remove it")
    if signing is not None:
        window = WINDOW_S if declared.window is None else declared.window
        if not 1 <= window <= _MOST_WINDOW_S:
            raise ValueError(f"window is {window}: give 1 to {_MOST_WINDOW_S} seconds")
        as_key = _standard_key if verify in ("standard", "svix") else lambda secret: secret.password.encode()
        return Signature(signing, [as_key(each) for each in secrets], window)
    if verify == "basic":
        pairs = [f"{each.login}:{each.password}".encode() for each in secrets]
        return Token("authorization", "Basic", [base64.b64encode(pair) for pair in pairs])
    tokens = [each.password.encode() for each in secrets]
    if verify == "bearer":
        return Token("authorization", "Bearer", tokens)
    return Token(_header_name(declared.token_header or "x-gitlab-token"), "", tokens)


def _signing(given: Hmac) -> Signing:
    header = _header_name(given.header)
    placeholders = re.findall(r"\{([^{}]*)\}", given.signs)
    wrong = [each for each in placeholders if each not in ("body", "timestamp") and not _is_header(each)]
    if wrong or "body" not in placeholders:
        raise ValueError(
            f"hmac.signs is {given.signs!r}: write {{body}}, and if they are signed {{timestamp}} and"
            " {header.NAME}"
        )
    if (given.timestamp is not None) != ("timestamp" in placeholders):
        raise ValueError(
            "hmac.timestamp and {timestamp} in hmac.signs belong together: a time that is not signed proves"
            " nothing"
        )
    timestamp = None if given.timestamp is None else _header_name(given.timestamp)
    if (timestamp == header) != bool(given.timestamp_prefix):
        raise ValueError(
            'hmac.timestamp_prefix, such as "t=", is for a time in the header of the signature: give it if'
            " hmac.timestamp is that header, and only then"
        )
    signs = re.sub(r"\{header\.([^{}]*)\}", lambda found: f"{{header.{found[1].lower()}}}", given.signs)
    split = after(given.prefix, given.timestamp_prefix)
    separate = None if timestamp == header else timestamp
    return Signing(header, split, signs, separate, given.encoding, given.algorithm)


def _is_header(placeholder: str) -> bool:
    name = placeholder.removeprefix("header.")
    return name != placeholder and _TOKEN.fullmatch(name) is not None


def _header_name(name: str) -> str:
    if _TOKEN.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not the name of a header")
    return name.lower()


def _secrets(declared: Declaration, secret_of: SecretOf) -> Sequence[Secret]:
    ids = [declared.secret] if isinstance(declared.secret, str) else declared.secret
    if not 1 <= len(ids) <= 2 or not all(ids):
        raise ValueError(
            "secret is missing: write the id of an Airflow connection with the secret as its password, as"
            ' secret = "my_webhook", or two of them while the secret is changed'
        )
    return [_secret(each, secret_of) for each in ids]


def _secret(conn_id: str, secret_of: SecretOf) -> Secret:
    secret = secret_of(conn_id)
    if secret is None:
        raise ValueError(
            f"there is no Airflow connection {conn_id!r}: airflow connections add {conn_id} --conn-type"
            " generic --conn-password SECRET"
        )
    if not secret.password:
        raise ValueError(f"the Airflow connection {conn_id!r} has no password, which is the webhook's secret")
    return secret


def _standard_key(secret: Secret) -> bytes:
    least, most = _STANDARD_BYTES
    shown = secret.password.removeprefix("v1,")  # as Supabase shows it
    try:
        key = base64.b64decode(shown.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not shown.startswith("whsec_") or not least <= len(key) <= most:
        raise ValueError(
            f"the secret is not whsec_ and {least} to {most} bytes in base64: copy it as the sender shows it"
        )
    return key


def _verify_token(declared: Declaration, secret_of: SecretOf) -> bytes | None:
    if declared.verify_token is None:
        return None
    return _secret(declared.verify_token, secret_of).password.encode()

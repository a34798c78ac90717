"""Which addresses a delivery may connect to.

A sink's address comes from an Airflow connection. More people may edit connections than may reach the
machines in a triggerer's network. So the IP address is checked, after the name was resolved and before the
socket connects. A name that resolves to another address the second time (DNS rebinding) does not get around
it.

Always refused: addresses that identify the machine to its cloud (metadata services), link-local, unspecified,
multicast and reserved ones, and IPv6 addresses that contain such an IPv4 address. Refused unless `allowed`
has them: loopback, private and other addresses that are not public. The lists are from IANA's special-purpose
registries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_METADATA: Final = _networks(
    "169.254.0.0/16",  # most clouds: 169.254.169.254, 169.254.170.2
    "100.100.100.200/32",  # Alibaba
    "168.63.129.16/32",  # Azure
    "192.0.0.192/32",  # Oracle
    "fd00:c1::a9fe:a9fe/128",  # Oracle
    "fd00:42::42/128",  # Scaleway
    "fd00:100::100:200/128",  # Alibaba
    "fd00:a9fe:a9fe::1/128",  # Linode
    "fd00:ec2::/32",  # AWS
    "fd20:ce::/32",  # Google
    "fe80::/10",
)
_NEVER: Final = _networks(
    "0.0.0.0/8",
    "192.0.0.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "ff00::/8",
)
_BY_SETTING: Final = _networks(
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "::1/128",
    "2001:2::/48",
    "2001:10::/28",
    "2001:db8::/32",
    "3fff::/20",
    "fc00::/7",
    "fec0::/10",
)
_PUBLIC_IPV6: Final = IPv6Network("2000::/3")
_TEREDO: Final = IPv6Network("2001::/32")
_NAT64: Final = IPv6Network("64:ff9b::/96")
# Translators of a network's own (RFC 8215, RFC 7915): not public, and the last bits are an IPv4 address.
_TRANSLATED: Final = _networks("64:ff9b:1::/48", "::ffff:0:0:0/96")
_IPV4_COMPATIBLE: Final = IPv6Network("::/96")
_IPV4_BITS: Final = 0xFFFF_FFFF


def refusal(address: str, allowed: Collection[Network] = ()) -> str:
    """Why no delivery may go to this address; "" if it may. address: an IP address, not a name.

    allowed: networks that deliveries may reach although they are not public.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address!r} is not an IP address"
    if isinstance(found, IPv6Address):
        inner = _inner(found)
        if isinstance(inner, str):
            return f"{address} {inner}"
        if inner is not None:
            why = _refusal(inner, allowed)
            return f"{address} stands for {inner}: {why}" if why else ""
        if _is_in(found, _TRANSLATED):
            translated = IPv4Address(int(found) & _IPV4_BITS)
            if why := _refusal(translated, allowed):
                return f"{address} stands for {translated}: {why}"
    return _refusal(found, allowed)


def _inner(address: IPv6Address) -> IPv4Address | str | None:
    """The IPv4 address that receives packets for this one; None if there is none.

    A text: why it is refused.
    """
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & _IPV4_BITS)
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _TEREDO:
        return "is a Teredo address, which tunnels to an IPv4 address"
    if address in _IPV4_COMPATIBLE and int(address) > 1:
        return "is an IPv4-compatible address, which nothing uses any more"
    return None


def _refusal(address: Address, allowed: Collection[Network]) -> str:
    if _is_in(address, _METADATA):
        return f"{address} is link-local or belongs to the metadata service of a cloud"
    if _is_in(address, _NEVER):
        return f"{address} is not an address of a service"
    if _is_in(address, allowed):
        return ""
    if _is_in(address, _BY_SETTING) or (address.version == 6 and address not in _PUBLIC_IPV6):
        return f"{address} is not public, and in no network of [interlock] delivery_networks"
    return ""


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)

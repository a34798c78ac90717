"""Which addresses a delivery may connect to."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.engine.delivery.addresses import refusal

EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))
PRIVATE = (ip_network("10.0.0.0/8"), ip_network("127.0.0.0/8"), ip_network("fc00::/7"), ip_network("::1"))
NEVER = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fd00:42::42",
    "fd00:c1::a9fe:a9fe",
    "fd00:100::100:200",
    "fd00:a9fe:a9fe::1",
    "fe80::a9fe:a9fe",
    "fe80::1%eth0",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "::",
    "ff02::1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::ffff:0.0.0.0",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "::ffff:0:169.254.169.254",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
]
NOT_PUBLIC = [
    "127.0.0.1",
    "127.255.255.254",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "::1",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1::101:101",
    "::ffff:0:127.0.0.1",
    "192.88.99.1",
    "2001:2::1",
    "2001:10::1",
    "2002:0a00:0001::1",
    "4000::1",
    "100::1",
]
PUBLIC = [
    "93.184.215.14",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
]


@pytest.mark.parametrize("address", NEVER)
def test_an_address_that_no_setting_allows(address: str) -> None:
    assert refusal(address, EVERYTHING)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused_unless_a_setting_allows_it(address: str) -> None:
    assert refusal(address)
    assert refusal(address, EVERYTHING) == ""


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_accepted(address: str) -> None:
    assert refusal(address) == ""


def test_a_setting_allows_its_networks_alone_whatever_form_their_addresses_have() -> None:
    accepted = ["10.9.9.9", "127.0.0.1", "::1", "fd12::1", "::ffff:10.9.9.9", "64:ff9b::a00:1"]
    assert [address for address in (*accepted, "192.168.0.1") if refusal(address, PRIVATE)] == ["192.168.0.1"]


@pytest.mark.parametrize("form", ["0x7f.1", "2130706433", "017700000001", "127.1"])
def test_an_odd_form_is_no_address_and_what_it_resolves_to_is_loopback(form: str) -> None:
    assert "is not an IP address" in refusal(form, EVERYTHING)
    assert refusal(socket.inet_ntoa(socket.inet_aton(form)))


@pytest.mark.parametrize(
    "text", ["", "localhost", "sink.example.com", "10.0.0.0/8", "1.1.1.1:80", "[::1]", "1.1.1.1\n"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert "is not an IP address" in refusal(text, EVERYTHING)


def test_the_reason_names_what_an_address_hides() -> None:
    assert refusal("::ffff:10.0.0.1") == (
        "::ffff:10.0.0.1 stands for 10.0.0.1: "
        "10.0.0.1 is not public, and in no network of [interlock] delivery_networks"
    )


@given(st.ip_addresses(v=4))
def test_each_form_of_an_ipv4_address_is_judged_as_the_address(address: IPv4Address) -> None:
    forms = [
        IPv6Address(0xFFFF << 32 | int(address)),
        IPv6Address((0x64FF9B << 96) | int(address)),
        IPv6Address((0x2002 << 112) | int(address) << 80 | 1),
    ]
    for allowed in ((), PRIVATE, EVERYTHING):
        expected = bool(refusal(str(address), allowed))
        assert [bool(refusal(str(form), allowed)) for form in forms] == [expected] * 3


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_what_is_accepted_without_a_setting_is_no_address_that_python_calls_special(
    address: IPv4Address | IPv6Address,
) -> None:
    if refusal(str(address)) == "":
        special = (address.is_loopback, address.is_link_local, address.is_multicast, address.is_unspecified)
        assert not any(special)

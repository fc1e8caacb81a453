from __future__ import annotations

import pytest

from beam_mds.sources.fetching.addresses import is_public


@pytest.mark.parametrize(
    'address',
    [
        '127.0.0.1', '127.8.9.1', '0.0.0.0', '10.1.2.3', '172.16.0.1', '172.31.255.255',
        '192.168.1.1', '169.254.169.254', '100.64.0.1', '100.127.255.255', '192.0.0.8',
        '192.0.2.1', '198.18.0.1', '198.51.100.7', '203.0.113.9', '224.0.0.1', '239.1.1.1',
        '240.0.0.1', '255.255.255.255',
        '::1', '::', 'fe80::1', 'fe80::1%eth0', 'fc00::1', 'fd12:3456::1', 'fec0::1', 'ff02::1',
        '2001:db8::1', '100::1', '::127.0.0.1',
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_the_public_internet_are_told(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    'address',
    [
        '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:169.254.169.254', '::ffff:100.64.0.1',
        '64:ff9b::7f00:1', '64:ff9b::a9fe:a9fe', '2002:7f00:1::1', '2002:a00:1::',
        '2001:0:4136:e378:8000:63bf:f5ff:fffe',
    ],
)  # fmt: skip
def test_an_ipv6_address_that_stands_for_a_private_ipv4_address_is_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    'address',
    [
        '8.8.8.8', '93.184.215.14', '172.32.0.1', '100.63.255.255', '100.128.0.1', '192.167.1.1',
        '2606:4700:4700::1111', '::ffff:8.8.8.8', '64:ff9b::808:808',
    ],
)  # fmt: skip
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize('text', ['', 'localhost', '1.2.3', '/tmp/socket', '127.1'])
def test_what_is_no_address_is_not_public(text: str) -> None:
    assert not is_public(text)

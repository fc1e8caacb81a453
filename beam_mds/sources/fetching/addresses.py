"""Which addresses a worker may connect to because a table of URLs says so."""

from __future__ import annotations

import ipaddress

# Prefixes whose last, or first, bits are an IPv4 address that a gateway connects to (RFC 6052).
_NAT64 = ipaddress.IPv6Network('64:ff9b::/96')
_IPV4_BITS = 0xFFFFFFFF

# The public addresses of IPv6 are all in here.
_UNICAST = ipaddress.IPv6Network('2000::/3')

# Protocol assignments, which older versions of `ipaddress` take for public.
_PROTOCOLS = ipaddress.IPv4Network('192.0.0.0/24')


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet.

    Loopback, private, link-local, shared (CGNAT), multicast, reserved and documentation addresses
    are not, nor are IPv6 addresses that stand for such an IPv4 address (mapped, 6to4, Teredo,
    NAT64). What is no address at all is not either.

    Args:
        address: IPv4, or IPv6 with or without a scope, as a socket has it.

    Example:
        >>> is_public('93.184.215.14'), is_public('::ffff:10.0.0.1'), is_public('fe80::1%eth0')
        (True, False, False)
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    inner = _embedded(found)
    return _is_global(found if inner is None else inner)


def _embedded(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & _IPV4_BITS)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


def _is_global(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        return address.is_global and address in _UNICAST
    special = address.is_multicast or address.is_reserved or address in _PROTOCOLS
    return address.is_global and not special

"""What an error of the network means in a sandbox that has none but its loopback, where its words do not say so."""
import re
import socket

_UNREACHED = re.compile("Name or service not known|name resolution|Network is unreachable", re.IGNORECASE)


def explained(message):
    """With the reason and a way out, if the function has no network."""
    if not _UNREACHED.search(message):
        return message
    try:
        if any(name != "lo" for _, name in socket.if_nameindex()):
            return message
    except OSError:  # no descriptor is left, say: the message stands for itself
        return message
    return ('%s (this function has no network: network = ["api.example.org:443"] in its lambent.toml, or network= in its app, opens what it '
            "needs, where the operator allows it)" % message)

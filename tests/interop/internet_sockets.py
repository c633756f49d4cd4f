"""The internet sockets of a process: a rank that uses a daemon has none, while MLX's own ring has
one for each neighbour. Linux lists them; elsewhere the result is empty.
"""

import os
import pathlib
import re
import sys

CAN_SEE = sys.platform == "linux"


def internet_sockets(pid="self"):
    """(local port, remote port or 0 for a listener) of each TCP or UDP socket of the process."""
    if not CAN_SEE:
        return []
    inodes = set()
    for descriptor in os.scandir(f"/proc/{pid}/fd"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor.path))
        except OSError:  # Closed meanwhile.
            continue
        if found:
            inodes.add(found[1])
    sockets = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        path = pathlib.Path(f"/proc/{pid}/net/{table}")
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            words = line.split()
            if words[9] in inodes:
                local, remote = (int(address.split(":")[1], 16) for address in words[1:3])
                sockets.append((local, remote))
    return sockets

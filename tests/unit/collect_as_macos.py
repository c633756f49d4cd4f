"""pytest --collect-only as Python would do it on a Mac: the system claims to be Darwin, Python's
modules lack what only Linux has, and /proc and the like do not exist. Run it as a program, with
pytest's arguments.
"""

import os
import platform
import resource
import select
import signal
import socket
import sys
import urllib.request  # noqa: F401 (asks for a module of macOS's where it is imported later)

import pytest

ABSENT = ("/proc", "/sys", "/run", "/dev/shm", "/etc/debian_version", "/etc/os-release")
LINUX_ALONE = {
    os: ("eventfd", "getrandom", "getresuid", "memfd_create", "pidfd_open", "posix_fadvise",
         "sched_getaffinity", "sched_setaffinity", "setns", "setresuid", "splice", "unshare"),
    resource: ("prlimit", "RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING"),
    select: ("epoll",),
    signal: ("SIGPOLL", "SIGPWR", "SIGRTMAX", "SIGRTMIN", "SIGSTKFLT", "sigtimedwait", "sigwaitinfo"),
    socket: ("AF_NETLINK", "AF_PACKET", "MSG_NOSIGNAL", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_BINDTODEVICE",
             "SO_PEERCRED"),
}


def refuse_absent_files(path):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    text = os.fsdecode(path)
    if any(text == one or text.startswith(one + "/") for one in ABSENT):
        raise FileNotFoundError(2, "No such file or directory", text)


def on_open(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        refuse_absent_files(arguments[0])


def with_one_poll(call):
    def looked(path, *arguments, **named):
        refuse_absent_files(path)
        return call(path, *arguments, **named)
    return looked


def access_without(call):
    def looked(path, *arguments, **named):
        try:
            refuse_absent_files(path)
        except FileNotFoundError:
            return False
        return call(path, *arguments, **named)
    return looked


def become_a_mac():
    name = os.uname().nodename
    reported = os.uname_result(("Darwin", name, "25.2.0", "Darwin Kernel Version 25.2.0", "arm64"))
    sys.platform = "darwin"
    os.uname = lambda: reported
    platform.system = lambda: "Darwin"
    platform.machine = lambda: "arm64"
    for module, names in LINUX_ALONE.items():
        for one in names:
            if hasattr(module, one):
                delattr(module, one)
    for one in ("stat", "lstat", "readlink"):
        setattr(os, one, with_one_poll(getattr(os, one)))
    os.access = access_without(os.access)
    sys.addaudithook(on_open)


if __name__ == "__main__":
    become_a_mac()
    sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))

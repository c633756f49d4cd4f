"""The daemon and the tool that the package brings, as commands."""

import os
import sys


def _run(name):
    path = os.path.join(os.path.dirname(__file__), "bin", name)
    os.execv(path, [path] + sys.argv[1:])


def mlxcommd():
    _run("mlxcommd")


def mlxcommctl():
    _run("mlxcommctl")

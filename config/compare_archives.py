"""Compares two files byte by byte, and lists the differences in archives, for config/release --twice."""

import hashlib
import io
import subprocess
import tarfile
import zipfile


def differences(one, other):
    """One line for each difference; none if the bytes are the same."""
    if not (one.exists() and other.exists()):
        return [f"{one if not one.exists() else other} is missing"]
    if one.read_bytes() == other.read_bytes():
        return []
    first, second = contents(one), contents(other)
    lines = [f"{name}: {describe(first.get(name), second.get(name))}"
             for name in sorted(first.keys() | second.keys()) if first.get(name) != second.get(name)]
    if not lines and list(first) != list(second):
        lines = ["the order of the files"]
    return lines or ["only the archive's own bytes; all files in it are the same"]


def describe(first, second):
    if first is None or second is None:
        return "only in the " + ("second" if first is None else "first")
    return ", ".join(f"{key} {first[key]} and {second[key]}" for key in first if first[key] != second[key])


def contents(file):
    """The bytes, times, modes and owners of an archive's files, by name."""
    if file.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(file) as archive:
            return {one.filename: {"bytes": digest(archive.read(one)), "time": one.date_time,
                                   "mode": oct(one.external_attr >> 16)} for one in archive.infolist()}
    if file.name.endswith(".tar.gz"):
        with tarfile.open(file) as archive:
            return members(archive)
    if file.suffix == ".deb":
        return {**of_package(file, "--ctrl-tarfile", "control/"), **of_package(file, "--fsys-tarfile", "")}
    return {"bytes": {"bytes": digest(file.read_bytes())}}


def of_package(file, option, prefix):
    data = subprocess.run(["dpkg-deb", option, file], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return members(archive, prefix)


def members(archive, prefix=""):
    return {prefix + one.name: {"bytes": digest(archive.extractfile(one).read()) if one.isfile() else "",
                                "time": one.mtime, "mode": oct(one.mode), "link": one.linkname,
                                "owner": (one.uid, one.gid, one.uname, one.gname)} for one in archive}


def digest(data):
    return hashlib.sha256(data).hexdigest()[:12]

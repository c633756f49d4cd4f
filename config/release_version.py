"""The version of a commit, for config/release.

CMakeLists.txt's project(VERSION) is the only source. A commit with the tag vVERSION is that release. Every
other commit has an earlier version with the number of commits, which orders them, and its hash, for branches.

    commit                  Python's packages            Debian's
    with the tag v0.1.0     0.1.0                        0.1.0
    without                 0.1.0.dev862+g0123abcd       0.1.0~dev862.g0123abcd

A wheel is for one release of MLX, named after the plus sign: 0.1.0+mlx.0.32.4. So wheels for different
releases have different names, mlxcomm==0.1.0 matches all of them, and pip chooses the one that fits the other
requirements. Rejected: build tags, because pip considers only one wheel of a version
(https://github.com/pypa/pip/issues/13608).
"""

import dataclasses
import re
import subprocess

HASH_DIGITS = 8
CHANGES = ".github/CHANGELOG.md"


class Refused(Exception):
    """The commit cannot be built; the text has the remedy."""


@dataclasses.dataclass
class Version:
    number: str  # "0.1.0", from CMakeLists.txt.
    suffix: str  # ".dev862+g0123abcd"; empty for a release.
    commit: str

    @property
    def full(self):
        return self.number + self.suffix

    @property
    def debian(self):
        return self.number + self.suffix.replace(".dev", "~dev").replace("+", ".")

    def for_mlx(self, mlx):
        return f"{self.full}{'.' if '+' in self.full else '+'}mlx.{mlx}"


def of_commit(root):
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True,
                              text=True).stdout.strip()

    commit = git("rev-parse", "HEAD")
    number = re.search(r"^project\(mlxcomm VERSION ([0-9]+\.[0-9]+\.[0-9]+)",
                       git("show", "HEAD:CMakeLists.txt"), re.MULTILINE)[1]
    tags = [tag for tag in git("tag", "--points-at", "HEAD").splitlines() if is_of_version(tag)]
    for tag in tags:
        if tag != f"v{number}":
            raise Refused(f"the commit has the tag {tag}, but CMakeLists.txt has project(VERSION {number}): "
                          f"move the tag, or raise the version and tag that commit")
    released = [tag for tag in git("tag", "--merged", "HEAD").splitlines()
                if is_of_version(tag) and tag not in tags and numbers(tag[1:]) >= numbers(number)]
    if released:
        raise Refused(f"{released[-1]} has been released, but CMakeLists.txt has project(VERSION {number}): "
                      f"raise the version")
    if tags:
        if not re.search(rf"^## {re.escape(number)}(?![0-9.])", git("show", f"HEAD:{CHANGES}"), re.MULTILINE):
            raise Refused(f"{CHANGES} has no section for this release: change the heading \"## Not "
                          f"released\" to \"## {number}\", commit, and tag that commit v{number}")
        return Version(number, "", commit)
    if git("rev-parse", "--is-shallow-repository") == "true":
        raise Refused("the clone is shallow, but a version needs the number of commits: "
                      "git fetch --unshallow --tags")
    return Version(number, f".dev{git('rev-list', '--count', 'HEAD')}+g{commit[:HASH_DIGITS]}", commit)


def is_of_version(tag):
    return re.fullmatch(r"v[0-9]+(\.[0-9]+)*", tag) is not None


def numbers(version):
    return [int(number) for number in version.split(".")]

"""Builds a package for macOS's installer with pkgbuild and productbuild, for config/release pkg.

It installs below /usr/local/mlxcomm, with copies of the linked Homebrew libraries (delocate-path);
/etc/paths.d adds its bin/ to PATH, where man finds the man pages too. It does not contain the service: `sudo
mlxcommctl service install` copies programs and libraries from there, for an upgrade as well.

It is signed if $MLXCOMM_INSTALLER_IDENTITY names a certificate in the keychain. The output is not
reproducible: both tools write the current time and the file system's order.
"""

import os
import xml.sax.saxutils

IDENTIFIER = "com.mlxcomm.mlxcomm"
PREFIX = "usr/local/mlxcomm"

# Shown at the end. The package does not restart the service, because that waits until no job is left.
CONCLUSION = f"""mlxcomm is in /{PREFIX}; a new Terminal finds mlxcommctl.

To install or upgrade the service for all users of this Mac, without ending a job:

    sudo /{PREFIX}/bin/mlxcommctl service install

To remove everything: sudo mlxcommctl service uninstall --purge, then
sudo rm -r /{PREFIX} /etc/paths.d/mlxcomm && sudo pkgutil --forget {IDENTIFIER}
"""


def distribution(version, component, system):
    """The distribution file for productbuild: supported Macs and texts."""
    shown = xml.sax.saxutils.escape(version)
    return f"""<?xml version="1.0" encoding="utf-8"?>
<installer-gui-script minSpecVersion="2">
  <title>mlxcomm {shown}</title>
  <conclusion file="conclusion.txt"/>
  <options customize="never" require-scripts="false" hostArchitectures="arm64"/>
  <domains enable_localSystem="true" enable_anywhere="false" enable_currentUserHome="false"/>
  <volume-check><allowed-os-versions><os-version min="{system}"/></allowed-os-versions></volume-check>
  <choices-outline><line choice="default"/></choices-outline>
  <choice id="default" title="mlxcomm"><pkg-ref id="{IDENTIFIER}"/></choice>
  <pkg-ref id="{IDENTIFIER}" version={xml.sax.saxutils.quoteattr(version)}>{component}</pkg-ref>
</installer-gui-script>
"""


def build(call, tree, made, version, delocate_path, system):
    """Builds the commit's files in `tree` into the folder `made`. `system` is the oldest supported macOS:
    Homebrew's libraries only work on the version that they were installed on, or later ones."""
    root, shown, parts = (tree / "build" / name for name in ("pkg-root", "pkg-shown", "pkg-parts"))
    for folder in (shown, parts, root / "etc" / "paths.d"):
        folder.mkdir(parents=True)
    call("cmake", "-S", tree, "-B", tree / "build" / "release", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_INSTALL_PREFIX=/{PREFIX}", f"-DMLXCOMM_VERSION_SUFFIX={version.suffix}")
    call("cmake", "--build", tree / "build" / "release")
    call("cmake", "--install", tree / "build" / "release", "--component", "system",
         env={**os.environ, "DESTDIR": str(root)})
    call(delocate_path, "-v", "-L", "lib", root / PREFIX)
    (root / "etc" / "paths.d" / "mlxcomm").write_text(f"/{PREFIX}/bin\n", encoding="utf-8")
    (shown / "conclusion.txt").write_text(CONCLUSION, encoding="utf-8")

    component = parts / "mlxcomm-component.pkg"
    call("pkgbuild", "--root", root, "--identifier", IDENTIFIER, "--version", version.full, "--ownership",
         "recommended", "--install-location", "/", component)
    reported = tree / "build" / "distribution.xml"
    reported.write_text(distribution(version.full, component.name, system), encoding="utf-8")
    identity = os.environ.get("MLXCOMM_INSTALLER_IDENTITY")
    call("productbuild", "--distribution", reported, "--package-path", parts, "--resources", shown,
         *(["--sign", identity] if identity else []), made / f"mlxcomm-{version.full}-macos-arm64.pkg")


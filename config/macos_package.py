"""A package for macOS's installer, by pkgbuild and productbuild: for config/release pkg.

All lies below /usr/local/mlxcomm, with copies of the libraries that Homebrew's build links (delocate-path);
/etc/paths.d puts its bin/ on PATH, where man finds its pages as well. The service is not part of it:
`sudo mlxcommctl service install` takes programs and libraries from there, as from anywhere else, and is what
upgrades it.

Signed if $MLXCOMM_INSTALLER_IDENTITY names a certificate of the keychain. The same bytes twice it is not:
both tools write the time and the order of files as they find them.
"""

import os
import xml.sax.saxutils

IDENTIFIER = "com.mlxcomm.mlxcomm"
PREFIX = "usr/local/mlxcomm"

# Shown at the end. The service is asked for nothing here: install waits until no job is left.
CONCLUSION = f"""mlxcomm is in /{PREFIX}; a new Terminal finds mlxcommctl.

The service, which serves all users of this Mac, and its upgrade, which ends no job:

    sudo /{PREFIX}/bin/mlxcommctl service install

To remove all of it: sudo mlxcommctl service uninstall --purge, then
sudo rm -r /{PREFIX} /etc/paths.d/mlxcomm && sudo pkgutil --forget {IDENTIFIER}
"""


def distribution(version, component, system):
    """What productbuild wants to know: for which Macs, and what is shown."""
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
    """Of the commit's files in `tree`, into the folder `made`. `system` is the oldest macOS that it is for:
    Homebrew's libraries are for the one that they were installed on."""
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


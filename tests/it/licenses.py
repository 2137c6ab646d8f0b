#!/usr/bin/env python3
"""licenses.py - check the licenses that packaging/sbom.py declares: by Debian's copyright file, and
by the version where there is none. The last line is "N passed, N failed"."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "packaging"))
sys.dont_write_bytecode = True
import sbom  # noqa: E402

HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
# the first paragraphs of libzmq5 of Debian 12 and 13
ZMQ_12 = HEAD + """Files: *
Copyright: 2009-2011, 250bpm s.r.o
 2007-2013, iMatix Corporation
License: LGPL-3.0+ with special exception granted by copyright holders

Files: debian/*
Copyright: 2014-    , Laszlo Boszormenyi (GCS) <gcs@debian.org>
License: LGPL-2.0+
"""
ZMQ_13 = HEAD + """Files: *
Copyright: 2009-2011, 250bpm s.r.o
 2007-2013, iMatix Corporation
License: MPL-2.0

Files: external/unity/*
Copyright: 2007-2010 Mike Karlesky, Mark VanderVoord, Greg Williams
License: MIT
"""
CASES = [
    ("libzmq5", "4.3.4-6", ZMQ_12, "LGPL-3.0-or-later"),
    ("libzmq5", "4.3.5-1+b3", ZMQ_13, "MPL-2.0"),
    ("libzmq5", "4.3.4-6", "", "LGPL-3.0-or-later"),
    ("libzmq5", "4.3.5-1", "", "MPL-2.0"),
    # a backport with the number of an old one: the file decides
    ("libzmq5", "4.3.4-6", ZMQ_13, "MPL-2.0"),
    ("libyaml-0-2", "0.2.5-1", HEAD + "Files: debian/*\nLicense: permissive\n\n"
     "Files: *\nCopyright: 2006-2020\nLicense: Expat\n", "MIT"),
    ("libc6", "2.36-9", "This is the Debian prepackaged version of the GNU C Library\n",
     "LGPL-2.1-or-later"),
    ("libunknown1", "1.0", HEAD + "Files: *\nLicense: My-Own\n", "NOASSERTION"),
    ("libunknown1", "1.0", "", "NOASSERTION"),
]

passed = failed = 0
for name, version, text, want in CASES:
    got = sbom.license_of(name, version, text)
    passed, failed = passed + (got == want), failed + (got != want)
    print("%s  %s %s %s: %s%s" % (
        "ok  " if got == want else "FAIL", name, version,
        sbom.declared(text) or "without a license in its file", got,
        "" if got == want else ", not " + want))
# the packages of this machine
for name in [*sbom.LICENSES, "libzmq5"]:
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True,
                             text=True).stdout.strip()
    text = sbom.copyright_of(name)
    if version and text:
        got = sbom.license_of(name, version, text)
        alone = sbom.license_of(name, version, "")
        good = got == alone != "NOASSERTION"
        passed, failed = passed + good, failed + (not good)
        print("%s  %s %s here: %s, without its file %s" % (
            "ok  " if good else "FAIL", name, version, got, alone))
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)

#!/usr/bin/env python3
"""sbom.py PROGRAM... - print an SBOM of the programs as SPDX 2.3 JSON: each with its checksum, the
shared libraries that it is linked with, and the header-only library in it, with the versions of
Debian's packages.

sbom.py --check FILE [PROGRAM...] - check that FILE has the fields that SPDX 2.3 requires, and a
package for each library that the programs name.

The time is SOURCE_DATE_EPOCH, or that of the commit, so the same programs give the same bytes.
"""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from urllib.parse import quote

# SPDX's name of what Debian's copyright files declare for the library's own code.
DECLARED = {
    "apache-2.0": "Apache-2.0", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause",
    "bsd-2-clause or gpl-2+": "BSD-2-Clause OR GPL-2.0-or-later", "expat": "MIT",
    "bsd-3-clause-cambridge with binary library-like packages exception": "BSD-3-Clause",
    "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later", "mpl-2.0": "MPL-2.0",
    "lgpl-3.0+ with special exception granted by copyright holders": "LGPL-3.0-or-later",
}
# for copyright files in no format that a program reads, and where there are none
LICENSES = {
    "libc6": "LGPL-2.1-or-later", "libev4": "BSD-2-Clause OR GPL-2.0-or-later",
    "libyaml-0-2": "MIT", "libseccomp2": "LGPL-2.1-only", "libpcre2-8-0": "BSD-3-Clause",
    "libxxhash-dev": "BSD-2-Clause", "libhiredis0.14": "BSD-3-Clause",
    "libhiredis1.1.0": "BSD-3-Clause", "libssl3": "Apache-2.0", "libssl3t64": "Apache-2.0",
}
ZMQ_MPL = "4.3.5"       # the first version under another license
COMMENTS = {
    "LGPL-3.0-or-later": "with an exception for linking, which has no identifier in SPDX",
}
NAMESPACE = "https://spdx.org/spdxdocs/kvroute-"


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def needed(program):
    """The names of the shared libraries that the program itself names."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", program))


def paths(program):
    """Where the loader finds them."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", program), re.M))


def owner(path):
    """(package, version, source) of Debian, or (None, None, None)."""
    for name in (path, os.path.realpath(path), re.sub("^/usr", "", os.path.realpath(path)),
                 re.sub("^/lib", "/usr/lib", path)):
        try:
            package = run("dpkg-query", "-S", name).split(": ")[0].split(",")[0]
            return tuple(run("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package}",
                             package).split("\n")[0].split("\t"))
        except (subprocess.CalledProcessError, OSError):
            continue
    return None, None, None


def distribution():
    try:
        with open("/etc/os-release") as f:
            v = dict(line.rstrip().split("=", 1) for line in f if "=" in line)
        return v["ID"].strip('"'), v.get("VERSION_ID", "").strip('"')
    except (OSError, KeyError):
        return "debian", ""


def created():
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        try:
            epoch = run("git", "log", "-1", "--format=%ct").strip()
        except (subprocess.CalledProcessError, OSError):
            epoch = 0
    return datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%SZ")


def declared(copyright_file):
    """What the text of a copyright file in Debian's format says of "Files: *", or None."""
    for paragraph in re.split(r"\n\s*\n", copyright_file):
        if re.search(r"(?m)^Files: *\*$", paragraph):
            found = re.search(r"(?m)^License: *(.*\S)", paragraph)
            return found and found.group(1)
    return None


def copyright_of(name):
    try:
        with open("/usr/share/doc/%s/copyright" % name, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def license_of(name, version, copyright_file):
    """SPDX's expression: of the copyright file, else what is known of the package."""
    found = DECLARED.get((declared(copyright_file) or "").lower())
    if found:
        return found
    if name == "libzmq5" and version:
        older = subprocess.run(["dpkg", "--compare-versions", version, "lt", ZMQ_MPL])
        return "LGPL-3.0-or-later" if older.returncode == 0 else "MPL-2.0"
    return LICENSES.get(name, "NOASSERTION")


def package_of(name, version, source, what):
    """An SPDX package of a package of Debian."""
    system, release = distribution()
    terms = license_of(name, version, copyright_of(name))
    package = {
        "SPDXID": "SPDXRef-Package-" + re.sub("[^A-Za-z0-9.-]", "-", name),
        "name": name, "versionInfo": version or "NOASSERTION", "comment": what,
        "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
        "licenseDeclared": terms, "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": "pkg:deb/%s/%s@%s?distro=%s-%s&upstream=%s" % tuple(
                quote(str(part), safe=":")
                for part in (system, name, version, system, release, source))}],
    }
    if terms in COMMENTS:
        package["licenseComments"] = COMMENTS[terms]
    return package


def document(programs):
    version = re.search(r"^\S+ (\S+?),? ", run(programs[0], "-V").replace("\n", " ") + " ").group(1)
    root = {
        "SPDXID": "SPDXRef-Package-kvroute", "name": "kvroute", "versionInfo": version,
        "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
    }
    doc = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": "kvroute-" + version,
        "creationInfo": {"created": created(), "creators": ["Tool: kvroute packaging/sbom.py"]},
        "packages": [root], "files": [],
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                           "relatedSpdxElement": root["SPDXID"]}],
    }
    libraries, whole = {}, hashlib.sha256()
    for program in programs:
        with open(program, "rb") as f:
            data = f.read()
        whole.update(data)
        name = os.path.basename(program)
        doc["files"].append({
            "SPDXID": "SPDXRef-File-" + name, "fileName": "./" + name, "fileTypes": ["BINARY"],
            "checksums": [{"algorithm": a,
                           "checksumValue": hashlib.new(a.lower(), data).hexdigest()}
                          for a in ("SHA1", "SHA256")],
            "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"})
        doc["relationships"].append({
            "spdxElementId": root["SPDXID"], "relationshipType": "CONTAINS",
            "relatedSpdxElement": "SPDXRef-File-" + name})
        where = paths(program)
        for so in needed(program):
            libraries.setdefault(so, where.get(so, so))
    made = {}
    for so, path in sorted(libraries.items()):
        name, release, source = owner(path)
        name = name or so
        made.setdefault(name, package_of(name, release, source, ""))
        made[name]["comment"] = " ".join(
            ["shared:"] + made[name]["comment"].split()[1:] + [so])
    name, release, source = owner("/usr/include/xxhash.h")
    made[name or "xxhash"] = package_of(name or "xxhash", release, source, "header-only: xxhash.h")
    for p in made.values():
        doc["packages"].append(p)
        static = p["comment"].startswith("header")
        doc["relationships"].append({
            "spdxElementId": root["SPDXID"],
            "relationshipType": "STATIC_LINK" if static else "DYNAMIC_LINK",
            "relatedSpdxElement": p["SPDXID"]})
    doc["documentNamespace"] = NAMESPACE + version + "-" + whole.hexdigest()[:32]
    return doc


def check(name, programs):
    with open(name) as f:
        doc = json.load(f)
    bad = []

    def want(thing, where, *fields):
        bad.extend("%s has no %s" % (where, x) for x in fields if not thing.get(x) and
                   thing.get(x) is not False)
    want(doc, "document", "spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace",
         "creationInfo", "packages", "relationships")
    want(doc["creationInfo"], "creationInfo", "created", "creators")
    if doc["spdxVersion"] != "SPDX-2.3" or doc["dataLicense"] != "CC0-1.0":
        bad.append("wrong version or license of the data")
    ids = [doc["SPDXID"]]
    for p in doc["packages"]:
        want(p, p.get("name"), "SPDXID", "name", "versionInfo", "downloadLocation", "filesAnalyzed",
             "licenseConcluded", "licenseDeclared", "copyrightText")
        ids.append(p["SPDXID"])
        bad.extend("not percent-encoded: " + r["referenceLocator"]
                   for r in p.get("externalRefs", []) if "+" in r["referenceLocator"])
    for p in doc.get("files", []):
        want(p, p.get("fileName"), "SPDXID", "fileName", "checksums")
        ids.append(p["SPDXID"])
    if len(set(ids)) != len(ids):
        bad.append("an SPDXID occurs twice")
    bad.extend("no valid SPDXID: " + i for i in ids if not re.match("^SPDXRef-[A-Za-z0-9.-]+$", i))
    for r in doc["relationships"]:
        bad.extend("a relationship with the unknown " + r[k]
                   for k in ("spdxElementId", "relatedSpdxElement") if r[k] not in ids)
    comments = " ".join(p.get("comment", "") for p in doc["packages"]) + " "
    for program in programs:
        bad.extend("%s is linked with %s, which is missing" % (program, so)
                   for so in needed(program) if " " + so + " " not in comments)
        with open(program, "rb") as f:
            sha = hashlib.sha256(f.read()).hexdigest()
        if sha not in json.dumps(doc.get("files", [])):
            bad.append("the checksum of %s is missing" % program)
    print("\n".join(bad) or "%d packages, %d files" % (
        len(doc["packages"]), len(doc.get("files", []))))
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2], sys.argv[3:]))
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(json.dumps(document(sys.argv[1:]), indent=1, sort_keys=True))

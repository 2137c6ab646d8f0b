"""compose_sbom.py INSTALLED SBOM [all] - check an SBOM of an image against INSTALLED, the lines
"package version" of its dpkg: the packages in the SBOM have these versions; with "all" it names
each of them. Prints what is wrong, or how many packages it names."""
import json
import sys


def main(installed, sbom, whole):
    with open(installed) as f:
        have = dict(line.split() for line in f)
    with open(sbom) as f:
        packages = [p for p in json.load(f)["packages"] if "externalRefs" in p]
    # what is compiled into a program need not be installed
    named = {p["name"]: p["versionInfo"] for p in packages
             if not p.get("comment", "").startswith("header-only")}
    wrong = ["%s %s, in the image %s" % (n, v, have.get(n)) for n, v in named.items()
             if have.get(n) != v]
    if whole:
        wrong += ["%s is missing" % n for n in have if n not in named]
    print("; ".join(wrong[:3]) or "%d packages" % len(named))
    return 1 if wrong or not named else 0


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:] == ["all"]))

#!/usr/bin/env python3
"""kubernetes_fields.py VERSION DEFINITIONS MANIFEST... - print tests/data/kubernetes/fields.txt:
the types of Kubernetes's API that the manifests use, each with all its fields, from its published
schema of version VERSION.

DEFINITIONS is api/openapi-spec/swagger.json of the repository kubernetes/kubernetes, or what others
make of it: _definitions.json of yannh/kubernetes-json-schema, or that of the package
kubernetes-validate, which "make kubernetes-deps" puts into build/python.
"""
import json
import sys
import textwrap

import yaml

HEAD = """\
# The types of Kubernetes's API %s that kubernetes/*.yaml uses, with all their fields, printed
# by tests/tools/kubernetes_fields.py from the published OpenAPI schema. A line with a colon begins
# a type; the kinds have their apiVersion in parentheses. "name=type" is a field, "!" after the
# name: required. [T]: a list, {T}: a map with any keys, intstr: a number or a text, quantity: also
# a number with a unit. If a manifest needs a type that is not here, print this file again:
#
#   make kubernetes-deps
#   schemas=build/python/kubernetes_validate/kubernetes-json-schema
#   tests/tools/kubernetes_fields.py %s $schemas/v%s-local/_definitions.json \\
#       kubernetes/*.yaml > tests/data/kubernetes/fields.txt
"""
SIMPLE = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}
# In the schema some of these have other types than in the documents that the server accepts.
NAMED = {"Quantity": "quantity", "IntOrString": "intstr", "Time": "str", "MicroTime": "str"}


def short(name):
    return name.rsplit(".", 1)[1]


def kind_of(schema):
    """(type as fields.txt has it, full name of the definition in it or None)"""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return (NAMED[short(name)], None) if short(name) in NAMED else (short(name), name)
    names = schema.get("type", [])
    kind = [n for n in ([names] if isinstance(names, str) else names) if n != "null"][0]
    if kind == "array":
        inner, name = kind_of(schema["items"])
        return "[%s]" % inner, name
    if kind == "object":
        inner, name = kind_of(schema["additionalProperties"])
        return "{%s}" % inner, name
    return SIMPLE[kind], None


def values(value, kind):
    """Those in <value>, of type <kind>, that have the type within its brackets."""
    if kind[0] not in "[{":
        return [value]
    inner = value if kind[0] == "[" else value.values()
    return [v for one in inner for v in values(one, kind[1:-1])]


def collect(definitions, name, value, used):
    """Add to <used> the definition <name>, which <value> has, and those of what is in it."""
    if used.setdefault(short(name), name) != name:
        sys.exit("two types have the name " + short(name))
    for field, schema in definitions[name].get("properties", {}).items():
        kind, inner = kind_of(schema)
        if inner and field in value:
            for one in values(value[field], kind):
                collect(definitions, inner, one, used)


def line(definitions, name, version):
    d = definitions[name]
    fields = [(k, kind_of(s)[0]) for k, s in sorted(d.get("properties", {}).items())
              if not version or k not in ("kind", "apiVersion")]
    required = d.get("required", [])
    text = "%s%s: %s" % (short(name), "(%s)" % version if version else "", " ".join(
        "%s%s=%s" % (k, "!" if k in required else "", kind) for k, kind in fields))
    return textwrap.fill(text, 100, subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False)


def main(version, path, manifests):
    with open(path) as f:
        doc = json.load(f)
    definitions = doc.get("definitions") or doc["$defs"]
    kinds = {}
    for name, d in definitions.items():
        for k in d.get("x-kubernetes-group-version-kind", []):
            group = k["group"] + "/" if k["group"] else ""
            kinds.setdefault((group + k["version"], k["kind"]), name)
    used, versions = {}, {}
    for manifest in manifests:
        with open(manifest) as f:
            for r in yaml.safe_load_all(f):
                name = kinds[r["apiVersion"], r["kind"]]
                versions[name] = r["apiVersion"]
                collect(definitions, name, r, used)
    print(HEAD % (version, version, version), end="")
    for name in sorted(used.values(), key=lambda n: (n not in versions, short(n))):
        print()
        print(line(definitions, name, versions.get(name)))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

#!/usr/bin/env python3
"""manifests.py FILE... - check Kubernetes manifests without a cluster.

Every field must be one of tests/data/kubernetes/fields.txt, which is printed from Kubernetes's
schema, have its type, and be there if it is required; limits.txt beside it narrows some of them.
What a manifest names must exist in its file or pod: volumes, ports of probes and services,
ConfigMaps, the pods that services and policies select.

Then the check itself is checked: known mistakes, and each field is misspelt, each value gets
another type, and each required field is left out, one at a time. Each of these must be reported.
The last line is "N passed, N failed"."""
import copy
import os
import re
import sys

import yaml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(TOP, "tests/data/kubernetes")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$")


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def is_name(v):
    return isinstance(v, str) and NAME.match(v) is not None


def is_number(v):
    return is_int(v) and 0 < v < 65536


WORDS = {
    "str": lambda v: isinstance(v, str), "bool": lambda v: isinstance(v, bool),
    "int": lambda v: is_int(v) and v >= 0, "number": is_number, "name": is_name,
    "intstr": lambda v: is_int(v) or isinstance(v, str),
    "port": lambda v: is_number(v) or is_name(v) and len(v) < 16,
    "quantity": lambda v: is_int(v) or isinstance(v, str) and QUANTITY.match(v) is not None,
    "share": lambda v: is_int(v) or isinstance(v, str) and re.match(r"\d+%$", v) is not None,
}


def read_types(path):
    """(types, kinds): name -> {field: (type, required)}, and kind -> apiVersion."""
    types, kinds, fields = {}, {}, {}
    with open(path) as f:
        lines = [line for line in f if line.strip() and not line.startswith("#")]
    for line in lines:
        head = re.match(r"(\w+)(?:\(([^)]*)\))?:", line)
        if head:
            fields = types[head[1]] = {}
            if head[2]:
                kinds[head[1]] = head[2]
            line = line[head.end():]
        for word in line.split():
            name, kind = word.split("=", 1)
            fields[name.rstrip("!")] = kind, name.endswith("!")
    return types, kinds


def narrowed(types, limits):
    """<types> with the fields of <limits>, each of which must be a field of <types>."""
    for name, fields in limits.items():
        unknown = [k for k in fields if k not in types[name]]
        if unknown:
            sys.exit("limits.txt: %s has no field %s" % (name, " ".join(unknown)))
        types[name].update(fields)
    return types


TYPES, KINDS = read_types(os.path.join(DATA, "fields.txt"))
TYPES = narrowed(TYPES, read_types(os.path.join(DATA, "limits.txt"))[0])


def check(v, kind, where):
    """Yield what is wrong with the value <v>, which should have the type <kind>."""
    if kind in WORDS:
        if not WORDS[kind](v):
            yield "%s: %r is no %s" % (where, v, kind)
    elif kind[0] == "[":
        if not isinstance(v, list):
            yield "%s is no list" % where
            return
        for i, one in enumerate(v):
            yield from check(one, kind[1:-1], "%s[%d]" % (where, i))
    elif kind[0] == "{":
        if not isinstance(v, dict):
            yield "%s is no map" % where
            return
        for k, one in v.items():
            yield from check(one, kind[1:-1], "%s.%s" % (where, k))
    elif kind in TYPES:
        yield from check_fields(v, TYPES[kind], where)
    elif "|" not in kind:
        yield "%s: fields.txt has no type %s; it says how to print it again" % (where, kind)
    elif v not in kind.split("|"):
        yield "%s: %r is none of %s" % (where, v, kind)


def check_fields(v, fields, where):
    if not isinstance(v, dict):
        yield "%s has no fields" % where
        return
    for k, one in v.items():
        if k not in fields:
            yield "%s: unknown field %s" % (where, k)
        else:
            yield from check(one, fields[k][0], where + "." + k)
    for k, (_, required) in fields.items():
        if required and k not in v:
            yield "%s: no %s" % (where, k)


def check_resource(r):
    if not isinstance(r, dict) or r.get("kind") not in KINDS:
        yield "unknown kind %r" % (r.get("kind") if isinstance(r, dict) else r)
        return
    if r.get("apiVersion") != KINDS[r["kind"]]:
        yield "%s: apiVersion is not %s" % (r["kind"], KINDS[r["kind"]])
    fields = {k: v for k, v in r.items() if k not in ("kind", "apiVersion")}
    yield from check_fields(fields, TYPES[r["kind"]], r["kind"])


# ---- names ----

def selected(selector, labels):
    return all(labels.get(k) == v for k, v in selector.items())


def pods(resources):
    return [r for r in resources if r["kind"] in ("Deployment", "StatefulSet")]


def check_pod(r, maps):
    spec = r["spec"]["template"]["spec"]
    if not selected(r["spec"]["selector"]["matchLabels"], labels_of(r)):
        yield "%s does not select its own pods" % r["metadata"]["name"]
    volumes = {v["name"] for v in spec.get("volumes", [])}
    for c in spec["containers"] + spec.get("initContainers", []):
        for m in c.get("volumeMounts", []):
            if m["name"] not in volumes:
                yield "container %s mounts the unknown volume %s" % (c["name"], m["name"])
        ports = {p.get("name") for p in c.get("ports", [])}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            for action in c.get(probe, {}).values():
                port = action.get("port") if isinstance(action, dict) else None
                if isinstance(port, str) and port not in ports:
                    yield "container %s: %s of the unknown port %s" % (c["name"], probe, port)
    for v in spec.get("volumes", []):
        if "configMap" in v and v["configMap"]["name"] not in maps:
            yield "volume %s: unknown ConfigMap" % v["name"]


def labels_of(r):
    """The labels of its pods, with the one that a StatefulSet adds."""
    labels = dict(r["spec"]["template"]["metadata"]["labels"])
    if r["kind"] == "StatefulSet":
        labels["statefulset.kubernetes.io/pod-name"] = r["metadata"]["name"] + "-0"
    return labels


def check_service(r, resources):
    # the second pod of a StatefulSet has the same ports
    selector = {k: re.sub(r"-\d+$", "-0", v) if k.endswith("pod-name") else v
                for k, v in r["spec"]["selector"].items()}
    found = [p for p in pods(resources) if selected(selector, labels_of(p))]
    if not found:
        yield "service %s selects no pod" % r["metadata"]["name"]
    for p in r["spec"]["ports"]:
        want = p.get("targetPort", p["port"])
        for pod in found:
            have = [q for c in pod["spec"]["template"]["spec"]["containers"]
                    for q in c.get("ports", [])]
            if want not in [q.get("name") for q in have] + [q["containerPort"] for q in have]:
                yield "service %s: unknown port %s" % (r["metadata"]["name"], want)


def check_names(resources):
    maps = {r["metadata"]["name"] for r in resources if r["kind"] == "ConfigMap"}
    for r in resources:
        if r in pods(resources):
            yield from check_pod(r, maps)
        if r["kind"] == "Service":
            yield from check_service(r, resources)
        if r["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            selector = r["spec"].get("podSelector", r["spec"].get("selector"))["matchLabels"]
            if not any(selected(selector, labels_of(p)) for p in pods(resources)):
                yield "%s %s selects no pod" % (r["kind"], r["metadata"]["name"])


def check_file(resources):
    wrong = [w for r in resources for w in check_resource(r)]
    return wrong or list(check_names(resources))


# ---- the check itself ----

def places(v, kind):
    """Yield (map, key, required) of each field with a type that is in <v>."""
    if kind[0] == "[":
        for one in v:
            yield from places(one, kind[1:-1])
    elif kind in TYPES:
        for k in v:
            yield v, k, TYPES[kind][k][1]
            yield from places(v[k], TYPES[kind][k][0])


def mutants(resource):
    """Yield (what, wrong) for each change of one field, which is undone after it was used."""
    r = copy.deepcopy(resource)
    body = {k: r[k] for k in r if k not in ("kind", "apiVersion")}
    for where, k, required in list(places(body, r["kind"])):
        target = r if where is body else where
        value = target.pop(k)
        if required:
            yield "without %s" % k, list(check_resource(r))
        target[k + "x"] = value
        yield "%s misspelt" % k, list(check_resource(r))
        del target[k + "x"]
        target[k] = [[None]]
        yield "%s of another type" % k, list(check_resource(r))
        target[k] = value


# A manifest without a mistake, and changes that must be reported by these words: a path of fields,
# and a value, or None to leave the field out.
GOOD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers:
        - {name: a, image: "a:1", ports: [{name: http, containerPort: 80}]}
"""
MISTAKES = [
    ("spec.replica", 1, "unknown field replica"),
    ("spec.template.spec.containers.0.livenesProbe", {}, "unknown field livenesProbe"),
    ("spec.template.spec.nodeSelectors", {}, "unknown field nodeSelectors"),
    ("metadata.label", {}, "unknown field label"),
    ("spec.replicas", "2", "is no int"),
    ("spec.replicas", True, "is no int"),
    ("metadata.labels", ["a"], "is no map"),
    ("spec.template.spec.containers.0.args", "-f", "is no list"),
    ("spec.template.spec.containers.0.ports.0.containerPort", 70000, "is no number"),
    ("spec.template.spec.containers.0.ports.0.protocol", "tcp", "is none of"),
    ("spec.template.spec.hostNetwork", "yes", "is no bool"),
    ("spec.template.spec.affinity", {}, "no type Affinity"),
    ("spec.selector", None, "no selector"),
    ("spec.template", None, "no template"),
    ("spec.template.spec.containers", None, "no containers"),
    ("spec.template.spec.containers.0.name", None, "no name"),
    ("spec.template.spec.containers.0.ports.0.containerPort", None, "no containerPort"),
    ("kind", "Deploymnt", "unknown kind"),
    ("apiVersion", "apps/v1beta1", "apiVersion is not"),
]


def changed(path, value):
    """GOOD with <value> at <path>."""
    whole = at = yaml.safe_load(GOOD)
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for p in parents:
        at = at[p]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return whole


def main(files):
    passed = failed = 0

    def result(good, what):
        nonlocal passed, failed
        passed, failed = passed + bool(good), failed + (not good)
        print("%s  %s" % ("ok  " if good else "FAIL", what))

    result(not check_file([yaml.safe_load(GOOD)]), "a small manifest without a mistake is accepted")
    for path, value, words in MISTAKES:
        wrong = check_file([changed(path, value)])
        result(any(words in w for w in wrong), "%s %s: %s" % (
            path, "left out" if value is None else "= %r" % (value,), "; ".join(wrong)))
    for name in files:
        with open(name) as f:
            resources = list(yaml.safe_load_all(f))
        wrong = check_file(resources)
        result(not wrong, "%s: %d resources have known fields, and all that they name exists" % (
            name, len(resources)))
        print("".join("      %s\n" % w for w in wrong), end="")
        tried, missed = 0, []
        for r in resources if not wrong else []:
            for what, found in mutants(r):
                tried += 1
                if not found:
                    missed.append("%s: %s" % (r["kind"], what))
        result(tried > 100 and not missed, "%s: %d mistakes in it are found %s" % (
            name, tried, " ".join(missed[:5])))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

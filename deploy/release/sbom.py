"""Writes the crates that the program is made of as CycloneDX 1.6: sbom.py FILE. Crates of tests and of build scripts are left out."""

import json
import os
import subprocess
import sys
from datetime import datetime, timezone

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

COMMAND = "cargo metadata --locked --offline --format-version 1 --features rustle/etcd,rustle/s3 --filter-platform"


def component(package: dict, kind: ComponentType) -> Component:
    """Returns a crate as a component."""
    name, version = package["name"], package["version"]
    licence = package.get("license")
    # `/` is how old crates write `or`.
    licences = [LicenseExpression(licence.replace("/", " OR "))] if licence else []
    source = PackageURL("cargo", name=name, version=version) if package.get("source") else None
    return Component(name=name, version=version, type=kind, bom_ref=package["id"], purl=source, licenses=licences)


def main(path: str) -> None:
    """Walks the normal dependencies from the program on."""
    rustc = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = next(line.split()[1] for line in rustc.splitlines() if line.startswith("host:"))
    text = subprocess.run([*COMMAND.split(), host], check=True, capture_output=True, text=True).stdout
    metadata = json.loads(text)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(package["id"] for package in packages.values() if package["name"] == "rustle")

    def needs(one: str) -> list[str]:
        normal = lambda edge: any(kind["kind"] is None for kind in edge["dep_kinds"])
        return [edge["pkg"] for edge in nodes[one]["deps"] if normal(edge)]

    made = {root: component(packages[root], ComponentType.APPLICATION)}
    waiting = [root]
    while waiting:
        for other in needs(waiting.pop()):
            if other not in made:
                made[other] = component(packages[other], ComponentType.LIBRARY)
                waiting.append(other)

    bom = Bom()
    bom.metadata.component = made[root]
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    for one, part in made.items():
        if one != root:
            bom.components.add(part)
        bom.register_dependency(part, [made[other] for other in needs(one)])
    with open(path, "w", encoding="utf-8") as file:
        file.write(JsonV1Dot6(bom).output_as_string(indent=1))


if __name__ == "__main__":
    main(sys.argv[1])

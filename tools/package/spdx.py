"""The list of materials as an SPDX 2.3 document in JSON."""
import datetime
import hashlib
import json
import urllib.parse

TOP = "SPDXRef-lambent"
EXTRACTED = {
    "LicenseRef-liblzma-public-domain": "liblzma is in the public domain. See the copyright file of xz-utils beside this document.",
}


def reference(source):
    return "SPDXRef-" + "".join(each if each.isalnum() or each in ".-" else "-" for each in source)


def purl(material):
    return (f"pkg:deb/debian/{urllib.parse.quote(material.source)}@{urllib.parse.quote(material.version, safe='')}"
            "?arch=source&distro=debian-12")


def use_of(material):
    uses = []
    if material.linked:
        uses.append("linked in: " + " ".join(sorted(material.linked)))
    if material.headers:
        uses.append(f"{material.headers} headers compiled in")
    if material.loaded:
        uses.append("loaded from the machine, not contained: " + " ".join(sorted(material.loaded)))
    return "; ".join(uses)


def package(material):
    return {
        "SPDXID": reference(material.source),
        "name": material.source,
        "versionInfo": material.version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": material.licence,
        "licenseDeclared": material.licence,
        "copyrightText": "NOASSERTION",
        "comment": f"{use_of(material)} (packages: {', '.join(sorted(material.binaries))})",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl(material)}],
    }


def relation(material):
    # What is part of the programs, or only has to be there when they run.
    kind = "CONTAINS" if material.linked or material.headers else "DEPENDS_ON"
    return {"spdxElementId": TOP, "relationshipType": kind, "relatedSpdxElement": reference(material.source)}


def document(materials, version, time):
    """JSON text; the same for the same materials, version and time."""
    ours = {
        "SPDXID": TOP,
        "name": "lambent",
        "versionInfo": version,
        "supplier": "Organization: The Lambent developers",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "APPLICATION",
    }
    used = [materials[source] for source in sorted(materials)]
    made = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"lambent-{version}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: lambent-tools-package", "Organization: The Lambent developers"],
        },
        "packages": [ours, *map(package, used)],
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": TOP},
                          *map(relation, used)],
        "hasExtractedLicensingInfos": [
            {"licenseId": name, "extractedText": text} for name, text in EXTRACTED.items()
            if any(name in material.licence for material in used)],
    }
    # A document's name in the world: a new one whenever its content differs.
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
    made["documentNamespace"] = f"urn:lambent:spdx:{version}:{digest}"
    return json.dumps(made, indent=1, sort_keys=True) + "\n"

#!/bin/bash
# packages.sh - print the installed packages of Debian as SPDX 2.3 JSON, without the help of what a
# small image does not have.
set -eu
none='"downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": "NOASSERTION",
  "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"'
# An SPDXID may not have "+"; in a purl it is %2B.
packages=$(dpkg-query -W -f '${Package}\t${Version}\t${Architecture}\t${source:Package}\n' |
	while IFS=$'\t' read -r name version arch source; do
		purl="pkg:deb/debian/$name@$version?arch=$arch&upstream=$source"
		cat <<- END
			,
			 {"SPDXID": "SPDXRef-Package-${name//+/-plus}-$arch", "name": "$name", "versionInfo":
			  "$version", "supplier": "Organization: Debian", $none,
			  "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
			   "referenceLocator": "${purl//+/%2B}"}]}
		END
	done)
contains=$(grep -o 'SPDXRef-Package-[^"]*' <<< "$packages" | while read -r id; do
	cat <<- END
		,
		 {"spdxElementId": "SPDXRef-Debian", "relationshipType": "CONTAINS", "relatedSpdxElement": "$id"}
	END
done)
cat << END
{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
"name": "packages", "documentNamespace":
 "https://spdx.org/spdxdocs/kvroute-image-$(sha256sum <<< "$packages" | cut -c 1-32)",
"creationInfo": {"created": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
 "creators": ["Tool: kvroute docker/packages.sh"]},
"packages": [
 {"SPDXID": "SPDXRef-Debian", "name": "Debian", "versionInfo": "$(. /etc/os-release
	echo "$VERSION_ID")", $none,
  "primaryPackagePurpose": "OPERATING-SYSTEM"}$packages],
"files": [], "relationships": [
 {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
  "relatedSpdxElement": "SPDXRef-Debian"}$contains]}
END

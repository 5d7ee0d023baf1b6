#!/usr/bin/env bash
# Security advisories for the locked dependencies: audit.sh TARGET_FOLDER, with ADVISORY_DB naming a checkout of
# https://github.com/rustsec/advisory-db.
set -euo pipefail

if [[ ! -d ${ADVISORY_DB:-}/crates ]]; then
    cat >&2 <<-END
	################################################################################
	NO AUDIT WAS MADE. ADVISORY_DB is "${ADVISORY_DB:-}", which holds no folder \`crates\`.
	    git clone https://github.com/rustsec/advisory-db
	    make audit ADVISORY_DB=advisory-db
	################################################################################
	END
    exit 2
fi

# cargo-deny looks for a checkout under a name of its own (the URL's last part and hash), below `db-path`.
audit=$1/audit
mkdir -p "$audit"
ln -sfn "$(realpath "$ADVISORY_DB")" "$audit/advisory-db-3157b0e258782691"
sed "/^\[advisories\]/a db-path = \"$(realpath "$audit")\"" deny.toml >"$audit/deny.toml"
exec cargo-deny --offline --workspace --config "$audit/deny.toml" check advisories

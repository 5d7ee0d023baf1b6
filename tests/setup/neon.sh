#!/usr/bin/env bash
# The noise kernel on 64-bit Arm: built for it, its library searched for NEON, all its tests run under qemu.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=aarch64-unknown-linux-gnu
sysroot=/usr/aarch64-linux-gnu

skip() {
    cat <<-END
	################################################################################
	SKIPPED: $1
	NO TEST RAN ON 64-BIT ARM.
	################################################################################
	END
    exit 0
}

[[ $(uname -m) != aarch64 ]] || skip "this machine is 64-bit Arm itself, where \`make test-rust\` is this test"

# Asks apt for what is missing only. The C compiler links; it brings objdump.
missing=()
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu)
[[ -e $sysroot/lib/Scrt1.o ]] || missing+=(libc6-dev-arm64-cross)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if ((${#missing[@]})); then
    as_root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || skip "missing: ${missing[*]}; installing them takes root or sudo"
        as_root=(sudo)
    fi
    command -v apt-get >/dev/null || skip "missing: ${missing[*]} (Debian's names), and there is no apt-get here"
    "${as_root[@]}" apt-get update -q || true # old lists may do; the next line decides
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}" || skip "apt could not install ${missing[*]}"
fi
if [[ ! -d $(rustc --print target-libdir --target "$target") ]]; then
    rustup target add "$target" || skip "rustup could not bring the standard library for $target"
fi

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $sysroot"
kernel=(--release --locked --package noise-kernel --target "$target")

# The tests link this very library, so what is seen in it is what they run.
cargo build "${kernel[@]}" --lib
aarch64-linux-gnu-objdump --disassemble --demangle --no-show-raw-insn \
    "$CARGO_TARGET_DIR/$target/release/libnoise_kernel.rlib" | awk -f tests/setup/neon.awk

log=$CARGO_TARGET_DIR/neon.log
cargo nextest run "${kernel[@]}" --color never --no-tests fail 2>&1 | tee "$log"
# nextest's last words: "Summary [  32.241s] 27 tests run: 27 passed, 0 skipped"
passed=$(sed -nE 's/.*Summary .* ([0-9]+) passed.*/\1/p' "$log")
echo "$passed tests passed under qemu-aarch64"

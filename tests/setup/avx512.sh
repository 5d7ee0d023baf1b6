#!/usr/bin/env bash
# The noise kernel on AVX-512 where the processor has none: Bochs emulates one that has, Debian's kernel boots
# on it, and the tests that compare every backend with the oracle and the frozen vectors run there.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=x86_64-unknown-linux-gnu
features=(avx2 fma avx512f avx512bw avx512dq avx512vl)
limit=3600 # seconds of emulation, on a slow or busy machine

skip() {
    cat <<-END
	################################################################################
	SKIPPED: $1
	NO TEST RAN ON AVX-512.
	################################################################################
	END
    exit 0
}

[[ $(uname -sm) == "Linux x86_64" ]] || skip "this takes Linux on x86-64"
has_all=true
for feature in "${features[@]}"; do
    grep -qw -- "$feature" /proc/cpuinfo || has_all=false
done
if $has_all; then
    echo "This processor has AVX-512 itself: \`make test-rust\` is this test."
    exit 0
fi

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
work=$CARGO_TARGET_DIR/avx512
mkdir -p "$work"
work=$(realpath "$work") # the emulator starts elsewhere

# The emulator and what writes its disc are installed. What runs inside is unpacked only: a kernel installed
# here would be booted here.
command -v apt-get >/dev/null || skip "emulator and kernel come from Debian, and there is no apt-get here"
missing=()
[[ -x /usr/bin/bochs-bin ]] || missing+=(bochs)
compgen -G "/usr/lib/*/bochs/plugins/libbx_term_gui.so" >/dev/null || missing+=(bochs-term)
command -v xorriso >/dev/null || missing+=(xorriso)
guest=$work/guest
as_root=()
((EUID == 0)) || as_root=(sudo)
if ((${#missing[@]})) || [[ ! -e $guest/complete ]]; then
    "${as_root[@]}" apt-get update -q || true # old lists may do; the next lines decide
fi
if ((${#missing[@]})); then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}" || skip "apt could not install ${missing[*]}, which takes root or sudo"
fi
if [[ ! -e $guest/complete ]]; then
    rm -rf "$guest" && mkdir "$guest"
    image=linux-image-cloud-amd64 # stands for its newest version
    kernel=$(apt-cache depends "$image" | sed -nE 's/.*Depends: (linux-image-[0-9].*)/\1/p' || true)
    packages=("${kernel:-$image}" busybox-static isolinux syslinux-common)
    (cd "$guest" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}") ||
        skip "apt could not fetch ${packages[*]}"
    for package in "$guest"/*.deb; do
        dpkg-deb --extract "$package" "$guest"
    done
    touch "$guest/complete"
fi

# Linked statically: the guest has no libraries.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static"
tests=(golden exact)
# As long as all others together: more ways to cut rows and ranges, on the best backend alone.
too_long=every_mechanism_range_and_pattern_gives_the_oracles_bits
rm -rf "$work/init" "$work/disc" && mkdir -p "$work/init" "$work/disc"
for name in "${tests[@]}"; do
    binary=$(cargo test --release --locked --package noise-kernel --target "$target" --test "$name" --no-run \
        --message-format json-render-diagnostics | sed -nE 's/.*"executable":"([^"]+)".*/\1/p')
    strip -o "$work/init/$name" "$binary"
done

cp "$guest/bin/busybox" "$work/init/busybox"
cat >"$work/init/init" <<END
#!/busybox sh
/busybox mkdir -p /proc /dev
/busybox mount -t proc none /proc
/busybox mount -t devtmpfs none /dev
for feature in ${features[*]}; do
    /busybox grep -qw \$feature /proc/cpuinfo || echo "LACKS \$feature"
done
for name in ${tests[*]}; do
    /\$name --test-threads 1 --skip $too_long || echo "FAILED \$name"
done
echo THE END
/busybox sleep 2 # what is still on its way to the serial line would be lost
/busybox poweroff -f
END
chmod +x "$work/init/init"
(cd "$work/init" && find . | ./busybox cpio --quiet -o -H newc 2>/dev/null | gzip -1 >../disc/initrd.gz)

# Bochs gives the plain size of the registers' state as the compacted one, at which Linux disables AVX: hence
# clearcpuid. A kernel that panics restarts by a triple fault, and at that Bochs ends.
cp "$guest"/boot/vmlinuz-* "$work/disc/vmlinuz"
cp "$guest/usr/lib/ISOLINUX/isolinux.bin" "$guest/usr/lib/syslinux/modules/bios/ldlinux.c32" "$work/disc"
cat >"$work/disc/isolinux.cfg" <<END
default tests
label tests
  kernel vmlinuz
  append initrd=initrd.gz console=ttyS0 loglevel=1 panic=-1 reboot=t mitigations=off clearcpuid=xsavec,xsaves
END
xorriso -as mkisofs -quiet -o "$work/disc.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
    -boot-info-table "$work/disc"

cat >"$work/bochsrc" <<END
megs: 512
cpu: model=corei7_skylake_x, ips=50000000, reset_on_triple_fault=0
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial.log
display_library: term
log: bochs.log
panic: action=fatal
END
echo c >"$work/continue" # Debian's build waits in its debugger

echo "Booting an emulated processor with AVX-512; its tests take minutes."
cd "$work"
: >serial.log
TERM=vt100 bochs-bin -q -f bochsrc -rc continue </dev/null >screen.log 2>&1 &
emulator=$!
trap 'kill -KILL "$emulator" 2>/dev/null || true' EXIT # it ignores gentler signals
# Its exit status says nothing: a guest that powered off gives 1.
timeout "$limit" tail -n +1 -f --pid="$emulator" serial.log 2>/dev/null || true

fail() {
    echo "avx512: $1; see $work/serial.log and bochs.log" >&2
    exit 1
}
grep -q "^THE END" serial.log || fail "the emulated processor did not get to the end within $limit s"
! grep -q "^LACKS" serial.log || fail "the emulated processor lacks AVX-512"
! grep -q "^FAILED" serial.log || fail "tests failed under an emulated AVX-512 processor"
passed=$(awk '/^test result: ok/ { passed += $4 } END { print passed + 0 }' serial.log)
((passed > 0)) || fail "no test ran"
echo "$passed tests passed under an emulated AVX-512 processor"

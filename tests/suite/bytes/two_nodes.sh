#!/usr/bin/env bash
# Runs the unit tests of topology, memory, io and the loader, on an emulated machine: two NUMA nodes, four
# CPUs, an NVMe disk, and the kernel of Debian 12 (6.1), which has no cachestat. Build machines have none of these.
#
#   tests/suite/bytes/two_nodes.sh          builds the tests, boots (about a minute) and prints failed and skipped tests
#
# Needs Debian or Ubuntu with: qemu-system-x86 busybox-static cpio e2fsprogs binutils. The kernel package is downloaded
# into the target folder and unpacked, not installed. Exit status 0 only if every test passed in the machine.
set -euo pipefail
cd "$(dirname "$0")/../../.."
target=$(cargo metadata --no-deps --format-version 1 | grep -o '"target_directory":"[^"]*"' | cut -d'"' -f4)
work=$target/two_nodes
mkdir -p "$work"

for tool in qemu-system-x86_64 busybox cpio mkfs.ext4 strip; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install qemu-system-x86 busybox-static cpio e2fsprogs binutils"; exit 1; }
done

built() { cargo test -q --no-run --message-format=json "$@" | grep -o '"executable":"[^"]*"' | tail -1 | cut -d'"' -f4; }
units=$(built -p forebay-loader --lib)
loader=$(built -p forebay-tests --test loader)

if ! ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" {print $2; exit}')
    (cd "$work" && apt-get download "$package" && mkdir -p kernel && dpkg-deb -x "$package"_*.deb kernel)
fi

root=$work/root
rm -rf "$root"
mkdir -p "$root"/{bin,proc,sys,dev,tmp}
cp "$(command -v busybox)" "$root/bin/busybox"
strip -o "$root/bin/units" "$units"
strip -o "$root/bin/loader" "$loader"
for library in $(ldd "$units" "$loader" | grep -o '/[^ ]*[^ :]'); do
    mkdir -p "$root/$(dirname "$library")"
    cp -L "$library" "$root/$library"
done
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc none /proc; $b mount -t sysfs none /sys; $b mount -t devtmpfs none /dev
$b mount -t ext4 /dev/nvme0n1 /tmp
$b echo "kernel $($b uname -r)"
export FOREBAY_TEST_NODES="0-1;2-3"
$b ip link set lo up
failed=0
for module in topology:: memory:: io::; do
    /bin/units $module --nocapture >/out 2>&1 || failed=1
    $b grep -v -e '\.\.\. ok$' -e '^$' /out
done
# One test at a time, because a test counts the threads of its process. Tests that need servers are not run here.
/bin/loader --skip remote:: --nocapture --test-threads=1 >/out 2>&1 || failed=1
$b grep -v -e '\.\.\. ok$' -e '^$' /out
[ $failed = 0 ] && $b echo "two nodes: passed"
$b poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd.gz"
rm -f "$work/disk.img"
truncate -s 256M "$work/disk.img"
mkfs.ext4 -q "$work/disk.img"

timeout 300 qemu-system-x86_64 -M q35 -m 1536 -smp 4,sockets=2,cores=2 \
    -object memory-backend-ram,size=768M,id=m0 -object memory-backend-ram,size=768M,id=m1 \
    -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 \
    -drive "file=$work/disk.img,if=none,format=raw,id=disk" -device nvme,drive=disk,serial=1 \
    -kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/initrd.gz" -append "console=ttyS0 quiet panic=-1" \
    -nographic -no-reboot | tee "$work/log"
grep -q "two nodes: passed" "$work/log"

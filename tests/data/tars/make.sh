#!/usr/bin/env bash
# Makes the tars of this folder, one or several with each tool: GNU tar, bsdtar, busybox, 7zz, cpio, pax, Node's tar, Perl's
# Archive::Tar and git. A tool that is missing is named, and its tars are kept as they are.
#
# Each has the samples set/a0 to other/bü4 with the fields `seg.bin` and `cls`, of sizes at the borders of blocks, between
# members that are no samples. `long` adds names beyond 100 and 255 bytes, `sparse` has files with holes.
set -eu
out=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
export LC_ALL=C.UTF-8 TZ=UTC

# repeated TIMES CHARACTER
repeated() { head -c "$1" /dev/zero | tr '\0' "$2"; }
# numbers BYTES FIRST: bytes that differ within a file and between files.
numbers() { seq -s ' ' "$2" $((1000 + $2)) | head -c "$1"; }
# sample NAME BYTES FIRST CLASS
sample() {
    numbers "$2" "$3" >"$1.seg.Bin"
    printf '%s' "$4" >"$1.cls"
}

mkdir "$tree/plain" "$tree/long" "$tree/sparse"
cd "$tree/plain"
mkdir set other __meta__
sample set/a0 0 0 ""
sample set/a1 1 1 1
sample set/a2 511 10 ""
sample "other/b 3" 512 20 " 3 "
sample other/bü4 513 30 ""
numbers 9 40 >set/README
numbers 9 40 >set/._a2.seg.Bin
numbers 9 40 >__notes.cls__
numbers 9 40 >__meta__/m.cls
ln -s "b 3.seg.Bin" other/link.seg.Bin
ln set/a1.seg.Bin other/twin.seg.Bin
cat >../plain.names <<'END'
__notes.cls__
__meta__/m.cls
set
set/a0.cls
set/a0.seg.Bin
set/README
set/a1.seg.Bin
set/a1.cls
set/a2.cls
set/._a2.seg.Bin
set/a2.seg.Bin
other
other/b 3.cls
other/b 3.seg.Bin
other/link.seg.Bin
other/twin.seg.Bin
other/bü4.cls
other/bü4.seg.Bin
END

cd "$tree/long"
part=$(repeated 60 p)
wide=$(printf 'ü%.0s' {1..100})
first=100
for name in "$(repeated 91 n)" "$(repeated 92 n)" "$(repeated 93 n)" "$part/$part/$(repeated 90 q)" "$part.d/$part/$(repeated 101 r)" \
    "$part/$part/$part/$part/$(repeated 200 s)" "$wide/$wide/$wide"; do
    mkdir -p "$(dirname "$name")"
    sample "$name" 5 $((first += 10)) 5
    printf '%s\n' "$name.cls" "$name.seg.Bin" >>../long.names
done

cd "$tree/sparse"
# sparse FILE SIZE OFFSET...: a block of data at each offset.
sparse() {
    local name=$1 size=$2
    shift 2
    truncate -s "$size" "$name"
    for at; do numbers 512 "$at" | dd of="$name" bs=512 seek=$((at / 512)) conv=notrunc status=none; done
    printf '%s\n' "$name" >>../sparse.names
}
sparse end.Bin 20480 0 8192 19968
sparse hole.Bin 10000 512
sparse only.Bin 9000
sparse many.Bin 40000 $(seq 1024 1024 28672)
numbers 700 50 >full.bin
printf '%s\n' full.bin >>../sparse.names

find "$tree" -exec touch -h -d @1700000000 {} +
made() { command -v "$1" >/dev/null || { echo "$1 is not installed" >&2; return 1; }; }
same=(--owner=0:0 --group=0:0 --mtime=@1700000000 --mode=u=rwX,go=rX --no-recursion -b1 --verbatim-files-from)
steady=(--pax-option=exthdr.name=%d/x/%f,delete=atime,delete=ctime)

gnu() {
    local name=$1 set=$2
    shift 2
    (cd "$tree/$set" && tar -cf "$out/$name.tar" "${same[@]}" "$@" -T "../$set.names")
}
if tar --version | grep -q GNU; then
    for format in v7 oldgnu gnu ustar; do gnu "gnu-$format" plain --format=$format; done
    gnu gnu-pax plain --format=posix "${steady[@]}"
    # A volume's name, and a prefix as from `tar cf x.tar .`.
    grep -v '^__' "$tree/plain.names" >"$tree/dot.names"
    mv "$tree/plain" "$tree/dot"
    gnu gnu-dot dot --format=gnu --label=zoo --transform='flags=r;s,^,./,'
    mv "$tree/dot" "$tree/plain"
    for format in oldgnu gnu; do gnu "gnu-long-$format" long --format=$format; done
    gnu gnu-long-pax long --format=posix "${steady[@]}"
    holes=(--sparse --hole-detection=raw)
    gnu gnu-sparse-old sparse --format=gnu "${holes[@]}"
    for version in 0.0 0.1 1.0; do
        gnu "gnu-sparse-$version" sparse --format=posix "${holes[@]}" --sparse-version=$version \
            --pax-option=exthdr.name=%d/x/%f,delete=atime,delete=ctime,delete=mtime
    done
fi
if made bsdtar; then
    plain=(--no-recursion --uid 0 --gid 0 --uname "" --gname "" -b 1)
    for format in v7tar ustar pax gnutar; do
        (cd "$tree/plain" && bsdtar -cf "$out/bsdtar-$format.tar" --format=$format "${plain[@]}" -T ../plain.names)
    done
    (cd "$tree/long" && bsdtar -cf "$out/bsdtar-long-pax.tar" --format=pax "${plain[@]}" -T ../long.names)
    (cd "$tree/sparse" && bsdtar -cf "$out/bsdtar-sparse.tar" --format=pax --read-sparse "${plain[@]}" -T ../sparse.names)
fi
if made busybox; then
    (cd "$tree/plain" && tr '\n' '\0' <../plain.names | xargs -0 busybox tar -c --no-recursion -f "$out/busybox.tar")
fi
if made 7zz; then (cd "$tree/plain" && rm -f "$out"/7zz.tar && 7zz a -ttar -snl -bd "$out/7zz.tar" set other >/dev/null); fi
if made cpio; then (cd "$tree/plain" && cpio -o -H ustar --owner=0:0 --quiet <../plain.names >"$out/cpio.tar"); fi
if made pax; then (cd "$tree/plain" && pax -w -d -x ustar -b 512 <../plain.names >"$out/pax.tar"); fi
if made perl; then
    (cd "$tree/plain" && perl -MArchive::Tar -e 'chomp(my @names = <STDIN>); my $tar = Archive::Tar->new;
        $tar->add_files(@names); $tar->write($ARGV[0])' "$out/perl.tar" <../plain.names)
fi
if made npm; then
    (cd "$tree" && NODE_PATH="$(npm root -g)/npm/node_modules" node -e '
        const file = process.argv[1], names = require("fs").readFileSync("plain.names", "utf8").trim().split("\n");
        require("tar").create({ file, cwd: "plain", sync: true, portable: true, noDirRecurse: true }, names)' "$out/node.tar")
fi
if made git; then
    cd "$tree/plain"
    git init -q
    git add set other
    git -c user.name=zoo -c user.email=zoo@example.com commit -q -m zoo --date=@1700000000
    git archive --format=tar --mtime=@1700000000 -o "$out/git.tar" HEAD
fi
# Without the time, and compressed: most of a tar is padding.
gzip -9nf "$out"/*.tar

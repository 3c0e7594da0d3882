#!/bin/busybox sh
# The first and only program of a Debian kernel that writes a USB stick and then becomes Takt by kexec. It has /takt.iso,
# /takt, the kernel's modules in the order of /modules, and Takt's words in TAKT_WORDS, from the kernel's command line.
B=/bin/busybox
export PATH=/bin

$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs dev /dev
$B mount -t tmpfs tmp /tmp
exec < /dev/null > /dev/console 2>&1

fail() {
    echo "init: failed: $*"
    $B poweroff -f
}

while read -r module; do
    $B insmod "$module" || fail "$module does not load"
done < /modules
left=300
until [ -b /dev/sda ]; do
    left=$((left - 1))
    [ $left -gt 0 ] || fail "no stick"
    $B sleep 0.1
done
# Nobody is there to say y.
xtask image --usb /dev/sda --image /takt.iso && fail "it was written without a question"
xtask image --usb /dev/sda --image /takt.iso --yes || fail "the stick was not written"
# The system itself refuses a disk that is in use.
$B mount -t iso9660 /dev/sda /tmp && xtask image --usb /dev/sda --image /takt.iso --yes && fail "a mounted stick was written"
kexec --load --type=multiboot2-x86 /takt --command-line="$TAKT_WORDS" || fail "kexec does not load Takt"
$B sync
kexec --exec
fail "kexec does not start Takt"

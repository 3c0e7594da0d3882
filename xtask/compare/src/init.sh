#!/bin/busybox sh
# The first and only program of the Linux that Takt is compared with. What it is to do stands in its environment, which
# the kernel takes from its command line: TAKT_PERIOD_US, TAKT_SLEEP, TAKT_LOOPS, TAKT_HIST_NS, TAKT_BUFFER_KB, TAKT_LOAD.
#
# Its words go to the kernel's log, and so to the first serial port; the results, as an archive, to the second one,
# when all is over. While it measures, nothing is written anywhere.
B=/bin/busybox
T=/sys/kernel/tracing
export PATH=/bin

$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs dev /dev
$B mount -t tmpfs tmp /tmp
$B mount -t tmpfs out /out
$B mkdir /dev/shm
$B mount -t tmpfs shm /dev/shm
$B mount -t tracefs tracefs $T
exec < /dev/null > /dev/console 2>&1

say() { echo "takt: $*" > /dev/kmsg; }
fail() {
    say "failed: $*"
    $B sleep 1
    $B poweroff -f
}

# What runs beside the measurement. The kinds of `mix` are those of Takt's: a process that never sleeps, and less important than
# what is measured, timers' interrupts every 23, 45 and 67 us, which wake a thread each, and threads that contend for mutexes.
busy() { while :; do :; done; }
calls() { while :; do $B dd if=/dev/zero of=/tmp/mix bs=64k count=16 2> /dev/null; $B cat /tmp/mix > /dev/null; done; }
load_on() {
    case "$TAKT_LOAD" in
        cpu) busy & loads=$! ;;
        mix)
            calls & loads=$!
            cyclictest --quiet --threads=3 --priority=10 --interval=23 --distance=22 > /dev/null 2>&1 & loads="$loads $!"
            ptsematest --quiet --prio=20 --interval=54 > /dev/null 2>&1 & loads="$loads $!"
            ;;
    esac
}
load_off() {
    for load in $loads; do
        kill -9 "$load" || fail "a load has ended by itself"
        wait "$load" 2> /dev/null
    done
    loads=
}

say "init runs on $($B uname -r)"
# The host reads this word of the memory to see how far the time has come.
say "jiffies 0x$($B grep -m 1 ' jiffies_64$' /proc/kallsyms | $B cut -d ' ' -f 1)"

$B grep -qw timerlat $T/available_tracers || fail "the kernel has no timerlat tracer"
echo "$TAKT_PERIOD_US" > $T/osnoise/timerlat_period_us || fail "timerlat takes no period of $TAKT_PERIOD_US us"
echo "$TAKT_BUFFER_KB" > $T/buffer_size_kb || fail "no memory for a trace of $TAKT_BUFFER_KB KB"

say "timerlat begins"
# Until the console has said so.
$B sleep 0.2
load_on
echo timerlat > $T/current_tracer || fail "timerlat does not start"
$B sleep "$TAKT_SLEEP"
$B ps -o pid,comm > /out/processes.txt
# Priority and policy (1 is FIFO).
$B cut -d ' ' -f 40,41 "/proc/$($B pidof timerlat/0)/stat" > /out/priority.txt
echo 0 > $T/tracing_on
load_off
$B cat $T/per_cpu/cpu0/stats > /out/timerlat-stats.txt
$B cat $T/trace > /out/timerlat-trace.txt
echo nop > $T/current_tracer

say "cyclictest begins"
$B sleep 0.2
load_on
cyclictest --mlockall --priority=95 --interval="$TAKT_PERIOD_US" --loops="$TAKT_LOOPS" --nsecs --quiet \
    --histogram="$TAKT_HIST_NS" > /out/cyclictest-all.txt 2> /out/cyclictest-errors.txt || fail "cyclictest: $($B cat /out/cyclictest-errors.txt)"
load_off
# Values that never came make up nearly all of it.
$B grep -v '^[0-9]* 0*$' /out/cyclictest-all.txt > /out/cyclictest.txt
$B rm /out/cyclictest-all.txt

say "results"
# Linux would close the port's interrupt after too many for which there is nothing left to do.
echo 1 > /sys/module/spurious/parameters/noirqdebug
$B tar -c -C /out . | $B gzip > /tmp/results.tar.gz || fail "no memory for the results"
$B stty -F /dev/ttyS1 raw
$B cat /tmp/results.tar.gz > /dev/ttyS1 || fail "the second serial port does not work"
say "done"
$B sleep 0.2
$B poweroff -f

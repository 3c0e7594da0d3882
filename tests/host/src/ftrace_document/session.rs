//! What is typed in the session, and what has to come of it.

/// What is typed, and what has to come of it: lines that begin with
///
/// - `=` are literal,
/// - `~` are an expression for one line, `+` for one or more, `*` for any number.
pub(super) type Step = (&'static str, &'static [&'static str]);

/// The session. In it `LATENCY tracer` is the beginning of the latency format, `PLACES` the lines about its ends, `WAKEUP` those of a wake-up, `LEGEND`
/// `COLUMNS` the legends, `OPTIONS` those of every tracer, and `HEAD` what is before a record's message.
pub(super) const SESSION: [Step; 52] = [
    ("cat current_tracer", &["=nop"]),
    (
        "cat available_tracers",
        &[
            "=nop sched_switch irqsoff preemptoff preemptirqsoff wakeup wakeup_rt hwlat timerlat osnoise function function_graph",
        ],
    ),
    // The document's own names.
    (
        "echo ftrace > current_tracer; cat current_tracer; echo noprint-parent > iter_ctrl; cat options/print-parent; echo print-parent > iter_ctrl\n\
         echo 0 > tracing_enabled; cat tracing_on; echo 1 > tracing_on; cat tracing_enabled; cat trace_max_latency; echo none > current_tracer; cat current_tracer iter_ctrl",
        &["=function", "=0", "=0", "=1", "=0", "=nop", "OPTIONS"],
    ),
    // What a tracer needs is on whatever is chosen.
    (
        "echo sched_switch > current_tracer; echo > set_event; cat set_event events/sched/sched_switch/enable; echo > trace; sleep 0.1\n\
         echo 0 > tracing_on; cat trace; echo 1 > tracing_on; echo nop > current_tracer",
        &[
            "=0",
            "=# tracer: sched_switch",
            "COLUMNS",
            r"+^HEAD *\d+: *\d+:[RST] +(\+|==>) +\d+: *\d+:[RST]$",
        ],
    ),
    // irqsoff
    (
        "echo 0 > options/function-trace; echo nofunction-trace > trace_options; cat options/function-trace",
        &["=0"],
    ),
    (
        "echo 0 > tracing_on; echo irqsoff > current_tracer; echo 0 > tracing_max_latency; echo 1 > tracing_on\n\
         sleep 0.3; echo 0 > tracing_on; cat trace",
        &[
            "LATENCY irqsoff",
            "PLACES",
            "LEGEND",
            r"~^ *\S+-\d+ +0d[N.][zZh.][0-9a-f.]    0\.000us[ +!#*]: \S.*$",
            r"~^ *\S+-\d+ +0d[N.][zZh.][0-9a-f.] +\d+\.\d{3}us : latency_max: comm=\S+ pid=\d+ latency=\d+ ns started_at=\S.* ended_at=\S.*$",
        ],
    ),
    ("cat tracing_max_latency", &[r"~^\d+(\.\d{3})?$"]),
    // Any number but 0 is a maximum that nothing here reaches.
    (
        "echo 100000000 > tracing_max_latency; cat tracing_max_latency\n\
         echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on; cat tracing_max_latency",
        &["=100000000", "=100000000"],
    ),
    (
        "cat tracing_thresh; echo 3 > tracing_thresh; cat tracing_thresh; echo 0 > tracing_thresh; cat tracing_thresh",
        &["=0", "=3", "=0"],
    ),
    // preemptoff and preemptirqsoff
    (
        "echo preemptoff > current_tracer; cat current_tracer; cat trace",
        &["=preemptoff", "=# tracer: preemptoff", "=#"],
    ),
    (
        "echo preemptirqsoff > current_tracer; echo 0 > tracing_max_latency; echo 1 > tracing_on\n\
         sleep 0.3; echo 0 > tracing_on; cat latency_trace",
        &[
            "LATENCY preemptirqsoff",
            "PLACES",
            "LEGEND",
            r"~^ *\S+-\d+ +0[d.][N.][zZh.][0-9a-f.]    0\.000us[ +!#*]: \S.*$",
            r"~^ *\S+-\d+ +0[d.][N.][zZh.][0-9a-f.] +\d+\.\d{3}us : latency_max: ",
        ],
    ),
    // wakeup: from the wake-up to the switch
    (
        "echo wakeup > current_tracer; echo 0 > tracing_max_latency; echo 1 > tracing_on\n\
         sleep 0.3; echo 0 > tracing_on; cat trace",
        &[
            "LATENCY wakeup",
            "WAKEUP",
            "LEGEND",
            r"~^ *\S+-\d+ +0d\S{3}    0\.000us[ +!#*]: sched_wakeup: comm=\S+ pid=\d+ prio=\d+ target_cpu=000$",
            r"*^ *\S+-\d+ +0\S{4} +\d+\.\d{3}us[ +!#*]: sched_\w+: ",
            r"~^ *\S+-\d+ +0d\S{3} +\d+\.\d{3}us[ +!#*]: latency_max: comm=\S+ pid=\d+ latency=\d+ ns ",
            r"~^ *\S+-\d+ +0d\S{3} +\d+\.\d{3}us : sched_switch: prev_comm=\S+ .* ==> next_comm=\S+ ",
        ],
    ),
    (
        "echo verbose > trace_options; cat trace; echo noverbose > trace_options",
        &[
            "LATENCY wakeup",
            "WAKEUP",
            "=#",
            r"+^ {0,15}\S+ +\d+ +0 \d+ [0-9a-f]{8} [0-9a-f]{8} \[[0-9a-f]{8}\] \d+\.\d{6}ms \(\+\d+\.\d{6}ms\): \w+: ",
        ],
    ),
    // The same with the functions that ran.
    (
        "echo 1 > options/function-trace; cat options/function-trace; echo 0 > tracing_max_latency\n\
         echo 1 > tracing_on; sleep 0.3; echo 0 > tracing_on; cat trace; echo 0 > options/function-trace",
        &[
            "=1",
            "LATENCY wakeup",
            "WAKEUP",
            "LEGEND",
            r"~^ *\S+-\d+ +0d\S{3}    0\.000us[ +!#*]: sched_wakeup: comm=\S+ ",
            r"*^ *\S+-\d+ +0\S{4} +\d+\.\d{3}us[ +!#*]: sched_\w+: ",
            // From the timer's interrupt to the thread none may be called.
            r"*^ *\S+-\d+ +0\S{4} +\d+\.\d{3}us[ +!#*]: \S.* <-\S",
            r"*^ *\S+-\d+ +0\S{4} +\d+\.\d{3}us[ +!#*]: (sched_\w+: |\S.* <-\S)",
            r"~^ *\S+-\d+ +0d\S{3} +\d+\.\d{3}us[ +!#*]: latency_max: ",
            r"~^ *\S+-\d+ +0d\S{3} +\d+\.\d{3}us : sched_switch: ",
        ],
    ),
    (
        "echo wakeup_rt > current_tracer; cat current_tracer; echo nop > current_tracer; cat set_event",
        &["=wakeup_rt"],
    ),
    // hwlat
    (
        "cat hwlat_detector/window hwlat_detector/width hwlat_detector/mode\n\
         echo 500 > hwlat_detector/width; echo 2000 > hwlat_detector/window; cat hwlat_detector/width hwlat_detector/window",
        &["=1000000", "=500000", "=[none]", "=500", "=2000"],
    ),
    // Filters, as the document has them.
    (
        "cat set_ftrace_filter set_ftrace_notrace set_ftrace_pid",
        &[
            "=#### all functions enabled ####",
            "=#### no functions disabled ####",
            "=no pid",
        ],
    ),
    (
        // A path is held against whole names, so this is none.
        "echo timerlat::expired sleep_until > set_ftrace_filter; cat set_ftrace_filter; echo > error_log",
        &["=#### all functions enabled ####"],
    ),
    (
        "echo *timerlat::expired sleep_until > set_ftrace_filter; cat set_ftrace_filter",
        &[
            "=takt_kernel::time::sleep_until",
            "=takt_timerlat::workload::timerlat::expired",
        ],
    ),
    (
        "echo > trace; echo function > current_tracer; echo 1 > tracing_on; sleep 0.1; echo 0 > tracing_on; cat trace",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^HEADtakt_(kernel::time::sleep_until <-\\S|timerlat::workload::timerlat::expired <-\\S).*$",
        ],
    ),
    (
        "echo noprint-parent > trace_options; cat trace; echo print-parent > trace_options",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^HEADtakt_(kernel::time::sleep_until|timerlat::workload::timerlat::expired)$",
        ],
    ),
    // Who calls is known to a block of 64 bytes.
    (
        "echo sym-offset > trace_options; cat trace; echo nosym-offset > trace_options",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^HEADtakt_\\S+\\+0x0/0x[0-9a-f]+ <-\\S.*\\+0x(0|[0-9a-f]*[048c]0)\\.\\.0x[0-9a-f]+/0x[0-9a-f]+$",
        ],
    ),
    (
        "echo sym-addr > trace_options; cat trace; echo nosym-addr > trace_options",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^HEADtakt_\\S+ <[0-9a-f]{16}> <-\\S.* <[0-9a-f]{16}>$",
        ],
    ),
    (
        "echo raw > trace_options; cat trace; echo noraw > trace_options",
        &["+^\\d+ 0 \\d+ \\d+ \\d+ \\d+$"],
    ),
    (
        "echo hex > trace_options; cat trace; echo nohex > trace_options",
        &["+^[0-9a-f]{16}( [0-9a-f]{16}){5}$"],
    ),
    (
        "echo '*semaphore*give*' '*give_up' > set_ftrace_filter; cat set_ftrace_filter",
        &["+^<takt_kernel::sync::semaphore::Semaphore>::(begin_give|give_\\w+)$"],
    ),
    (
        "echo '!*give_up' >> set_ftrace_filter; cat set_ftrace_filter",
        &["+^<takt_kernel::sync::semaphore::Semaphore>::(begin_give|give_[^u]\\w+)$"],
    ),
    (
        "echo sleep_until >> set_ftrace_filter; cat set_ftrace_filter",
        &[
            "=takt_kernel::time::sleep_until",
            "+^<takt_kernel::sync::semaphore::Semaphore>::(begin_give|give_[^u]\\w+)$",
        ],
    ),
    (
        "echo 'takt_timerlat::workload::load*' > set_ftrace_filter; cat set_ftrace_filter",
        &["+^takt_timerlat::workload::load::"],
    ),
    (
        "echo nonsense > set_ftrace_filter; cat set_ftrace_filter error_log; echo > error_log",
        &[
            "=#### all functions enabled ####",
            r"~^\[ +\d+\.\d{6}\] set_ftrace_filter: error: No such function$",
            "=  Command: nonsense",
            "=           ^",
        ],
    ),
    (
        "echo -n sleep_until > set_ftrace_filter; cat set_ftrace_filter; echo > set_ftrace_filter; cat set_ftrace_filter",
        &[
            "=takt_kernel::time::sleep_until",
            "=#### all functions enabled ####",
        ],
    ),
    (
        "echo '*preempt*' '*lock*' > set_ftrace_notrace; cat set_ftrace_notrace",
        &["+(preempt|lock)"],
    ),
    (
        "echo > trace; echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on; cat trace",
        &[
            "=# tracer: function",
            "COLUMNS",
            // Whoever calls may be anything.
            "+^HEAD(.{0,6}|(core|takt|timerlat|<|_).*) <-\\S",
        ],
    ),
    (
        "echo > set_ftrace_notrace; cat set_ftrace_notrace",
        &["=#### no functions disabled ####"],
    ),
    // The functions that the stack tracer checks.
    (
        "cat stack_trace_filter; echo '*workload*' > stack_trace_filter; cat stack_trace_filter",
        &["=#### all functions enabled ####", "+workload"],
    ),
    (
        "echo '!*workload*' >> stack_trace_filter; echo sleep_until >> stack_trace_filter; cat stack_trace_filter",
        &["=takt_kernel::time::sleep_until"],
    ),
    (
        "echo nonsense >> stack_trace_filter; cat stack_trace_filter error_log; echo > error_log",
        &[
            "=takt_kernel::time::sleep_until",
            r"~^\[ +\d+\.\d{6}\] stack_trace_filter: error: No such function$",
            "=  Command: nonsense",
            "=           ^",
        ],
    ),
    (
        "echo 0 > stack_max_size; echo 1 > stack_tracer_enabled; sleep 0.1; echo 0 > stack_tracer_enabled; cat stack_trace",
        &[
            // Nothing else is checked, so each stack was deepest there.
            r"+^(# stack of \S+: \d+ of \d+ bytes| +Depth    Size   Location    \(\d+ entries\)| +-----    ----   --------|  0\) +\d+ +\d+   takt_kernel::time::sleep_until\+0x0/0x[0-9a-f]+|(  [1-9]| [1-9]\d)\) .*)?$",
        ],
    ),
    (
        "echo > stack_trace_filter; cat stack_trace_filter; echo 0 > stack_max_size",
        &["=#### all functions enabled ####"],
    ),
    // One thread's functions.
    (
        "echo 10 > set_ftrace_pid; cat set_ftrace_pid; cat saved_cmdlines",
        &["=10", "*^[0-9] \\S+$", "=10 cyclic/0", "*^\\d+ \\S+$"],
    ),
    (
        "echo > trace; echo 1 > tracing_on; sleep 0.1; echo 0 > tracing_on; cat trace",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^        cyclic/0-10 .*: \\S.* <-\\S",
        ],
    ),
    (
        "echo 0 >> set_ftrace_pid; cat set_ftrace_pid; echo > set_ftrace_pid; cat set_ftrace_pid",
        &["=0", "=10", "=no pid"],
    ),
    // function_graph
    (
        "echo nop > current_tracer; echo '*workload::account' > set_graph_function; cat set_graph_function\n\
         echo > trace; echo function_graph > current_tracer; echo 1 > tracing_on; sleep 0.1; echo 0 > tracing_on; cat trace",
        &[
            "=takt_timerlat::workload::account",
            "=# tracer: function_graph",
            "=#",
            "=# CPU  DURATION                  FUNCTION CALLS",
            "=# |     |   |                     |   |   |   |",
            r"+^ 0\) ( {14}\|  takt_timerlat::workload::account\(\) \{|[ +!#*] \d+\.\d{3} us +\|  (  \S.*\(\);|\}|takt_timerlat::workload::account\(\);)|  (=|<)=+(=|>) \|)$",
        ],
    ),
    (
        "echo funcgraph-proc > trace_options; echo 1 > options/funcgraph-tail; cat trace\n\
         echo nofuncgraph-proc nofuncgraph-tail > trace_options",
        &[
            "=# tracer: function_graph",
            "=#",
            "=# CPU  TASK/PID         DURATION                  FUNCTION CALLS",
            "=# |     |    |           |   |                     |   |   |   |",
            r"+^ 0\)   cyclic/-10   \|( {15}\|  takt_timerlat::workload::account\(\) \{| [ +!#*] \d+\.\d{3} us +\|  (  \S.*\(\);|\} /\* takt_timerlat::workload::account \*/|takt_timerlat::workload::account\(\);)|   (=|<)=+(=|>) \|)$",
        ],
    ),
    (
        "echo nofuncgraph-cpu nofuncgraph-duration > trace_options; cat trace; echo funcgraph-cpu funcgraph-duration > trace_options",
        &[
            "=# tracer: function_graph",
            "=#",
            "=#               FUNCTION CALLS",
            "=#               |   |   |   |",
            r"+^(takt_timerlat::workload::account\(\)( \{|;)|  \S.*\(\);|\}|  (=|<)=+(=|>) \|)$",
        ],
    ),
    (
        "cat max_graph_depth; echo 1 > max_graph_depth; cat max_graph_depth; echo > trace\n\
         echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on; cat trace; echo 0 > max_graph_depth; cat max_graph_depth",
        &[
            "=0",
            "=1",
            "=# tracer: function_graph",
            "=#",
            "=# CPU  DURATION                  FUNCTION CALLS",
            "=# |     |   |                     |   |   |   |",
            r"+^ 0\) [ +!#*] \d+\.\d{3} us +\|  takt_timerlat::workload::account\(\);$",
            "=0",
        ],
    ),
    (
        "echo '*record*' > set_graph_notrace; cat set_graph_notrace; echo > set_graph_notrace; echo > set_graph_function\n\
         cat set_graph_function set_graph_notrace function_graph_stats",
        &[
            "+record",
            "=#### all functions enabled ####",
            "=#### no functions disabled ####",
            r"~^overrun: \d+$",
            r"~^missed returns: \d+$",
            r"~^skipped: \d+$",
        ],
    ),
    // The options of function_graph are there while it is chosen.
    (
        "cat trace_options; echo nop > current_tracer; cat trace_options",
        &[
            "OPTIONS",
            "=funcgraph-overhead",
            "=funcgraph-cpu",
            "=nofuncgraph-proc",
            "=funcgraph-duration",
            "=nofuncgraph-abstime",
            "=funcgraph-irqs",
            "=nofuncgraph-tail",
            "OPTIONS",
        ],
    ),
    // trace_marker, sched_switch
    (
        "echo > trace; echo 1 > tracing_on; echo hello world > trace_marker; echo 0 > tracing_on; cat trace",
        &[
            "=# tracer: nop",
            "COLUMNS",
            "~^HEADtracing_mark_write: hello world$",
        ],
    ),
    (
        "echo latency-format > trace_options; cat trace; echo nolatency-format > trace_options; cat latency_trace",
        &[
            "LATENCY nop",
            "LEGEND",
            r"~^ *\S+-\d+ +0\S{4} +0\.000us : tracing_mark_write: hello world$",
            "LATENCY nop",
            "LEGEND",
            r"~^ *\S+-\d+ +0\S{4} +0\.000us : tracing_mark_write: hello world$",
        ],
    ),
    (
        "echo > trace; echo sched_switch > current_tracer; echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on\n\
         cat trace; echo nop > current_tracer",
        &[
            "=# tracer: sched_switch",
            "COLUMNS",
            r"+^HEAD *\d+: *\d+:[RST] +(\+|==>) +\d+: *\d+:[RST]$",
        ],
    ),
    // Another tracer begins anew; nop leaves what there is.
    (
        "echo 1 > tracing_on; echo hello > trace_marker; echo 0 > tracing_on; echo sched_switch > current_tracer\n\
         cat trace; echo 1 > tracing_on; sleep 0.02; echo 0 > tracing_on; echo nop > current_tracer; cat trace",
        &[
            "=# tracer: sched_switch",
            "COLUMNS",
            "=# tracer: nop",
            "COLUMNS",
            "+^HEADsched_(wakeup|switch): ",
        ],
    ),
];

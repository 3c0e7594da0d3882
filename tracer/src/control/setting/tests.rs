//! Settings as they are written.

use std::string::ToString;

use super::*;
use crate::rules::Action;

/// Reads it. What was read says, when it is written, the same.
fn parse(text: &str) -> Option<Result<Setting<'_>, Errno>> {
    let parsed = Setting::parse(text);
    if let Some(Ok(setting)) = parsed {
        assert_eq!(setting.to_string(), text);
    }
    parsed
}

#[test]
fn settings_are_read() {
    assert_eq!(parse("ftrace=nop"), Some(Ok(Setting::Tracer("nop"))));
    assert_eq!(parse("tracing_on=0"), Some(Ok(Setting::TracingOn(false))));
    assert_eq!(
        parse("trace_marker=a b=c"),
        Some(Ok(Setting::Marker("a b=c")))
    );
    assert_eq!(parse("mode=flight"), Some(Ok(Setting::Overwrite(true))));
    assert_eq!(parse("tracing_cpumask=f"), Some(Ok(Setting::Cpumask(15))));
    assert_eq!(parse("trace_buf_subs=8"), Some(Ok(Setting::BufferSize(8))));
    assert_eq!(parse("trace_clear="), Some(Ok(Setting::Clear(()))));
    let Some(Ok(Setting::Program(Program { at: 8, words }))) = parse("program=8,1f,0,ffffffff")
    else {
        unreachable!("they are words")
    };
    assert!(words.iter().eq([0x1f, 0, u32::MAX]));
    assert_eq!(
        parse("event_filter=4,13,5"),
        Some(Ok(Setting::EventFilter(EventFilter {
            event: 4,
            len: 13,
            nr_text: 5
        })))
    );
    assert_eq!(
        parse("event_trigger=6,enable_event,3,8,0,5,2"),
        Some(Ok(Setting::EventTrigger(EventTrigger {
            event: 6,
            action: Action::EnableEvent,
            count: Some(3),
            other: 8,
            nr_spec: 0,
            nr_condition: 5,
            nr_text: 2
        })))
    );
    assert_eq!(
        parse("event_trigger_count=6,1,-"),
        Some(Ok(Setting::EventTriggerCount(EventTriggerCount {
            event: 6,
            place: 1,
            count: None
        })))
    );
    assert_eq!(
        parse("event_trigger_off=6,1"),
        Some(Ok(Setting::EventTriggerOff(EventTriggerOff {
            event: 6,
            place: 1
        })))
    );
    let Some(Ok(Setting::FunctionCommand(command))) = parse("ftrace_command=traceoff,3,7-9,12")
    else {
        unreachable!("it is a command")
    };
    assert_eq!((command.action, command.count), (Action::TraceOff, Some(3)));
    assert!(command.ids.iter().eq([7, 8, 9, 12]));
    let taken = Setting::Snapshot(Snapshot::Take);
    assert_eq!(parse("snapshot=1"), Some(Ok(taken)));
    let Some(Ok(Setting::EventsOff(ids))) = parse("events_off=4,,6") else {
        unreachable!("it is a list")
    };
    assert!(ids.iter().eq([4, 6]));
    let Some(Ok(Setting::Functions(List::Filter, Chosen::Only(ids)))) =
        parse("ftrace_filter=3,7-9")
    else {
        unreachable!("it is a list with a range")
    };
    assert!(ids.iter().eq([3, 7, 8, 9]));
    let Some(Ok(Setting::Functions(List::GraphNotrace, Chosen::More(ids)))) =
        parse("ftrace_graph_notrace+=1-2")
    else {
        unreachable!("it adds to a list")
    };
    assert!(ids.iter().eq([1, 2]));
    assert_eq!(parse("ftrace_pid+=1"), None);
    let all = Setting::Functions(List::Filter, Chosen::All);
    assert_eq!(parse("ftrace_filter=*"), Some(Ok(all)));
    assert_eq!(parse("stacktrace=0"), Some(Ok(Setting::StackTrace(false))));
    assert_eq!(
        parse("func_stack_trace=1"),
        Some(Ok(Setting::FuncStackTrace(true)))
    );
    assert_eq!(
        parse("function-trace=1"),
        Some(Ok(Setting::FunctionTrace(true)))
    );
    assert_eq!(
        parse("function_profile=1"),
        Some(Ok(Setting::FunctionProfile(true)))
    );
    assert_eq!(
        parse("stack_tracer=0"),
        Some(Ok(Setting::StackTracer(false)))
    );
    assert_eq!(parse("stack_max_size=96"), Some(Ok(Setting::StackMax(96))));
    let all = parse("stack_trace_filter=*");
    assert_eq!(
        all,
        Some(Ok(Setting::Functions(List::StackFilter, Chosen::All)))
    );
    let Some(Ok(Setting::Functions(List::StackFilter, Chosen::More(ids)))) =
        parse("stack_trace_filter+=5")
    else {
        unreachable!("it adds to a list")
    };
    assert!(ids.iter().eq([5]));
    assert_eq!(parse("tracing_thresh=20"), Some(Ok(Setting::Thresh(20))));
    assert_eq!(parse("hwlat_width=5"), Some(Ok(Setting::HwlatWidth(5))));
    let osnoise = Osnoise {
        param: crate::control::osnoise::Param::TimerlatPeriod,
        value: 250_000,
    };
    assert_eq!(
        parse("osnoise=timerlat_period,250000"),
        Some(Ok(Setting::Osnoise(osnoise)))
    );
    assert_eq!(parse("hwlat_window=9"), Some(Ok(Setting::HwlatWindow(9))));
}

#[test]
fn nonsense_has_linuxs_numbers() {
    for (text, error) in [
        ("tracing_on=2", Errno::Invalid),
        ("tracing_on=", Errno::Invalid),
        ("events=4,x", Errno::Invalid),
        ("events=+4", Errno::Invalid),
        ("events=99999999999", Errno::Invalid),
        ("mode=", Errno::Invalid),
        ("tracing_cpumask=g", Errno::Invalid),
        ("tracing_cpumask=", Errno::Invalid),
        ("tracing_cpumask=100000000", Errno::Overflow),
        ("trace_buf_subs=-1", Errno::Invalid),
        ("trace_clear=1", Errno::Invalid),
        ("snapshot=3", Errno::Invalid),
        ("program=1", Errno::Invalid),
        ("program=1,", Errno::Invalid),
        ("program=1,100000000", Errno::Overflow),
        ("event_filter=4,13", Errno::Invalid),
        ("event_filter=4,13,x", Errno::Invalid),
        ("event_trigger=6,explode,-,0,0,0,0", Errno::Invalid),
        ("event_trigger=6,hist,-,0,0,0", Errno::Invalid),
        ("event_trigger_count=6,1,x", Errno::Invalid),
        ("event_trigger_off=6", Errno::Invalid),
        ("ftrace_command=traceoff,3", Errno::Invalid),
        ("ftrace_command=x,-,3", Errno::Invalid),
        ("ftrace_filter=9-7", Errno::Invalid),
        ("ftrace_filter=0-65536", Errno::Invalid),
        ("ftrace_pid=x", Errno::Invalid),
        ("ftrace_notrace=*", Errno::Invalid),
        ("stacktrace=", Errno::Invalid),
        ("function_profile=on", Errno::Invalid),
        ("stack_tracer=", Errno::Invalid),
        ("stack_max_size=-1", Errno::Invalid),
        ("stack_trace_filter=x", Errno::Invalid),
        ("func_stack_trace=2", Errno::Invalid),
        ("function-trace=on", Errno::Invalid),
        ("tracing_max_latency=-1", Errno::Invalid),
        ("hwlat_width=", Errno::Invalid),
        ("osnoise=speed,1", Errno::Invalid),
        ("osnoise=period", Errno::Invalid),
        ("tracing_max_latency=99999999999999999999", Errno::Overflow),
    ] {
        assert_eq!(parse(text), Some(Err(error)), "{text}");
    }
    assert_eq!(parse("period_ns=1"), None);
    assert_eq!(parse("ftrace"), None);
}

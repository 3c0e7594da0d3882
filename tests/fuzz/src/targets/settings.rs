//! The target's parser of settings, as the host's lines and the command line's words reach it, held against a plain
//! model of the lines.
//!
//! Input: the bytes that the host sends.

use takt_tracer::control::line::{BadLine, LineBuffer};
use takt_tracer::control::setting::{Chosen, Errno, Setting};

/// Bytes of the longest line here.
const LONGEST: usize = 64;

/// Feeds the bytes, and parses what lines they are.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let mut lines = LineBuffer::<LONGEST>::new();
    let mut found = Vec::new();
    for byte in input {
        if let Some(line) = lines.push(*byte) {
            found.push(line.map(str::to_owned));
        }
    }
    // What comes behind the last newline is no line yet.
    let whole = input.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(&[][..], |at| &input[..=at]);
    let expected: Vec<_> = whole
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| model(&line[..line.len() - 1]))
        .collect();
    assert_eq!(found, expected);
    for line in found.iter().flatten() {
        parse(line);
    }
    if let Ok(text) = core::str::from_utf8(input) {
        text.split_ascii_whitespace().for_each(parse);
    }
}

fn model(line: &[u8]) -> Result<String, BadLine> {
    let fits = line.len() <= LONGEST;
    let text = String::from_utf8(line.to_vec()).map_err(|_| BadLine);
    text.and_then(|text| fits.then_some(text).ok_or(BadLine))
}

/// What is read is what stands there.
fn parse(text: &str) {
    let Some(parsed) = Setting::parse(text) else {
        return;
    };
    let (name, value) = text.split_once('=').expect("a setting has a value");
    let setting = match parsed {
        Ok(setting) => setting,
        Err(error) => return assert!(matches!(error, Errno::Invalid | Errno::Overflow)),
    };
    let written = setting.to_string();
    assert_eq!(Setting::parse(&written), Some(Ok(setting)));
    assert_eq!(written.split_once('=').map(|(name, _)| name), Some(name));
    match setting {
        Setting::Events(ids)
        | Setting::EventsOff(ids)
        | Setting::Pids(ids)
        | Setting::Functions(_, Chosen::Only(ids) | Chosen::More(ids)) => {
            assert!(ids.iter().eq(numbers(value)));
        }
        Setting::Cpumask(mask) => {
            let digits = value.strip_prefix("0x").unwrap_or(value);
            assert_eq!(u32::from_str_radix(digits, 16), Ok(mask));
        }
        Setting::Thresh(nanos) => assert_eq!(value.parse(), Ok(nanos)),
        Setting::StackMax(bytes) => assert_eq!(value.parse(), Ok(bytes)),
        Setting::Tracer(it) | Setting::Marker(it) => assert_eq!(it, value),
        _ => {}
    }
}

/// The numbers of a list, and of the ranges in it.
fn numbers(list: &str) -> impl Iterator<Item = u32> + '_ {
    let number = |text: &str| text.parse::<u32>().expect("it was read");
    let parts = list.split(',').filter(|part| !part.is_empty());
    parts.flat_map(move |part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first)..=number(last)
    })
}

/// Lines as the host sends them, good and bad.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "ftrace=nop\nevents=4,6,101\nevents_off=4\ntracing_on=1\n",
        "ftrace_filter=3,7-9\nftrace_graph_notrace+=1-2\nhwlat_width=5\nhwlat_window=9\n",
        "trace_marker=a b=c \u{e4}\nmode=flight\nmode=capture\ntrace_clear=\n",
        "tracing_cpumask=0xff\ntracing_cpumask=100000000\ntrace_buf_subs=16\ntrace_buf_subs=-1\n",
        "period_ns=1000000 events=4,,6 mode= tracing_on=2\nnothing\n\n=\n",
        "ftrace_filter=3,7-12\nftrace_filter=*\nftrace_notrace=9-7\nftrace_pid=8,9\nftrace_graph_max_depth=3\n",
        "stacktrace=0\nfunc_stack_trace=1\nfunction-trace=1\nfunction_profile=2\nstack_tracer=1\nstack_max_size=4096\nstack_max_size=-1\n",
        "tracing_max_latency=0\ntracing_thresh=20000\ntracing_thresh=99999999999999999999\n",
        "snapshot=1\nsnapshot=3\nprogram=8,1f,0,ffffffff\nprogram=1,\nevent_filter=4,13,5\n",
        "event_trigger=6,enable_event,3,8,0,5,2\nevent_trigger=6,hist,-,0,3,0,4\nevent_trigger_count=6,1,-\nftrace_command=traceoff,3,7-9\nevent_pid=3,5\nevent_trigger_off=6,1\nevent_filter=4\n",
        "trace_marker=0123456789012345678901234567890123456789012345678901234567890123456789\nx",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into()
}

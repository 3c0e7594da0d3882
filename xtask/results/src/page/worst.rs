//! The worst ten activations: what they consist of, and the timeline of the worst.

use anyhow::Result;

use super::Reported;
use super::html::{details, escape, head, legend, note, picture, table};
use crate::analysis::causes::{Cause, Piece};
use crate::analysis::window::{Activation, Kind};
use crate::plot::{Role, causes, timeline};

/// Records that the table of the worst shows at most.
const MAX_RECORDS: usize = 200;

/// The part of the page.
pub(super) fn section(nr: usize, run: &Reported) -> Result<String> {
    let Ok(story) = &run.story else {
        return Ok(String::new());
    };
    let Some(first) = story.worst.first() else {
        return Ok(String::new());
    };
    let mut out = String::from("<h3>Causes of the worst latencies</h3>\n");
    let whole: Vec<_> = story
        .worst
        .iter()
        .filter(|it| !it.pieces.is_empty())
        .collect();
    if !whole.is_empty() {
        let bars: Vec<_> = whole
            .iter()
            .map(|it| (format!("#{}", it.sample.seqnum), it.pieces.as_slice()))
            .collect();
        let title = format!("The worst {}, cut into causes", bars.len());
        let svg = causes::picture(&title, &bars);
        let present = Cause::ALL.into_iter().filter(|cause| {
            whole
                .iter()
                .any(|it| it.pieces.iter().any(|piece| piece.cause == *cause))
        });
        let entries: Vec<_> = present
            .map(|cause| (Role::Cause(cause.index()), cause.to_string()))
            .collect();
        out += &picture(&title, &svg, &legend(&entries));
    }
    out += &table(&rows(nr, &story.worst));
    out += &note(
        "Each nanosecond from the deadline to the thread's reading of the clock belongs to one cause, so a row's causes \
         add up to its thread latency. The boundaries are the records of the trace; recording them is part of the time.",
    );
    out += &worst(first)?;
    Ok(out)
}

fn rows(nr: usize, worst: &[Activation]) -> String {
    let present: Vec<_> = Cause::ALL
        .into_iter()
        .filter(|cause| worst.iter().any(|it| sum(it, *cause) != 0))
        .collect();
    let names: Vec<_> = present.iter().map(ToString::to_string).collect();
    let titles: Vec<_> = ["activation", "CPU", "due at ns", "IRQ", "thread"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .chain(["who"])
        .collect();
    let mut out = head(0, &titles);
    for it in worst {
        let sample = &it.sample;
        let due = match sample.deadline {
            Some(at) => it.ns(at).to_string(),
            None => format!("≈ {}", it.ns(sample.due())),
        };
        out += &format!(
            "<tr class=\"worst\" data-run=\"{nr}\"><td class=\"n seq\">{}</td><td class=\"n cpu\">{}</td>\
             <td class=\"n due\">{due}</td><td class=\"n irq\">{}</td><td class=\"n thread\">{}</td>",
            sample.seqnum,
            sample.cpu,
            sample
                .irq
                .map_or("–".into(), |irq| it.ns(irq.into()).to_string()),
            it.ns(sample.thread.into()),
        );
        for cause in &present {
            let shown = match sum(it, *cause) {
                0 => String::new(),
                ns => ns.to_string(),
            };
            out += &format!("<td class=\"n cause\">{shown}</td>");
        }
        out += &format!("<td class=\"who\">{}</td></tr>", escape(&who(&it.pieces)));
    }
    out
}

fn sum(it: &Activation, cause: Cause) -> u64 {
    let of_cause = it.pieces.iter().filter(|piece| piece.cause == cause);
    of_cause.map(|piece| piece.to - piece.from).sum()
}

/// Who delayed it.
fn who(pieces: &[Piece]) -> String {
    let mut named: Vec<_> = pieces
        .iter()
        .filter(|piece| !piece.who.is_empty())
        .map(|piece| format!("{}: {}", piece.cause, piece.who))
        .collect();
    named.dedup();
    named.join("; ")
}

/// The timeline of the worst, and its records.
fn worst(it: &Activation) -> Result<String> {
    let title = format!(
        "The worst activation: #{} on CPU {}",
        it.sample.seqnum, it.sample.cpu
    );
    let svg = timeline::picture(&title, it);
    let entries = [
        (Role::Irq, "an interrupt's handler".to_owned()),
        (Role::Thread, "the measured thread".to_owned()),
        (Role::Quiet, "another thread".to_owned()),
        (Role::Ink, "a record".to_owned()),
    ];
    let wide = format!("<div class=\"scroll wide\" tabindex=\"0\">{svg}</div>");
    let mut out = picture(&title, &wide, &legend(&entries)).replacen(
        "<figure>",
        "<figure class=\"timeline\">",
        1,
    );
    let mut rows =
        head(0, &["ns", "task", "flags"]).replacen("</tr>", "<th scope=\"col\">event</th></tr>", 1);
    for event in it.events().take(MAX_RECORDS) {
        let class = match event.kind {
            Kind::ThreadSample | Kind::IrqSample => " class=\"sample\"",
            _ => "",
        };
        rows += &format!(
            "<tr{class} data-record><td class=\"n\">{}</td><td>{}</td><td><code>{}</code></td><td>{}: {}</td></tr>",
            it.relative(event.ts),
            escape(&it.comm(event.tid)),
            escape(&event.flags),
            escape(&event.name),
            escape(&event.message),
        );
    }
    out += &details("Its records, in ns after the deadline", &table(&rows));
    Ok(out)
}

//! Deadlines in records: near ones, of which the lower half is recorded, far ones and those of the past are read back
//! exactly, and filters see all of them.

use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_board::carry_out;
use takt_kernel::Error;
use takt_kernel::time::{Expiry, Instant, Timer};
use takt_kernel::trace::{self, Event, Mode, events};
use takt_tests::drained::{close, drain};
use takt_tests::{check, check_eq, target_test};
use takt_tracer::control::setting::{Errno, Setting};
use takt_tracer::wire::{self, SubHeader};

/// What a record says: whether the timer expired, its deadline, the record's bytes, and whether it had to be that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deadline {
    has_expired: bool,
    expires: u64,
    len: usize,
    is_of_another_half: bool,
}

type Deadlines = heapless::Vec<Deadline, 16>;

/// The deadlines of that timer in the ring, in order.
fn recorded(timer: u16) -> Deadlines {
    let mut found = Deadlines::new();
    trace::tracing_off();
    close();
    drain(0, |sub| {
        read(sub, timer, &mut found);
    });
    found
}

fn read(sub: &[u8], timer: u16, found: &mut Deadlines) {
    let Some(header) = SubHeader::decode(sub) else {
        return;
    };
    let word = |at: usize| {
        let bytes = sub.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    let mut half = header.ts >> 32;
    let mut at = wire::SUB_HEADER as usize;
    loop {
        let (low, high) = (u64::from(word(at + 8)), u64::from(word(at + 12)));
        let (id, is_far) = match wire::event_of(word(at + 4)) {
            wire::Event::Near { id, is_far } => (u32::from(id), is_far),
            wire::Event::Core(id) if u32::from(id) == wire::CLOCK_ID => {
                half = low;
                at += wire::CLOCK_LEN as usize;
                continue;
            }
            _ => return,
        };
        let upper = if is_far { high } else { half };
        let len = if is_far { 16 } else { 12 };
        if word(at + 4) >> 1 & 0x7ff == u32::from(timer) {
            let _ = found.push(Deadline {
                has_expired: id == events::timer_expire::Event::id().number(),
                expires: upper << 32 | low,
                len,
                is_of_another_half: upper != half,
            });
        }
        at += len;
    }
}

fn ids() -> [u32; 2] {
    [
        events::timer_start::Event::id(),
        events::timer_expire::Event::id(),
    ]
    .map(|id| id.number())
}

/// An empty ring that records timers that start and expire.
fn begin() -> Result<(), Error> {
    let _ = recorded(0);
    let _ = recorded(0);
    trace::set_mode(Mode::StopWhenFull);
    ids()
        .iter()
        .try_for_each(|id| trace::enable(*id, true).map(|_| ()))?;
    trace::tracing_on();
    Ok(())
}

fn end() -> Result<(), Error> {
    ids()
        .iter()
        .try_for_each(|id| trace::enable(*id, false).map(|_| ()))
}

static NR_EXPIRED: AtomicU32 = AtomicU32::new(0);

fn expires(_: usize, _: Expiry) {
    NR_EXPIRED.fetch_add(1, Relaxed);
}

/// Arms the timer and waits until it has expired.
fn expire(timer: &Timer, deadline: u64) {
    let before = NR_EXPIRED.load(Relaxed);
    timer.arm(Instant::from_cycles(deadline));
    while NR_EXPIRED.load(Relaxed) == before {
        core::hint::spin_loop();
    }
}

fn set(text: &str) -> Result<(), Errno> {
    Setting::parse(text)
        .unwrap_or(Err(Errno::NoEntry))
        .and_then(carry_out)
}

/// Sets a line that names `timer_start`.
fn set_of_start(name: &str, rest: &str) -> Result<(), Errno> {
    let mut line = heapless::String::<128>::new();
    let _ = write!(
        line,
        "{name}={}{rest}",
        events::timer_start::Event::id().number()
    );
    set(&line)
}

target_test! {
    /// Whatever a timer's deadline is, its records give it back to the last bit, and are 12 bytes long wherever the
    /// deadline's upper half is that of the record's time.
    fn deadlines_of_any_distance(Shared) {
        let timer = Timer::new(expires, 0)?;
        begin()?;
        let now = Instant::now().cycles();
        let half = now >> 32;
        let far = [
            now + (1 << 32),
            now + (1 << 33) + 5,
            // The first and the last cycle of a half.
            (half + 1) << 32,
            ((half + 2) << 32) - 1,
            now & 0xffff_ffff | 1 << 62,
            u64::MAX - 1,
        ];
        for deadline in far {
            timer.arm(Instant::from_cycles(deadline));
            check!(timer.cancel());
        }
        let expired = [now + 200_000, now, now.saturating_sub(1 << 31), 1];
        for deadline in expired {
            expire(&timer, deadline);
        }
        let found = recorded(timer.number());
        end()?;
        let of = |has_expired: bool| found.iter().filter(move |it| it.has_expired == has_expired).map(|it| it.expires);
        check!(of(false).eq(far.into_iter().chain(expired)), "started: {found:?}");
        check!(of(true).eq(expired), "expired: {found:?}");
        check!(found.iter().all(|it| it.is_of_another_half == (it.len == 16)), "too long: {found:?}");
        Ok(())
    }

    /// A filter of deadlines is asked about all of each, also of those of which the record has the lower half.
    fn filters_see_whole_deadlines(Shared) {
        let timer = Timer::new(expires, 0)?;
        begin()?;
        // One test: a range, of the 64 bits from the first extra word on.
        let now = Instant::now().cycles();
        let least = now + (1 << 33);
        let mut line = heapless::String::<128>::new();
        let _ = write!(line, "program=0,1,301,fffeffff,400001,{:x},{:x},ffffffff,ffff", least as u32, least >> 32);
        set(&line)?;
        set_of_start("event_filter", ",8,0")?;
        let arm = |deadline| {
            timer.arm(Instant::from_cycles(deadline));
            check!(timer.cancel());
            Ok::<_, takt_tests::harness::Failure>(())
        };
        // Of the first the lower half would get through, and of the last it would not.
        for deadline in [now + (1 << 31), least - 1, least, least + (1 << 32), least & !0xffff_ffff | 3 << 33] {
            arm(deadline)?;
        }
        let high = recorded(timer.number());
        set_of_start("event_filter", ",0,0")?;
        // Near ones: the whole of them is compared, and less of it recorded.
        trace::tracing_on();
        line.clear();
        let near = Instant::now().cycles() + 500_000;
        let _ = write!(line, "program=0,1,301,fffeffff,400001,0,0,{:x},{:x}", near as u32, near >> 32);
        set(&line)?;
        set_of_start("event_filter", ",8,0")?;
        // The first record behind a change of the rules takes the slow path, on which all of it is recorded.
        for deadline in [near + (1 << 32), near + 1, near, near] {
            arm(deadline)?;
        }
        let low = recorded(timer.number());
        set_of_start("event_filter", ",0,0")?;
        end()?;
        let expires = |found: &Deadlines| found.iter().map(|it| it.expires).collect::<heapless::Vec<_, 16>>();
        check_eq!(expires(&high)[..], [least, least + (1 << 32), least & !0xffff_ffff | 3 << 33]);
        check_eq!(expires(&low)[..], [near, near]);
        check!(low.iter().skip(1).all(|it| it.is_of_another_half == (it.len == 16)), "too long: {low:?}");
        Ok(())
    }
}

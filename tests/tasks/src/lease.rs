//! Memory that is lent: a server that uses it, rightly or not, and clients that lend it, rightly or not.

use core::arch::asm;
use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_user::abi::{self, Call, FIRST_REGION, Lending, MAX_LEASES, REGION, lease};
use takt_user::{
    Error, Info, Instant, Lease, Leased, Message, Nanos, Peer, Received, exit, receive, reply,
    reply_and_receive, sleep_until,
};

use crate::client;
use crate::raw::raw;

/// What a message's first word asks the server for.
mod ask {
    pub(super) const QUIT: u64 = 0;
    /// Copies the lease 0 to the lease 1, and adds the second word to each byte.
    pub(super) const FILL: u64 = 1;
    /// [`Call::LeaseInfo`](takt_user::abi::Call::LeaseInfo) of the lease in the second word.
    pub(super) const INFO: u64 = 2;
    /// The call in the second word with the four arguments behind it; its own address is 0 for a buffer.
    pub(super) const COPY: u64 = 3;
    /// Writes to the lease 0 until that fails.
    pub(super) const USE: u64 = 4;
    /// How often that has succeeded, and with which error it ended.
    pub(super) const TOLD: u64 = 5;
    /// Replies first; then tries all that there is to try with a lease, of which [`TOLD`] tells.
    pub(super) const AFTER: u64 = 6;
    /// Reads the lease 0, and dies.
    pub(super) const DIE: u64 = 7;
    /// How many instructions it takes to read 1 KiB of the lease 0, and to write it.
    pub(super) const MEASURE: u64 = 8;
}

const SERVER: Peer = Peer::new(0);
/// The client's handle that is for notifications alone.
const BELL: Peer = Peer::new(3);

/// Where the tasks have their regions.
const SERVERS: u64 = (FIRST_REGION + REGION) as u64;
const CLIENTS: u64 = (FIRST_REGION + 2 * REGION) as u64;
const END: u64 = CLIENTS + REGION as u64;
/// In the kernel's image, and in its identity mapping.
const KERNEL: u64 = 0x100_0000;

/// In the data, of which there is one page.
static DATA: [AtomicU64; 192] = [const { AtomicU64::new(0x5eed) }; 192];

fn data() -> u64 {
    DATA.as_ptr().expose_provenance() as u64 & !0xfff
}

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

/// [`Call::CallLending`] with this list; the reply's first word.
fn lend(handle: u64, list: u64, [what, word]: [u64; 2], more: [u64; 4]) -> Result<u64, u64> {
    let mut w0 = what;
    let status: u64;
    // SAFETY: no memory is written but what the list lends.
    unsafe {
        asm!(
            "push rbx", "push rbp", "mov rbx, r8", "mov rbp, r9", "syscall", "mov r8, rbx", "mov r9, rbp", "pop rbp", "pop rbx",
            inout("rax") Call::CallLending as u64 => status, inout("rsi") handle => _, inout("rdx") list => _,
            inout("r8") w0, inout("r9") word => _, inout("r12") more[0] => _, inout("r13") more[1] => _, inout("r14") more[2] => _,
            inout("r15") more[3] => _, clobber_abi("sysv64"),
        );
    }
    if status == 0 { Ok(w0) } else { Err(status) }
}

fn error(error: Error) -> [u64; 2] {
    [error as u64, 0]
}

/// Receives messages and replies to them as [`ask`] says.
#[inline(never)]
pub(crate) fn server() {
    let mut own = [0; 1536];
    let mut told = [0; 6];
    // What is to be said, or nothing.
    let mut said: Option<Message> = None;
    loop {
        let received: Result<Received, Error> = match said.take() {
            Some(said) => reply_and_receive(said, 0, Instant::NEVER),
            None => receive(0, Instant::NEVER),
        };
        let Some(call) = received.ok().and_then(|it| it.call) else {
            exit(1)
        };
        let m = call.message;
        let mut answer = m;
        match m[0] {
            ask::QUIT => {
                let _ = reply(m);
                return;
            }
            ask::FILL => answer[0] = fill(&mut own, m[1]).err().map_or(0, |error| error as u64),
            ask::INFO => {
                let [status, value] = raw(Call::LeaseInfo, [m[1], 0, 0, 0]);
                answer = [status << 32 | value, value, 0, 0, 0, 0];
            }
            ask::COPY => {
                let at = match m[3] {
                    0 => own.as_mut_ptr().expose_provenance() as u64,
                    at => at,
                };
                let call = Call::from_number(m[1]).unwrap_or(Call::Null);
                answer[0] = raw(call, [m[2], at, m[4], m[5]])[0];
            }
            ask::USE => {
                told = [0; 6];
                own.fill(0);
                let size = Leased::new(0).info().map_or(0, |info| info.size);
                loop {
                    // QEMU has another CPU go on.
                    core::hint::spin_loop();
                    own[..size].fill(told[0] as u8);
                    match Leased::new(0).write(0, &own[..size]) {
                        Ok(()) => told[0] += 1,
                        Err(error) => break told[1] = error as u64,
                    }
                }
            }
            ask::TOLD => answer = told,
            ask::AFTER => {
                if reply(m).is_err() {
                    exit(2);
                }
                let at = own.as_mut_ptr().expose_provenance() as u64;
                let copied =
                    [Call::LeaseRead, Call::LeaseWrite].map(|it| raw(it, [0, at, 0, 8])[0]);
                told = [
                    copied[0],
                    copied[1],
                    raw(Call::LeaseInfo, [0; 4])[0],
                    0,
                    0,
                    0,
                ];
                continue;
            }
            ask::DIE => {
                let _ = Leased::new(0).read(0, &mut own[..8]);
                crate::harm::run(crate::harm::WRITE);
            }
            ask::MEASURE => {
                answer = [
                    measured(&mut own, true),
                    measured(&mut own, false),
                    0,
                    0,
                    0,
                    0,
                ];
            }
            _ => exit(3),
        }
        said = Some(answer);
    }
}

/// Writes what is in the lease 0 to the lease 1, each byte with the number added.
fn fill(own: &mut [u8], number: u64) -> Result<(), Error> {
    let Info { size, rights } = Leased::new(0).info()?;
    if rights != lease::READ || Leased::new(1).info()?.rights & lease::WRITE == 0 {
        exit(4);
    }
    let mut at = 0;
    while at < size {
        let piece = &mut own[..(size - at).min(1100)];
        Leased::new(0).read(at, piece)?;
        for byte in &mut *piece {
            *byte = byte.wrapping_add(number as u8);
        }
        Leased::new(1).write(at, piece)?;
        at += piece.len();
    }
    Ok(())
}

/// Instructions of the kernel to copy 1 KiB from the lease 0, or to it.
fn measured(own: &mut [u8], reads: bool) -> u64 {
    let call = if reads {
        Call::LeaseRead
    } else {
        Call::LeaseWrite
    };
    let at = own.as_mut_ptr().expose_provenance() as u64;
    let mut least = u64::MAX;
    for _ in 0..8 {
        let (took, status): (u64, u64);
        // SAFETY: so much is there.
        unsafe {
            asm!(
                "rdtsc",
                "mov r14d, eax",
                "mov eax, r15d",
                "mov rdx, r8",
                "syscall",
                "mov r15, rax",
                "rdtsc",
                "sub eax, r14d",
                out("rax") took, inout("rsi") 0u64 => _, inout("r8") at => _, in("r12") 0u64, in("r13") 1024u64,
                inout("r15") call as u64 => status, out("r14") _,
            clobber_abi("sysv64"),
            );
        }
        if status != 0 {
            exit(5);
        }
        least = least.min(took);
    }
    // From the first reading to the second one, with that.
    least - 6
}

/// Ends the task with the line's number unless it holds.
macro_rules! holds {
    ($condition:expr) => {
        if !$condition {
            takt_user::log!("{} does not hold", stringify!($condition));
            exit(line!().into());
        }
    };
}

#[inline(never)]
pub(crate) fn client(what: u64) {
    match what & 0xff {
        0 => memory_is_lent(),
        1 => what_is_refused(),
        2 => time_outs(),
        3 => the_server_dies(),
        4 => exit(measure()),
        5 => of_a_region(what >> 8),
        6 => exit_by_watchdog(),
        7 => budget_ends(),
        8 => holds!(SERVER.call([ask::QUIT; 6]).is_ok()),
        9 => {
            let told = SERVER.call([ask::TOLD; 6]);
            exit(told.map_or(99, |told| told[1] | u64::from(told[0] != 0) << 32));
        }
        10 => a_window_is_filled(),
        // Its watchdog bites about then.
        11 => {
            client::pass(450, what >> 8);
            a_window_is_filled();
        }
        _ => exit(96),
    }
}

/// The server writes its zeros to more than a piece.
fn a_window_is_filled() {
    let mut window = [0xa5; 520];
    let asked = [ask::COPY, Call::LeaseWrite as u64, 0, 0, 0, 520];
    let got = SERVER.call_lending(asked, [Lease::write(&mut window)], Instant::NEVER);
    holds!(got.map(|words| words[0]) == Ok(0) && window == [0; 520]);
}

/// Of all sizes and places around words and pieces: what is lent arrives, and nothing beside it changes.
fn memory_is_lent() {
    const GAP: usize = 16;
    for (nr, size) in [0, 1, 7, 8, 9, 511, 512, 513, 520, 1023, 1024, 1100, 1500]
        .into_iter()
        .enumerate()
    {
        for shift in [0, 1, 7] {
            let (mut from, mut to) = ([0; 1536], [0xa5; 1536]);
            for (at, byte) in from.iter_mut().enumerate() {
                *byte = (at * 7 + nr) as u8;
            }
            let (begin, end) = (GAP + shift, GAP + shift + size);
            let question = Lease::read(&from[GAP - shift..][..size]);
            let answer = Lease::write(&mut to[begin..end]);
            let got = SERVER.call_lending(
                [ask::FILL, shift as u64 + 3, 0, 0, 0, 0],
                [question, answer],
                Instant::NEVER,
            );
            holds!(got.map(|words| words[0]) == Ok(0));
            let expected = from[GAP - shift..][..size]
                .iter()
                .map(|it| it.wrapping_add(shift as u8 + 3));
            holds!(to[begin..end].iter().copied().eq(expected));
            holds!(to[..begin].iter().chain(&to[end..]).all(|it| *it == 0xa5));
        }
    }
    // Of four, each by its number.
    let mut own = [[1u8; 8], [2; 8], [3; 8], [4; 8]];
    let [a, b, c, d] = &mut own;
    let all = [
        Lease::read(a),
        Lease::write(&mut b[..7]),
        Lease::read_write(&mut c[..6]),
        Lease::read(&d[..5]),
    ];
    let got = SERVER.call_lending([ask::INFO, 2, 0, 0, 0, 0], all, Instant::NEVER);
    holds!(got.map(|words| words[1]) == Ok(3 << 32 | 6));
    holds!(SERVER.call([ask::QUIT; 6]).is_ok());
}

/// What comes of a message with these leases, as addresses, sizes and rights.
fn with(message: [u64; 6], leases: &[(u64, u64, u32)]) -> u64 {
    let mut list = Lending {
        deadline: Instant::NEVER.nanos(),
        leases: [abi::Lease::NONE; MAX_LEASES],
    };
    for (to, (address, size, rights)) in list.leases.iter_mut().zip(leases) {
        *to = abi::Lease {
            address: *address,
            size: *size as u32,
            rights: *rights,
        };
    }
    let at = core::ptr::from_ref(&list).expose_provenance() as u64;
    let [what, word, more @ ..] = message;
    lend(0, at, [what, word], more).unwrap_or_else(|error| error << 8)
}

fn what_is_refused() {
    const R: u32 = lease::READ;
    const W: u32 = lease::WRITE;
    let bad = (Error::BadAddress as u64) << 8;
    let quiet = [ask::TOLD; 6];
    let own = DATA.as_ptr().expose_provenance() as u64;
    let (data, code) = (data(), client as *const () as u64);
    // What the task has, at its borders, and what it has not.
    let table = [
        (own, 512, W, 0),
        (data, 4096, R | W, 0),
        (data, 4097, R, bad),
        (data - 1, 1, R, 0),
        (data - 1, 1, W, bad),
        (data - 1, 2, R, bad),
        (data + 4095, 1, W, 0),
        (data + 4095, 2, W, bad),
        (data + 4096, 0, W, 0),
        (data + 4096, 1, R, bad),
        (END - 8192, 8192, R, 0),
        (END - 8193, 1, R, bad),
        (END - 8193, 8193, R, bad),
        (END - 1, 1, W, 0),
        (END - 1, 2, W, bad),
        (END, 1, R, bad),
        (code, 64, R, 0),
        (code, 1, W, bad),
        (CLIENTS, 1, R, 0),
        (CLIENTS - 1, 1, R, bad),
        (CLIENTS - 1, 2, R, bad),
        (SERVERS, 1, R, bad),
        (END, 4096, R, bad),
        (0, 1, R, bad),
        (KERNEL, 8, R, bad),
        (KERNEL, 8, W, bad),
        (u64::MAX, 1, R, bad),
        (u64::MAX, 2, R, bad),
        (u64::MAX - 0xffff_fffe, 0xffff_ffff, R, bad),
        (own, 0xffff_ffff, R, bad),
        (own.wrapping_add(1 << 63), 8, R, bad),
        (own, 8, 4, (Error::InvalidArgument as u64) << 8),
        (own, 8, R | 1 << 31, (Error::InvalidArgument as u64) << 8),
        // None, whatever else is said.
        (KERNEL, 8, 0, 0),
    ];
    for (nr, (address, size, rights, expected)) in table.into_iter().enumerate() {
        let got = with(quiet, &[(own, 8, R), (address, size, rights)]);
        if got != expected {
            takt_user::log!("{nr}: {address:#x}+{size:#x} {rights}: {got:#x}");
            exit(97);
        }
    }
    // Nothing of a call that was refused, nor of one that is over, is lent with the next one, whichever way that goes.
    let none = (Error::NoLease as u64) << 32;
    for deadline in [Instant::NEVER, Instant::after(Nanos::new(10_000_000))] {
        holds!(with(quiet, &[(own, 8, R), (0, 8, R)]) == bad);
        let asked = SERVER.call_until([ask::INFO, 0, 0, 0, 0, 0], deadline);
        holds!(asked.map(|words| words[0]) == Ok(none));
        holds!(with(quiet, &[(own, 8, R)]) == 0);
        let asked = SERVER.call_until([ask::INFO, 0, 0, 0, 0, 0], deadline);
        holds!(asked.map(|words| words[0]) == Ok(none));
    }
    // The list itself, of 72 bytes; at the end of the data there are zeros: a time-out of 0.
    let list =
        |handle, at| lend(handle, at, [ask::TOLD, 0], [0; 4]).unwrap_or_else(|error| error << 8);
    for at in [
        0,
        KERNEL,
        data + 4096 - 71,
        data + 4096,
        END - 8,
        u64::MAX - 8,
        SERVERS,
    ] {
        holds!(list(0, at) == bad);
    }
    holds!(list(0, data + 4096 - 72) == (Error::TimedOut as u64) << 8);
    holds!(list(63, data) == (Error::NoHandle as u64) << 8);
    holds!(list(u64::MAX, data) == (Error::NoHandle as u64) << 8);
    holds!(list(3, data) == (Error::NoRight as u64) << 8);
    holds!(BELL.call_lending([0; 6], [], Instant::NEVER) == Err(Error::NoRight));
    // Who has nothing lent.
    let at = own;
    for call in [Call::LeaseRead, Call::LeaseWrite, Call::LeaseInfo] {
        holds!(raw(call, [0, at, 0, 8]) == error(Error::NothingToReply));
    }
    what_a_server_is_refused(own);
    holds!(SERVER.call([ask::AFTER; 6]).is_ok());
    let nothing = Error::NothingToReply as u64;
    holds!(with([ask::AFTER; 6], &[(own, 8, R | W)]) == ask::AFTER);
    holds!(SERVER.call([ask::TOLD; 6]) == Ok([nothing, nothing, nothing, 0, 0, 0]));
    holds!(SERVER.call([ask::QUIT; 6]).is_ok());
}

/// The lease 0 is to be read, 1 to be written to, 3 neither is there nor are those from 4 on.
fn what_a_server_is_refused(own: u64) {
    const READ: u64 = Call::LeaseRead as u64;
    const WRITE: u64 = Call::LeaseWrite as u64;
    let [no_lease, no_right, invalid, bad] = [
        Error::NoLease,
        Error::NoRight,
        Error::InvalidArgument,
        Error::BadAddress,
    ]
    .map(|it| it as u64);
    let end = SERVERS + REGION as u64;
    let table = [
        (READ, 0, 0, 0, 16, 0),
        (READ, 0, 0, 16, 0, 0),
        (READ, 0, 0, 15, 1, 0),
        (WRITE, 1, 0, 8, 8, 0),
        (READ, 1, 0, 0, 8, no_right),
        (WRITE, 0, 0, 0, 8, no_right),
        (WRITE, 0, 0, 0, 0, no_right),
        (READ, 2, 0, 0, 8, no_lease),
        (READ, 3, 0, 0, 8, no_lease),
        (READ, 4, 0, 0, 8, no_lease),
        (READ, u64::MAX, 0, 0, 0, no_lease),
        (READ, 1 << 32, 0, 0, 8, no_lease),
        (READ, 0, 0, 0, 17, invalid),
        (READ, 0, 0, 16, 1, invalid),
        (READ, 0, 0, 17, 0, invalid),
        (READ, 0, 0, u64::MAX, 2, invalid),
        (READ, 0, 0, 8, u64::MAX, invalid),
        (READ, 0, 0, 0, 1 << 32, invalid),
        (WRITE, 1, 0, 1 << 63, 1 << 63, invalid),
        (READ, 0, KERNEL, 0, 8, bad),
        (WRITE, 1, KERNEL, 0, 8, bad),
        (READ, 0, u64::MAX - 3, 0, 8, bad),
        // Its code, its stack's end, and what is the client's.
        (READ, 0, SERVERS, 0, 8, bad),
        (WRITE, 1, SERVERS, 0, 8, 0),
        (READ, 0, end - 4, 0, 8, bad),
        (WRITE, 1, end - 4, 0, 8, bad),
        (WRITE, 1, end - 8, 0, 8, 0),
        (READ, 0, end - 4096 - 4, 0, 8, bad),
        (READ, 0, own, 0, 8, bad),
        (WRITE, 1, own, 0, 8, bad),
    ];
    for (nr, (call, number, at, offset, size, expected)) in table.into_iter().enumerate() {
        let message = [ask::COPY, call, number, at, offset, size];
        let got = with(
            message,
            &[(own, 16, lease::READ), (own + 16, 16, lease::WRITE)],
        );
        if got != expected {
            takt_user::log!("{nr}: {got}");
            exit(98);
        }
    }
}

/// Whether memory that was lent stays as it is while the server may run.
fn stays(lent: &[u8; 1536]) -> bool {
    // A copy that there is, whatever a shared reference promises.
    let before = core::hint::black_box(*lent);
    sleep_until(Instant::after(Nanos::new(20_000)));
    core::hint::black_box(lent) == &before
}

/// The wait ends at any instruction of the copy: from then on nothing is written any more.
fn time_outs() {
    let mut nr_used = 0;
    // It waits from then on.
    holds!(SERVER.call([ask::TOLD; 6]).is_ok());
    for round in 0..400 {
        let mut lent = [0xff; 1536];
        let until = Instant::after(Nanos::new(3_000 + 11 * round));
        let result = SERVER.call_lending([ask::USE; 6], [Lease::write(&mut lent)], until);
        holds!(result == Err(Error::TimedOut));
        holds!(stays(&lent));
        let Ok(told) = SERVER.call([ask::TOLD; 6]) else {
            exit(95)
        };
        holds!(told[1] == Error::Revoked as u64);
        nr_used += u64::from(told[0] != 0);
    }
    holds!(nr_used > 200);
    holds!(SERVER.call([ask::QUIT; 6]).is_ok());
}

fn the_server_dies() {
    let mut lent = [0xff; 1536];
    let result = SERVER.call_lending(
        [ask::DIE; 6],
        [Lease::read_write(&mut lent)],
        Instant::NEVER,
    );
    holds!(result == Err(Error::Dead));
    holds!(stays(&lent));
    sleep_until(Instant::after(Nanos::new(1_000_000)));
    holds!(SERVER.renew() == Ok(()));
    let asked = SERVER.call([ask::INFO, 0, 0, 0, 0, 0]);
    holds!(asked.map(|words| words[0]) == Ok((Error::NoLease as u64) << 32));
    holds!(SERVER.call([ask::QUIT; 6]).is_ok());
}

/// The instructions to read and to write 1 KiB, and all that a message with it and its reply take.
fn measure() -> u64 {
    let mut lent = [0; 1024];
    let costs = SERVER.call_lending(
        [ask::MEASURE; 6],
        [Lease::read_write(&mut lent)],
        Instant::NEVER,
    );
    let mut least = u64::MAX;
    for _ in 0..8 {
        let begun = now();
        holds!(
            SERVER
                .call_lending([ask::TOLD; 6], [Lease::read(&lent)], Instant::NEVER)
                .is_ok()
        );
        least = least.min(now() - begun);
    }
    holds!(SERVER.call([ask::QUIT; 6]).is_ok());
    costs.map_or(0, |words| words[0] | words[1] << 16 | least << 32)
}

/// Of a task that has a region that it may write to at the page of this number of those that tasks have, and a device's memory two
/// pages behind it; the server may only read the region.
fn of_a_region(page: u64) {
    let region = FIRST_REGION as u64 + 4096 * page;
    let device = region - 2 * 4096;
    let bad = (Error::BadAddress as u64) << 8;
    let both = lease::READ | lease::WRITE;
    for (address, size, expected) in [
        (region, 4096, 0),
        (region, 4097, bad),
        (region - 1, 2, bad),
        (device, 4, bad),
    ] {
        holds!(with([ask::TOLD; 6], &[(address, size, both)]) == expected);
    }
    let servers = SERVERS + region % REGION as u64;
    let copy = |call: Call| {
        with(
            [ask::COPY, call as u64, 0, servers, 0, 8],
            &[(region, 4096, both)],
        )
    };
    // To the same place.
    holds!(copy(Call::LeaseWrite) == 0);
    holds!(copy(Call::LeaseRead) == Error::BadAddress as u64);
    holds!(SERVER.call([ask::QUIT; 6]).is_ok());
}

/// The task's watchdog bites while it lends its data. The next life has them as it should, and then the same.
fn exit_by_watchdog() {
    let is_whole = || DATA.iter().all(|it| it.load(Relaxed) == 0x5eed);
    holds!(is_whole());
    sleep_until(Instant::after(Nanos::new(20_000)));
    holds!(is_whole());
    let lent = DATA.as_ptr().cast_mut().cast();
    // SAFETY: any bytes are atomics.
    let lent = unsafe { Lease::from_raw(lent, size_of_val(&DATA), lease::WRITE) };
    let result = SERVER.call_lending([ask::USE; 6], [lent], Instant::NEVER);
    exit(1000 + result.map_or_else(|error| error as u64, |words| 100 + words[0]));
}

/// The task's budget ends in the server.
fn budget_ends() {
    for _ in 0..4 {
        let mut lent = [0xff; 1536];
        let result = SERVER.call_lending([ask::USE; 6], [Lease::write(&mut lent)], Instant::NEVER);
        holds!(result == Err(Error::BudgetSpent));
        holds!(stays(&lent));
    }
}

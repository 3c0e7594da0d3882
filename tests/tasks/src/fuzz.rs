//! A task that does whatever a program can do, at random: calls with anything in the registers, and instructions that stop it. The
//! others of this file are beside it and must not notice.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_user::abi::{self, Call, Error, Lending, MAX_LEASES, NOTIFICATIONS, fault, lease};
use takt_user::{
    Instant, Lease, Leased, Message, Nanos, Peer, exit, log, receive, reply, reply_and_receive,
    sleep_until,
};

/// In a message's first word, what no random one has: the second word is how many operations were done since the last one. The reply's
/// first word is not 0 when it is time to end, the second one counts the lives of whoever asks, and the third is the seed.
const REPORT: u64 = 0x7a4b_0f5e_11d3_9c27;
/// Likewise: the same of those who do nothing but look.
const LOOK: u64 = REPORT + 1;
/// Likewise: the server is to end.
const QUIT: u64 = REPORT + 2;
/// As [`LOOK`], and it is time to end.
const OVER: u64 = REPORT + 3;

/// So many operations at most between two reports.
const OPERATIONS: u64 = 64;

const SERVER: Peer = Peer::new(0);
const KEEPER: Peer = Peer::new(1);

/// What comes next, a notification too.
fn answered(received: Option<Message>) -> takt_user::Received {
    let received = match received {
        Some(said) => reply_and_receive(said, NOTIFICATIONS, Instant::NEVER),
        None => receive(NOTIFICATIONS, Instant::NEVER),
    };
    match received {
        Ok(received) => received,
        Err(error) => exit(100 + error as u64),
    }
}

/// Supervises all; ends when so many operations were reported, or one says so, and all who look have been told so. The seed is in
/// the argument's highest 24 bits.
pub(crate) fn keeper(argument: u64) {
    let (nr, seed) = (argument & 0xffff_ffff, argument >> 40);
    let (mut done, mut lives) = (0, 0);
    // A bit for each badge that was told so.
    let mut told: u32 = 0;
    let mut said = None;
    while told.count_ones() < 3 {
        let Some(call) = answered(said).call else {
            said = None;
            continue;
        };
        let message = call.message;
        if message[0] == OVER {
            done = nr;
        }
        // Whoever fuzzes may wait for one of the others: these are told behind it.
        let is_over = done >= nr && (message[0] == REPORT || told != 0);
        said = Some(match message[0] {
            _ if call.is_fault => [fault::RESTART, 0, 0, 0, 0, 0],
            REPORT => {
                done += message[1];
                lives += u64::from(message[1] == 0);
                told |= u32::from(is_over) << call.badge;
                [u64::from(is_over), lives, seed, 0, 0, 0]
            }
            LOOK | OVER => {
                told |= u32::from(is_over) << call.badge;
                [u64::from(is_over); 6]
            }
            _ => message,
        });
    }
    if reply(said.unwrap_or_default()).is_err() {
        exit(1);
    }
}

/// Uses all that it is lent.
#[inline(never)]
fn borrow() {
    let mut own = [0; 256];
    for leased in (0..5).map(Leased::new) {
        let result = leased.info().and_then(|info| {
            let piece = &mut own[..info.size.min(256)];
            if info.rights & lease::READ != 0 {
                leased.read(info.size - piece.len(), piece)?;
            }
            if info.rights & lease::WRITE != 0 {
                leased.write(0, piece)?;
            }
            Ok(())
        });
        match result {
            Ok(()) | Err(Error::NoLease | Error::Revoked) => {}
            Err(error) => exit(200 + error as u64),
        }
    }
}

/// Answers whatever it is sent, sometimes late, and dies of some messages.
pub(crate) fn server() {
    let mut said = None;
    loop {
        let Some(call) = answered(said).call else {
            said = None;
            continue;
        };
        let message = call.message;
        said = Some(message);
        borrow();
        match message[0] % 64 {
            _ if message[0] == QUIT => {
                let _ = reply(message);
                return;
            }
            0..4 => sleep_until(Instant::after(Nanos::new(message[1] % 10_000))),
            4 => {
                // SAFETY: none: it stops the task.
                unsafe { asm!("ud2") };
            }
            5 => {
                if reply(message).is_err() || Leased::new(0).info() != Err(Error::NothingToReply) {
                    exit(1);
                }
                said = None;
            }
            _ => {}
        }
    }
}

/// Sleeps until each of some deadlines, and ends with how late it was at most, in nanoseconds. With a number of turns it has one each
/// millisecond, is to end each before the next one, and has all end behind these.
pub(crate) fn control(turns: u64) {
    let period = match turns {
        0 => Nanos::from_micros(100),
        _ => Nanos::from_millis(1),
    };
    let keeper = Peer::new(0);
    let mut deadline = Instant::after(period);
    let mut latest = Nanos::ZERO;
    for turn in 1.. {
        sleep_until(deadline);
        latest = (Instant::now() - deadline).max(latest);
        deadline += period;
        // It is to be there in time for each of them.
        let question = if turn == turns { OVER } else { LOOK };
        match keeper.call([question; 6]) {
            Ok(words) if words[0] != 0 => exit(latest.get()),
            Ok(_) => {}
            Err(error) => exit(1 << 32 | error as u64),
        }
        if turns != 0 && Instant::now() >= deadline {
            exit(2 << 32 | turn);
        }
    }
}

/// Who works so many microseconds of each tenth of a second alone rests for what is left of it. Gives which of them it is; without
/// such a number there are none.
fn rest(busy: u64) -> u64 {
    const BURST: u64 = 100_000_000;
    if busy == 0 {
        return 0;
    }
    let now = Instant::now().nanos();
    if now % BURST >= 1_000 * busy {
        sleep_until(Instant::from_nanos(now.next_multiple_of(BURST)));
    }
    now.div_ceil(BURST)
}

global_asm!(
    // rdi = 14 registers and behind them 16 SSE registers. Holds them for a while, and stores what they are then.
    ".text",
    "takt_fuzz_hold:",
    ".irp r, rbx,rbp,r12,r13,r14,r15",
    "push \\r",
    ".endr",
    "mov [rip + takt_fuzz_saved], rdi",
    "mov qword ptr [rip + takt_fuzz_rounds], 20000",
    ".set at, 0",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups xmm\\n, [rdi + 112 + 16 * \\n]",
    ".endr",
    ".irp r, rax,rbx,rcx,rdx,rsi,rbp,r8,r9,r10,r11,r12,r13,r14,r15",
    "mov \\r, [rdi + at]",
    ".set at, at + 8",
    ".endr",
    "mov rdi, rax",
    "2: dec qword ptr [rip + takt_fuzz_rounds]",
    "jnz 2b",
    // Its first one is kept twice.
    "xor rax, rdi",
    "lea rdi, [rdi + rax]",
    "push rdi",
    "mov rdi, [rip + takt_fuzz_saved]",
    "pop qword ptr [rdi]",
    ".set at, 8",
    ".irp r, rbx,rcx,rdx,rsi,rbp,r8,r9,r10,r11,r12,r13,r14,r15",
    "mov [rdi + at], \\r",
    ".set at, at + 8",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups [rdi + 112 + 16 * \\n], xmm\\n",
    ".endr",
    ".irp r, r15,r14,r13,r12,rbp,rbx",
    "pop \\r",
    ".endr",
    "ret",
    //
    // rdi = 14 registers, of which others are there behind it; rsi = flags, rdx = a stack, or 0 for this one.
    "takt_fuzz_call:",
    ".irp r, rbx,rbp,r12,r13,r14,r15",
    "push \\r",
    ".endr",
    "mov [rip + takt_fuzz_saved], rdi",
    "mov [rip + takt_fuzz_stack], rsp",
    "test rdx, rdx",
    "cmovz rdx, rsp",
    "mov rax, [rdi]",
    "mov rbx, [rdi + 8]",
    "mov rbp, [rdi + 40]",
    ".set at, 48",
    ".irp r, r8,r9,r10,r11,r12,r13,r14,r15",
    "mov \\r, [rdi + at]",
    ".set at, at + 8",
    ".endr",
    "push rsi",
    "popfq",
    "mov rsp, rdx",
    "mov rdx, [rdi + 24]",
    "mov rsi, [rdi + 32]",
    "mov rdi, [rdi + 16]",
    "syscall",
    "mov rsp, [rip + takt_fuzz_stack]",
    "push rdi",
    "mov rdi, [rip + takt_fuzz_saved]",
    "pop qword ptr [rdi + 16]",
    "mov [rdi], rax",
    "mov [rdi + 24], rdx",
    "mov [rdi + 32], rsi",
    ".set at, 48",
    ".irp r, r8,r9,r10,r11,r12,r13,r14,r15",
    "mov [rdi + at], \\r",
    ".set at, at + 8",
    ".endr",
    "mov [rdi + 8], rbx",
    "mov [rdi + 40], rbp",
    "push 0x202",
    "popfq",
    ".irp r, r15,r14,r13,r12,rbp,rbx",
    "pop \\r",
    ".endr",
    "ret",
    //
    ".balign 4",
    "takt_fuzz_int:",
    ".set vector, 0",
    ".rept 256",
    ".byte 0xcd, vector",
    "ret",
    ".balign 4",
    ".set vector, vector + 1",
    ".endr",
    //
    ".bss",
    ".balign 8",
    "takt_fuzz_saved: .quad 0",
    "takt_fuzz_stack: .quad 0",
    "takt_fuzz_rounds: .quad 0",
    ".text",
);

unsafe extern "C" {
    fn takt_fuzz_hold(registers: &mut [u64; 46]);
    fn takt_fuzz_call(registers: &mut [u64; 14], flags: u64, stack: u64);
    static takt_fuzz_int: [u8; 4 * 256];
}

/// Not zero, and nobody else's.
static SEEN: [AtomicU64; 32] = [const { AtomicU64::new(0x5eed) }; 32];

/// What the observer lends, and where in it the part is that may be written to.
const LENT: usize = 1500;
const WRITABLE: core::ops::Range<usize> = 30..1477;

/// Has numbers in all registers and in memory while others run, and finds them there again; calls the one that fuzzes, which may wait
/// for that, and lends it memory, which is its own again afterwards.
#[inline(never)]
pub(crate) fn observer(busy: u64) {
    let fuzzer = Peer::new(2);
    let (mut lent, mut before) = ([0; LENT], [0; LENT]);
    for round in 0_u64.. {
        rest(busy);
        let word = |at: usize| (round ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let expected: [u64; 46] = core::array::from_fn(word);
        let mut registers = expected;
        for (at, seen) in SEEN.iter().enumerate() {
            seen.store(word(at), Relaxed);
        }
        // SAFETY: it keeps what a function has to keep.
        unsafe { takt_fuzz_hold(&mut registers) };
        if registers != expected {
            exit(1);
        }
        if (SEEN.iter().enumerate()).any(|(at, seen)| seen.load(Relaxed) != word(at)) {
            exit(2);
        }
        if lent != before {
            exit(3);
        }
        if fuzzer.renew().is_ok() {
            let message = expected[..6].try_into().unwrap_or_default();
            let question = round.to_le_bytes();
            let leases = [
                Lease::read(&question),
                Lease::write(&mut lent[WRITABLE]),
                Lease::read(&before),
            ];
            let deadline = Instant::after(Nanos::new(3_000 + word(0) % 4_000));
            match fuzzer.call_lending(message, leases, deadline) {
                Ok(_) | Err(Error::TimedOut | Error::Dead | Error::Stale) => {}
                Err(error) => exit(100 + error as u64),
            }
            let is_kept = |part: &[u8]| part.iter().all(|it| *it == 0);
            if !is_kept(&lent[..WRITABLE.start]) || !is_kept(&lent[WRITABLE.end..]) {
                exit(4);
            }
            if core::hint::black_box(question) != round.to_le_bytes() {
                exit(5);
            }
            before = *core::hint::black_box(&lent);
        }
        match KEEPER.call([LOOK; 6]) {
            Ok(words) if words[0] != 0 => return,
            Ok(_) => {}
            Err(error) => exit(200 + error as u64),
        }
    }
}

/// Where the region of the one that fuzzes begins.
const OWN: u64 = 0x80_0060_0000;

/// A random number generator: xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    /// Something that may be a number, a handle, a time or an address.
    fn argument(&mut self) -> u64 {
        let near = self.below(17);
        let around = |at: u64| at.wrapping_add(near).wrapping_sub(8);
        match self.below(16) {
            0..5 => self.below(20),
            5 => self.next(),
            6 => 1 << self.below(64),
            7 => (1 << self.below(64)) - 1,
            8 => around(OWN),
            9 => around(OWN + (2 << 20)),
            10 => around(OWN + (2 << 20) - (self.below(4) << 12)),
            11 => around(0x100_0000 + (self.below(1024) << 12)),
            12 => around(1 << 47),
            13 => around(self.below(8) << 61),
            14 => Instant::after(Nanos::new(self.below(20_000))).nanos(),
            _ => Instant::NEVER.nanos(),
        }
    }
}

/// What gives a message.
const MESSAGES: [u64; 5] = [
    Call::CallLending as u64,
    Call::Call as u64,
    Call::CallUntil as u64,
    Call::Receive as u64,
    Call::ReplyAndReceive as u64,
];

/// Where `fs` begins, whatever becomes of it.
static FS: AtomicU64 = AtomicU64::new(0);

/// What others may write to.
static SCRATCH: [AtomicU64; 200] = [const { AtomicU64::new(0) }; 200];
const SCRATCH_SIZE: u64 = size_of_val(&SCRATCH) as u64;

fn scratch() -> u64 {
    SCRATCH.as_ptr().expose_provenance() as u64
}

/// Whether a part of these bytes is the task's own, and not meant to be written to.
fn harms_itself(at: u64, size: u64) -> bool {
    let end = at.saturating_add(size);
    let is_scratch = at >= scratch() && end <= scratch() + SCRATCH_SIZE;
    !is_scratch && end > OWN && at < OWN + (2 << 20)
}

/// Something that may be lent.
fn lending(random: &mut Random) -> Lending {
    let mut leases = [abi::Lease::NONE; MAX_LEASES];
    for lease in leases.iter_mut().take(random.below(5) as usize) {
        let (address, size) = match random.below(2) {
            0 => (random.argument(), random.argument() as u32),
            _ => (
                scratch() + random.below(40) - 8,
                random.below(SCRATCH_SIZE + 16) as u32,
            ),
        };
        let mut rights = random.below(4) as u32;
        if harms_itself(address, size.into()) {
            rights &= lease::READ;
        }
        if random.below(64) == 0 {
            rights = random.next() as u32 & !lease::WRITE;
        }
        *lease = abi::Lease {
            address,
            size,
            rights,
        };
    }
    Lending {
        deadline: Instant::after(Nanos::new(random.below(20_000))).nanos(),
        leases,
    }
}

/// Receives something, if there is anything, and does what can be done with leases.
fn borrow_at_random(random: &mut Random) {
    let _ = receive(0, Instant::after(Nanos::new(2_000)));
    for _ in 0..random.below(12) {
        let number = Call::LeaseRead as u64 + random.below(3);
        call(random, number);
    }
}

/// Calls something with anything.
fn call_any(random: &mut Random) {
    let number = match random.below(256) {
        0 => random.argument(),
        _ => random.below(Call::ALL.len() as u64),
    };
    call(random, number);
}

/// Calls this with anything; ends the task if what comes back cannot be.
fn call(random: &mut Random, number: u64) {
    const COPIES: [u64; 2] = [Call::LeaseRead as u64, Call::LeaseWrite as u64];
    let mut registers: [u64; 14] = core::array::from_fn(|_| random.argument());
    // These end the life; no one ends a sleep.
    if [Call::Exit as u64, Call::Panic as u64].contains(&number) && random.below(64) != 0 {
        return;
    }
    registers[0] = number;
    if number == Call::Exit as u64 {
        return;
    }
    if number == Call::SleepUntil as u64 {
        registers[4] = Instant::after(Nanos::new(random.below(20_000))).nanos();
    }
    // Nobody gives it.
    if number == Call::Take as u64 {
        registers[3] = Instant::after(Nanos::new(random.below(20_000))).nanos();
    }
    let list = lending(random);
    if number == Call::CallLending as u64 && random.below(4) != 0 {
        registers[3] = core::ptr::from_ref(&list).expose_provenance() as u64;
        registers[4] = random.below(2);
    }
    if COPIES.contains(&number) && random.below(4) != 0 {
        registers[3] = scratch() + random.below(16);
        registers[4] = random.below(4);
        registers[10] = random.below(20);
        registers[11] = random.below(LENT as u64 - 10);
    }
    // As much as can be lent.
    if number == Call::LeaseRead as u64 && harms_itself(registers[3], LENT as u64) {
        registers[3] = scratch();
    }
    let before = registers;
    let flags = 0x202 | [0, 0x400, 0x4_0000, 0x4000, 0x4_4400, 0x8d5][random.below(6) as usize];
    let stack = if random.below(4) == 0 {
        random.argument()
    } else {
        0
    };
    // SAFETY: it keeps what a function has to keep.
    unsafe { takt_fuzz_call(&mut registers, flags, stack) };
    let is_known = registers[0] == 0 || Error::from_number(registers[0]).is_some();
    // rdi, rsi, r8 to r10; rsi may say where `fs` begins.
    let is_fs = |at: usize| at == 4 && registers[at] == FS.load(Relaxed);
    let is_own = |at: usize| [0, before[at]].contains(&registers[at]) || is_fs(at);
    if !is_known || ![2, 4, 6, 7, 8].into_iter().all(is_own) {
        exit(3);
    }
    // rbx, rbp, r12 to r15: the message, or as they were.
    let is_kept = |at: usize| registers[at] == before[at];
    if !MESSAGES.contains(&number) && ![1, 5, 10, 11, 12, 13].into_iter().all(is_kept) {
        exit(4);
    }
}

/// Does something that mostly stops the task.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "each is a harm of its own"
)]
fn harm(random: &mut Random) {
    let (word, other, small) = (random.argument(), random.argument(), random.below(0x60));
    // What it does to itself, or where it goes on in itself, is nobody else's.
    if [word, other]
        .iter()
        .any(|it| (OWN - 8..OWN + (2 << 20) + 8).contains(it))
    {
        return;
    }
    // SAFETY: none: each stops the task, or leaves registers that only the kernel could mind.
    unsafe {
        match random.below(24) {
            0 => {
                (word as *const u8).read_volatile();
            }
            1 => (word as *mut u64).write_volatile(other),
            2 => asm!("jmp {}", in(reg) word),
            3 => asm!("mov ds, {:e}", in(reg) small),
            4 => asm!("mov es, {:e}", in(reg) small),
            5 => asm!("mov fs, {:e}", in(reg) small),
            6 => asm!("mov gs, {:e}", in(reg) small),
            7 => asm!("mov ss, {:e}", "nop", in(reg) small),
            8 => asm!("wrgsbase {}", in(reg) word),
            9 => asm!("wrfsbase {}", in(reg) word),
            10 => {
                let stub = (&raw const takt_fuzz_int) as u64 + 4 * (word & 255);
                asm!("call {}", in(reg) stub);
            }
            11 => {
                let far = [other, small];
                asm!(".byte 0x48, 0xff, 0x18", in("rax") &far); // call far
            }
            12 => {
                let far = [other, small];
                asm!(".byte 0x48, 0xff, 0x28", in("rax") &far); // jmp far
            }
            13 => asm!("sysenter"),
            14 => asm!("sysretq", in("rcx") word, in("r11") other),
            15 => {
                asm!("push {s}", "push {a}", "push {b}", "push {s}", "push {a}", "iretq", s = in(reg) small, a = in(reg) word, b = in(reg) other)
            }
            16 => {
                asm!("mov r12, rsp", "mov rsp, {}", "mov ecx, 3000", "2: dec ecx", "jnz 2b", "mov rsp, r12", in(reg) word, out("ecx") _, out("r12") _)
            }
            17 => asm!("mov rsp, {}", "ud2", in(reg) word),
            18 => {
                asm!("pushfq", "xor [rsp], {}", "popfq", "nop", "nop", "push 0x202", "popfq", in(reg) word & 0x24_4dd5)
            }
            19 => {
                asm!("fninit", "fldcw [{}]", "fldz", "fldz", "fdivp", "fwait", in(reg) &(word as u16))
            }
            20 => asm!("ldmxcsr [{}]", in(reg) &(word as u32)),
            21 => asm!("in al, dx", in("dx") word as u16, out("al") _),
            22 => {
                asm!("std", "wrgsbase {}", "mov ecx, 3000", "2: dec ecx", "jnz 2b", "cld", in(reg) small << 12, out("ecx") _)
            }
            _ => match word % 8 {
                0 => asm!("hlt"),
                1 => asm!("wrmsr", in("ecx") word as u32, in("eax") other as u32, in("edx") 0),
                2 => asm!("mov cr4, {}", in(reg) word),
                3 => asm!("lidt [{}]", in(reg) &[word, other]),
                4 => asm!("swapgs"),
                5 => asm!("clac"),
                6 => asm!("mov dr7, {}", in(reg) word),
                _ => asm!("invlpg [{}]", in(reg) word),
            },
        }
    }
}

/// Does as much as it can of one thing.
fn flood(random: &mut Random, burst: u64) {
    for number in 0..OPERATIONS {
        match burst % 6 {
            1 => {
                let _ = SERVER.renew();
                let _ = SERVER.call([5 + number % 8; 6]);
            }
            2 => {
                let peer = [SERVER, KEEPER][random.below(2) as usize];
                let _ = peer.notify(1 << random.below(24));
            }
            3 => log!("flood {number}"),
            4 => call(random, Call::Trace as u64),
            // In each of its lives.
            _ => harm(random),
        }
    }
}

/// Fuzzes, in one life after the other, each with numbers of its own. In bursts, five of six are floods.
#[inline(never)]
pub(crate) fn run(busy: u64) {
    FS.store(crate::fs_base(), Relaxed);
    let report = |nr| match KEEPER.call([REPORT, nr, 0, 0, 0, 0]) {
        Ok(words) => words,
        Err(error) => exit(100 + error as u64),
    };
    let mut told = report(0);
    let mut random = Random((told[1] << 20 | told[2]).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while told[0] == 0 {
        let mut nr = 0;
        let burst = rest(busy);
        if !burst.is_multiple_of(6) {
            flood(&mut random, burst);
            nr = OPERATIONS;
        }
        while nr < OPERATIONS {
            match random.below(512) {
                0 => {
                    // What it was about to report.
                    told = report(nr + 1);
                    nr = 0;
                    if told[0] != 0 {
                        break;
                    }
                    harm(&mut random);
                }
                1 => {
                    let _ = SERVER.renew();
                }
                2..32 => borrow_at_random(&mut random),
                _ => call_any(&mut random),
            }
            nr += 1;
        }
        told = report(nr);
    }
    while SERVER.renew().is_err() || SERVER.call([QUIT; 6]).is_err() {
        sleep_until(Instant::after(Nanos::new(10_000)));
    }
}

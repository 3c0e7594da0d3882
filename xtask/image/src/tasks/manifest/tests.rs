use super::*;

const GOOD: &str = "[[task]]\nname = \"a\"\npackage = \"p\"\npriority = 5\nstack = 4096\n\n\
                        [[task]]\nname = \"b\"\npackage = \"p\"\npriority = 4\nstack = 8192\nsupervisor = \"a\"\n\
                        peers = [{ task = \"a\", rights = [\"call\"], badge = 5 }]\n";

/// A good manifest in which `new` stands for `old` is refused in these words.
fn is_refused(good: &str, old: &str, new: &str, words: &str) {
    let bad = good.replace(old, new);
    assert_ne!(bad, good, "{old}");
    let error = Manifest::parse(Path::new("m"), &bad).unwrap_err();
    let said = format!("{error:#}");
    assert!(said.contains(words), "`{new}` gave: {said}");
}

#[test]
fn a_manifest_is_read() {
    let manifest = Manifest::parse(Path::new("m"), GOOD).unwrap();
    assert_eq!(manifest.number("b"), Some(1));
    assert_eq!(manifest.tasks[1].peers[0].rights, [Right::Call]);
    assert_eq!(manifest.nr_cpus(), 1);
    let other = GOOD.replace("priority = 4", "priority = 4\ncpu = 2");
    let manifest = Manifest::parse(Path::new("m"), &other).unwrap();
    assert_eq!((manifest.tasks[0].cpu, manifest.nr_cpus()), (0, 3));
}

#[test]
fn a_budget_has_its_period() {
    let with = |keys: &str| {
        GOOD.replace(
            "supervisor = \"a\"\n",
            &format!("supervisor = \"a\"\n{keys}"),
        )
    };
    let whole =
        with("budget_us = 200\nperiod_us = 1000\noverrun = \"fault\"\noverrun_notification = 6\n");
    let manifest = Manifest::parse(Path::new("m"), &whole).unwrap();
    assert_eq!(manifest.tasks[0].budget(), None);
    assert_eq!(manifest.tasks[1].budget(), Some((200, 1000)));
    assert_eq!(manifest.tasks[1].overrun, Some(Overrun::Fault));
    is_refused(
        &whole,
        "overrun = \"fault\"",
        "watchdog_us = 0",
        "line 15: a watchdog waits",
    );
    let fed = whole.replace("priority = 5", "priority = 5\nmachine_watchdog_ms = 9");
    assert_eq!(
        Manifest::parse(Path::new("m"), &fed).unwrap().feeder(),
        Some((0, 9))
    );
    is_refused(
        &fed,
        "overrun = \"fault\"",
        "machine_watchdog_ms = 10",
        "line 16: another task feeds",
    );
    for (old, new, words) in [
        (
            "budget_us = 200",
            "budget_us = 0",
            "line 13: a budget is a microsecond at least, and its period at most",
        ),
        (
            "budget_us = 200",
            "budget_us = 1001",
            "line 13: a budget is",
        ),
        (
            "budget_us = 200\n",
            "",
            "line 13: a budget has budget_us and period_us",
        ),
        (
            "period_us = 1000\n",
            "",
            "line 13: a budget has budget_us and period_us",
        ),
        (
            "period_us = 1000",
            "period_us = 3600000001",
            "line 14: a period lasts",
        ),
        ("\"fault\"", "\"stop\"", "unknown variant `stop`"),
        (
            "notification = 6",
            "notification = 0",
            "line 16: a notification has bits below bit 30",
        ),
        (
            "notification = 6",
            "notification = 0x40000000",
            "line 16: a notification has bits below bit 30",
        ),
        (
            "supervisor = \"a\"\n",
            "",
            "line 15: there is no supervisor to notify",
        ),
    ] {
        is_refused(&whole, old, new, words);
    }
}

/// Behind the tasks, from line 14 on.
const DEVICES: &str = "[[device]]\nname = \"c\"\ntask = \"a\"\nports = [{ first = 0x2f8, count = 8 }]\n\
                           interrupt = { isa = 3, notification = 1 }\n\n\
                           [[device]]\nname = \"d\"\ntask = \"b\"\nports = [{ first = 0x2e8, count = 8 }]\n\
                           interrupt = { pin = 16, notification = 1 }\n";

/// Behind the tasks, from line 14 on.
const MEMORY: &str = "[[device]]\nname = \"c\"\ntask = \"a\"\ndma = \"none\"\n\
                          memory = [{ first = 0xfed40000, size = 0x2000 }]\n\n\
                          [[device]]\nname = \"d\"\ntask = \"b\"\ndma = \"trusted\"\n\
                          memory = [{ first = 0xfed50000, size = 0x1000 }]\n\n\
                          [[region]]\nname = \"e\"\nsize = 8192\ntasks = [{ task = \"a\", access = \"write\" }, \
                          { task = \"b\", access = \"read\" }]\n";

#[test]
fn errors_about_memory_name_the_line() {
    let good = GOOD.to_owned() + MEMORY;
    let manifest = Manifest::parse(Path::new("m"), &good).unwrap();
    let given: Vec<_> = manifest.given(&manifest.tasks[1]).collect();
    let end = base(1) + REGION as u64;
    let region = end - 8192 - 4096 - 8192;
    let device = region - 4096 - 4096;
    let expected = [
        ("region_e", region),
        ("size_region_e", 8192),
        ("memory_d_0", device),
        ("size_memory_d_0", 4096),
    ];
    assert_eq!(
        given,
        expected.map(|(name, value)| (format!("takt_{name}"), value))
    );
    for (old, new, words) in [
        (
            "0xfed50000, size",
            "0xfed41000, size",
            "line 24: the memory at 0xfed41000 is memory of `c`",
        ),
        (
            "0xfed50000, size = 0x1000",
            "0xfed3f000, size = 0x2000",
            "line 24: the memory at 0xfed40000 is memory of `c`",
        ),
        (
            "0xfed50000, size = 0x1000",
            "0xfed3f000, size = 0x1001",
            "line 24: a device's memory is whole pages",
        ),
        (
            "0xfed50000",
            "0xfed50800",
            "line 24: a device's memory is whole pages",
        ),
        (
            "0xfed50000, size = 0x1000",
            "0xfed50000, size = 0",
            "line 24: no memory",
        ),
        (
            "0xfed50000",
            "0xfee00000",
            "line 24: the memory from 0xfee00000 on is the local APICs'",
        ),
        (
            "0xfed50000",
            "0xfec00000",
            "line 24: the memory from 0xfec00000 on is the I/O APICs'",
        ),
        (
            "0xfed50000",
            "0x1000000",
            "line 24: the memory from 0x1000000 on is the machine's",
        ),
        (
            "0xfed50000",
            "0xbffff000",
            "line 24: the memory from 0xbffff000 on is the machine's",
        ),
        (
            "0xfed50000",
            "0x100000000",
            "line 24: the memory from 0x100000000 on is beyond",
        ),
        (
            "dma = \"trusted\"\n",
            "",
            "line 21: `d` may be able to write to any memory",
        ),
        (
            "size = 8192\ntasks",
            "size = 8193\ntasks",
            "line 28: a region is whole pages",
        ),
        (
            "size = 8192\ntasks",
            "size = 0\ntasks",
            "line 28: a region is whole pages",
        ),
        (
            "size = 8192\ntasks",
            "size = 0x200000\ntasks",
            "line 2: its stack, regions and devices have no room",
        ),
        (
            "name = \"e\"",
            "name = \"e-e\"",
            "line 27: `e-e` is no name",
        ),
        (
            "task = \"b\", access",
            "task = \"z\", access",
            "line 29: there is no task `z`",
        ),
        (
            "task = \"b\", access",
            "task = \"a\", access",
            "line 29: `a` has it twice",
        ),
        ("\"read\"", "\"execute\"", "line 29"),
    ] {
        is_refused(&good, old, new, words);
    }
}

#[test]
fn errors_about_devices_name_the_line() {
    let good = GOOD.to_owned() + DEVICES;
    let manifest = Manifest::parse(Path::new("m"), &good).unwrap();
    let all: Vec<_> = manifest.devices_of(&manifest.tasks[1]).collect();
    assert_eq!(all[0].ports[0].range(), 0x2e8..0x2f0);
    for (old, new, words) in [
        (
            "task = \"b\"\np",
            "task = \"z\"\np",
            "line 22: there is no task `z`",
        ),
        (
            "name = \"d\"",
            "name = \"c\"",
            "line 21: there are two devices",
        ),
        (
            "name = \"d\"",
            "name = \"d-d\"",
            "line 21: `d-d` is no name",
        ),
        // Where the other one's begin and end.
        (
            "0x2e8, count = 8",
            "0x2e8, count = 17",
            "line 23: port 0x2f8 is a port of `c`",
        ),
        (
            "0x2e8, count = 8",
            "0x2ff, count = 1",
            "line 23: port 0x2ff is a port of `c`",
        ),
        (
            "0x2f8, count = 8 }",
            "0x2f8, count = 8 }, { first = 0x2ff, count = 1 }",
            "line 17: port 0x2ff",
        ),
        ("0x2e8, count = 8", "0x2e8, count = 0", "line 23: no ports"),
        (
            "0x2e8, count = 8",
            "0xffff, count = 2",
            "line 23: there are ports up to",
        ),
        (
            "0x2e8, count = 8",
            "0xcff, count = 1",
            "line 23: the ports 0xcf8 to 0xcff are those of PCI's",
        ),
        (
            "0x2e8, count = 8",
            "0x1f, count = 1",
            "line 23: the ports 0x0 to 0x1f are a DMA",
        ),
        (
            "0x2e8, count = 8",
            "0x100, count = 0x300",
            "line 23: the ports 0x3b0 to",
        ),
        (
            "0x2e8, count = 8",
            "0x3ff, count = 1",
            "line 23: the ports 0x3f8 to 0x3ff are COM1's",
        ),
        ("0x2e8, count = 8", "-1, count = 1", "line 23"),
        ("pin = 16", "isa = 3", "line 24: it is the interrupt of `c`"),
        (
            "pin = 16",
            "isa = 0",
            "line 24: the interrupt 0 is the interval timer's",
        ),
        (
            "pin = 16",
            "pin = 8",
            "line 24: the interrupt 8 is the clock's",
        ),
        ("pin = 16", "isa = 16", "line 24: ISA's interrupts go to 15"),
        ("pin = 16, ", "", "line 24: an interrupt has `isa` or `pin`"),
        ("pin = 16", "pin = 16, isa = 5", "line 24: an interrupt has"),
        (
            "16, notification = 1",
            "16, notification = 3",
            "line 24: a notification is one bit",
        ),
        (
            "16, notification = 1",
            "16, notification = 0x40000000",
            "line 24: a notification is one bit",
        ),
        (
            "task = \"b\"\np",
            "task = \"a\"\np",
            "line 24: the notification is that of `c`",
        ),
    ] {
        is_refused(&good, old, new, words);
    }
}

#[test]
fn errors_name_the_line() {
    for (old, new, words) in [
        ("name = \"b\"", "name = \"a\"", "line 8: there are two"),
        ("priority = 4", "priority = 100", "line 10: priorities"),
        ("priority = 4", "priority = 1000", "line 10"),
        ("stack = 8192", "stack = 8000", "line 11: a stack"),
        ("stack = 8192", "stack = 8192\ncpu = 8", "line 12: CPUs"),
        (
            "supervisor = \"a\"",
            "supervisor = \"c\"",
            "line 12: there is no task `c`",
        ),
        (
            "supervisor = \"a\"",
            "supervisor = \"b\"",
            "line 12: `b` is the task itself",
        ),
        (
            "task = \"a\"",
            "task = \"c\"",
            "line 13: there is no task `c`",
        ),
        ("[\"call\"]", "[]", "line 13: the handle"),
        ("[\"call\"]", "[\"kill\"]", "line 13"),
        ("stack = 8192", "stacks = 8192", "line 11"),
        ("stack = 8192", "stack 8192", "line 11"),
        (
            "[[task]]\nname = \"a\"",
            "until = \"c\"\n[[task]]\nname = \"a\"",
            "line 1: there is no task `c`",
        ),
    ] {
        is_refused(GOOD, old, new, words);
    }
}

#[test]
fn calls_are_ordered() {
    let line = |peers: &str| {
        GOOD.replace(
            "stack = 4096",
            &format!("stack = 4096\npeers = [{{ {peers} }}]"),
        )
    };
    let back = line("task = \"b\", rights = [\"call\"]");
    for (good, old, new, words) in [
        (
            GOOD,
            "priority = 5",
            "priority = 4",
            "line 13: `b`, of priority 4, calls `a`, of priority 4: calls go to higher priorities, but for those of peers with \
             `unordered = true`",
        ),
        (
            &back,
            "badge = 5",
            "badge = 6",
            "line 6: calls go in a circle, from `a` by `b` (line 14): take one away, or say `unordered = true` of it, and whoever \
             closes the circle gets `Deadlock`",
        ),
        // No circle then, but not in order.
        (
            &back,
            "badge = 5",
            "unordered = true",
            "line 6: `a`, of priority 5, calls `b`, of priority 4",
        ),
    ] {
        is_refused(good, old, new, words);
    }
    let is_good = |text: &str| Manifest::parse(Path::new("m"), text).map(|_| ()).unwrap();
    // The one that goes against the order is said to do so; notifications wait for nobody.
    is_good(&line("task = \"b\", rights = [\"call\"], unordered = true"));
    is_good(&line("task = \"b\", rights = [\"notify\"]"));
    // By a further thread, and over several.
    let long = format!(
        "{back}\n[[thread]]\nname = \"c\"\ntask = \"b\"\npriority = 9\nstack = 4096\npeers = [{{ task = \"a\", rights = [\"call\"] }}]\n"
    );
    let long = long.replace(
        "{ task = \"a\", rights = [\"call\"], badge = 5 }",
        "{ task = \"c\", rights = [\"call\"] }",
    );
    is_refused(
        &long,
        "priority = 9",
        "priority = 8",
        "line 6: calls go in a circle, from `a` by `b` (line 14) and `c` (line 21)",
    );
}

#[test]
fn chains_of_calls_are_short() {
    /// Tasks of which each but the last has these lines more, of the next one's number.
    fn tasks(nr: usize, of_each: impl Fn(usize) -> String) -> String {
        let task = |it: usize| {
            let own = if it + 1 < nr {
                of_each(it + 1)
            } else {
                String::new()
            };
            format!(
                "[[task]]\nname = \"t{it}\"\npackage = \"p\"\npriority = {it}\nstack = 4096\n{own}\n"
            )
        };
        (0..nr).map(task).collect()
    }
    let called = |next: usize| format!("peers = [{{ task = \"t{next}\", rights = [\"call\"] }}]\n");
    let supervised = |next: usize| match next % 2 {
        0 => called(next),
        _ => format!("supervisor = \"t{next}\"\n"),
    };
    // Each calls the one before as well.
    let circles = |next: usize| {
        let back = format!(
            "{{ task = \"t{}\", rights = [\"call\"], unordered = true }}",
            next.saturating_sub(2)
        );
        let on = format!("{{ task = \"t{next}\", rights = [\"call\"] }}");
        match next {
            1 => format!("peers = [{on}]\n"),
            _ => format!("peers = [{on}, {back}]\n"),
        }
    };
    let is_read = |text: String| {
        Manifest::parse(Path::new("m"), &text)
            .map(|_| ())
            .map_err(|it| format!("{it:#}"))
    };
    let refused = |nr: usize| {
        format!("line 2: `t0` can come to wait for {nr} others, each for the next: 16 is the most")
    };
    for nr in [17, 18] {
        for text in [tasks(nr, called), tasks(nr, supervised), tasks(nr, circles)] {
            let read = is_read(text);
            assert_eq!(read.is_ok(), nr == 17, "{read:?}");
            if let Err(said) = read {
                assert!(said.contains(&refused(nr - 1)), "{said}");
            }
        }
    }
}

#[test]
fn further_threads_stand_behind_the_tasks() {
    const THREADS: &str = "\n[[thread]]\nname = \"c\"\ntask = \"b\"\npriority = 9\nstack = 4096\nargument = 7\n\n\
                           [[thread]]\nname = \"d\"\ntask = \"b\"\npriority = 8\nstack = 12288\nwatchdog_us = 5\n\
                           peers = [{ task = \"c\", rights = [\"notify\"] }]\n";
    let good = format!(
        "{}{THREADS}",
        GOOD.replace("priority = 4", "priority = 4\ncpu = 1")
    );
    let manifest = Manifest::parse(Path::new("m"), &good).unwrap();
    let of = |number: usize| {
        let task = &manifest.tasks[number];
        (task.thread_of, task.cpu, task.supervisor.as_deref())
    };
    assert_eq!(
        [of(1), of(2), of(3)],
        [
            (None, 1, Some("a")),
            (Some(1), 1, Some("a")),
            (Some(1), 1, Some("a")),
        ]
    );
    assert_eq!(manifest.threads(1), [2, 3]);
    assert!(manifest.threads(0).is_empty() && manifest.threads(2).is_empty());
    // Each stack has a page below it that is not mapped.
    let top = base(1) + REGION as u64;
    let tops = [1, 2, 3].map(|it| top - manifest.stack_top(it));
    assert_eq!(tops, [0, 3 * PAGE, 5 * PAGE]);
    for (old, new, words) in [
        (
            "task = \"b\"\npriority = 9",
            "task = \"x\"\npriority = 9",
            "line 18: there is no task `x`",
        ),
        (
            "task = \"b\"\npriority = 8",
            "task = \"c\"\npriority = 8",
            "line 25: there is no task `c`",
        ),
        (
            "name = \"d\"",
            "name = \"a\"",
            "line 24: there are two tasks named `a`",
        ),
        (
            "name = \"d\"",
            "name = \"2d\"",
            "line 24: a thread's name begins with a letter",
        ),
        (
            "stack = 12288",
            "stack = 12287",
            "line 27: a stack has whole pages",
        ),
        (
            "stack = 12288",
            "stack = 2097152",
            "have no room in its 2 MiB",
        ),
        (
            "stack = 12288",
            "stack = 12288\npackage = \"p\"",
            "unknown field `package`",
        ),
        ("watchdog_us = 5", "watchdog_us = 0", "line 28: a watchdog"),
        (
            "task = \"c\", rights",
            "task = \"d\", rights",
            "`d` is the task itself",
        ),
        (
            "supervisor = \"a\"",
            "supervisor = \"c\"",
            "its own thread cannot be told",
        ),
    ] {
        is_refused(&good, old, new, words);
    }
}

#[test]
fn semaphores_are_given_by_name() {
    let good = format!(
        "{GOOD}semaphores = [{{ name = \"s\", rights = [\"take\"] }}, {{ name = \"t\", rights = [\"give\", \"take\"] }}]\n\n\
         [[semaphore]]\nname = \"s\"\ninitial = 1\nmaximum = 2\n\n[[semaphore]]\nname = \"t\"\nmaximum = 1\n"
    );
    let manifest = Manifest::parse(Path::new("m"), &good).unwrap();
    let granted = &manifest.tasks[1].semaphores;
    assert_eq!(
        (&*granted[0].name, &granted[1].rights[..]),
        ("s", &[SemaphoreRight::Give, SemaphoreRight::Take][..])
    );
    assert!(manifest.tasks[0].semaphores.is_empty());
    for (old, new, words) in [
        (
            "name = \"s\", rights",
            "name = \"u\", rights",
            "line 14: there is no semaphore `u`",
        ),
        (
            "name = \"t\", rights",
            "name = \"s\", rights",
            "line 14: it has `s` twice",
        ),
        (
            "rights = [\"take\"]",
            "rights = []",
            "line 14: the handle of `s` allows nothing",
        ),
        (
            "rights = [\"take\"]",
            "rights = [\"call\"]",
            "unknown variant `call`",
        ),
        (
            "initial = 1",
            "initial = 3",
            "line 18: a semaphore begins with 2",
        ),
        (
            "maximum = 2",
            "maximum = 0",
            "line 19: a semaphore has from one permit",
        ),
        (
            "maximum = 1",
            "maximum = 2147483648",
            "line 23: a semaphore has from one permit",
        ),
        (
            "name = \"t\"\nmaximum",
            "name = \"s\"\nmaximum",
            "line 22: there are two semaphores",
        ),
        (
            "name = \"t\"\nmaximum",
            "name = \"t t\"\nmaximum",
            "line 22: `t t` is no name",
        ),
        (
            "name = \"t\"\nmaximum",
            "name = \"t\"\ncount = 1\nmaximum",
            "line 23: unknown field",
        ),
    ] {
        is_refused(&good, old, new, words);
    }
    let many: String = (0..17)
        .map(|it| format!("{{ name = \"s{it}\", rights = [\"take\"] }}, "))
        .collect();
    is_refused(
        &good,
        "{ name = \"t\", rights = [\"give\", \"take\"] }",
        &many,
        "line 14: more than 16 semaphores",
    );
}

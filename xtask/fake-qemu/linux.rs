//! The Linux that is played: writes its console and an archive of results, and ends as `FAKE_LINUX` says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

/// What of QEMU's command line the play needs.
struct Arguments {
    console: PathBuf,
    results: PathBuf,
    loops: u64,
}

impl Arguments {
    fn parse(args: &[String]) -> Self {
        let path = |id: &str| {
            let mark = format!("file,id={id},path=");
            let found = args.iter().find_map(|arg| arg.strip_prefix(&mark));
            PathBuf::from(found.unwrap_or_else(|| panic!("no {mark}")))
        };
        let loops = args
            .iter()
            .flat_map(|arg| arg.split(' '))
            .find_map(|word| word.strip_prefix("TAKT_LOOPS="));
        Self {
            console: path("con"),
            results: path("res"),
            loops: loops.expect("TAKT_LOOPS").parse().expect("a number"),
        }
    }

    fn say(&self, text: &str) {
        let before = fs::read_to_string(&self.console).unwrap_or_default();
        fs::write(&self.console, before + text).expect("the console");
    }
}

/// Plays a scenario to its end. As the real one, it ends with exit code 0 whatever happens.
pub(crate) fn play(args: &[String]) -> ExitCode {
    let scenario = std::env::var("FAKE_LINUX").unwrap_or_else(|_| "pass".into());
    let arguments = Arguments::parse(args);
    arguments.say(
        "[    0.000000] Linux version 6.1.0-fake (a test) #1 SMP PREEMPT_RT Debian 6.1.0-1\r\n\
         [    1.700000] takt: init runs on 6.1.0-fake\r\n\
         [    1.800000] takt: timerlat begins\r\n",
    );
    match &*scenario {
        "panic" => {
            arguments.say("[    1.900000] Kernel panic - not syncing: Attempted to kill init!\r\n");
            return ExitCode::SUCCESS;
        }
        "gives-up" => {
            arguments.say("[    1.900000] takt: failed: timerlat does not start\r\n");
            return ExitCode::SUCCESS;
        }
        "dies" => return ExitCode::SUCCESS,
        "hang" => sleep(Duration::from_secs(120)),
        _ => {}
    }
    send_results(&arguments, &scenario);
    arguments.say("[    9.000000] takt: done\r\n");
    ExitCode::SUCCESS
}

fn send_results(arguments: &Arguments, scenario: &str) {
    let dir = arguments.results.with_extension("files");
    fs::create_dir_all(&dir).expect("a folder");
    let (irq, thread) = match scenario {
        // Ours are 7 to 9 and 78 to 90.
        "fast" => (85, 4000),
        _ => (700, 4000),
    };
    let nr = match scenario {
        "missing" => arguments.loops - 1,
        _ => arguments.loops,
    };
    let mut trace = "# tracer: timerlat\n".to_owned();
    for seq in 1..=nr {
        trace += &format!(
            "<idle>-0 [000] d..h1.. 1.780956: #{seq} context    irq timer_latency {irq} ns\n\
             <...>-123 [000] ....... 1.780959: #{seq} context thread timer_latency {thread} ns\n"
        );
    }
    let lost = u32::from(scenario == "lost") * 3;
    let stats = format!(
        "entries: {}\noverrun: {lost}\ncommit overrun: 0\ndropped events: 0\n",
        2 * nr
    );
    let n = arguments.loops;
    let cyclictest = format!(
        "# Histogram\n003700 {n:06}\n# Total: {n:09}\n# Min Latencies: 03700\n# Avg Latencies: 03700\n\
         # Max Latencies: 03700\n# Histogram Overflows: 00000\n"
    );
    let priority = match scenario {
        "priority" => "0 0\n",
        _ => "95 1\n",
    };
    for (name, text) in [
        ("timerlat-trace.txt", &*trace),
        ("timerlat-stats.txt", &stats),
        ("cyclictest.txt", &cyclictest),
        ("priority.txt", priority),
    ] {
        fs::write(dir.join(name), text).expect("a file of results");
    }
    pack(&dir, &arguments.results);
    fs::remove_dir_all(&dir).expect("the folder");
    if scenario == "damaged" {
        let mut bytes = fs::read(&arguments.results).expect("the results");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&arguments.results, bytes).expect("the results");
    }
}

fn pack(dir: &Path, target: &Path) {
    let status = Command::new("tar")
        .arg("-czf")
        .arg(target)
        .arg("-C")
        .args([dir, Path::new(".")])
        .status()
        .expect("tar");
    assert!(status.success());
}

//! End to end: what a user types, with the real image, and what comes of it. `cargo xtask test` builds and calls it: with
//! `install` if missing programs may be installed, and with what names of tests have in them. It says on stdout how each ended,
//! as a line of JSON.
#![forbid(unsafe_code)]

#[macro_use(tell)]
extern crate takt_base;

mod action;
mod activation;
mod analysis;
mod attach;
mod boot_functions;
mod bounds;
mod browser;
mod console;
mod document;
mod documents;
mod drivers;
mod early;
mod ends;
mod faults;
mod ftrace_document;
mod functions;
mod history;
mod hits;
mod lacking;
mod lean;
mod linux_rt;
mod media;
mod new;
mod new_c;
mod notrace;
mod osnoise;
mod report;
mod responses;
mod runs;
mod small;
mod stage;
mod stretches;
mod sweep;
mod tasks;
mod tracefs;
mod tracefs_functions;
mod tracefs_icount;
mod tracefs_pipe;
mod tracefs_rules;
mod tracefs_shell;
mod traces;
mod user;
mod verify;
mod viewers;

use std::env;
use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use stage::{Done, FIRST, Stage};

use takt_base::{output, spread};

type Check = fn(&Stage) -> Result<()>;

/// The tests, in the order of their beginning: the longest first, and next to each other those that do not wait for the same
/// lock of cargo's or of apt's. Each has a stage of its own, all look at the same first run.
const TESTS: &[(&str, Check)] = &[
    ("new_runs_and_is_tested", new::runs_and_is_tested),
    (
        "new_c_runs_and_is_told_errors",
        new_c::runs_and_is_told_errors,
    ),
    ("compare_linux_rt", linux_rt::beside_takt),
    ("sweep_of_loads", sweep::sweeps_loads),
    ("documents_are_typed", documents::are_typed),
    ("smallest_image_and_its_parts", small::smallest_and_parts),
    ("report_in_a_browser", report::in_a_browser),
    ("tasks_of_a_manifest", tasks::of_a_manifest),
    ("verify_every_load", verify::every_load),
    ("new_from_git_runs", new::from_git_runs),
    ("media_flash_and_kexec", media::flash_and_kexec),
    ("new_with_tasks_runs", new::with_tasks_runs),
    ("tasks_are_stopped_alone", tasks::are_stopped_alone),
    ("user_tasks_of_a_manifest", user::tasks_of_a_manifest),
    ("tasks_that_feed_the_machine", tasks::that_feed_the_machine),
    ("attach_in_labgrid", attach::in_labgrid),
    ("run_records_own_events", ends::own_events_are_recorded),
    ("user_cyclictest", user::cyclictest),
    ("sweep_finds_what_is_planted", sweep::finds_what_is_planted),
    ("exact_range_is_a_capacity", runs::exact_range_is_a_capacity),
    ("two_runs_are_identical", runs::two_runs_are_identical),
    (
        "identical_with_every_event_under_load",
        runs::identical_under_load,
    ),
    (
        "two_runs_on_two_cpus_are_identical",
        runs::identical_on_two_cpus,
    ),
    (
        "irqs_are_disabled_and_enabled_in_turn",
        traces::irqs_off_in_turn,
    ),
    ("chrome_slices_nest", traces::chrome_slices_nest),
    ("cut_says_what_is_missing", traces::cut_says_what_is_missing),
    ("flamegraph_adds_up", traces::flamegraph_adds_up),
    ("trace_cmd_agrees_with_the_text", viewers::trace_cmd_agrees),
    (
        "babeltrace2_agrees_with_the_text",
        viewers::babeltrace2_agrees,
    ),
    (
        "perfettos_schema_agrees_with_the_text",
        viewers::perfetto_agrees,
    ),
    ("priorities_are_ftraces", traces::priorities_are_ftraces),
    ("every_halt_ends_in_time", runs::every_halt_ends_in_time),
    ("activation_adds_up", |stage| {
        activation::adds_up(&stage.first()?)
    }),
    ("irq_threshold_exits_2", runs::irq_threshold),
    ("thread_threshold_exits_2", runs::thread_threshold),
    ("auto_analysis_adds_up", analysis::adds_up),
    ("latency_is_below_its_bound", analysis::bound_holds),
    (
        "auto_analysis_names_the_section",
        analysis::names_the_section,
    ),
    (
        "auto_analysis_names_what_is_planted",
        analysis::names_what_is_planted,
    ),
    (
        "auto_analysis_names_a_lock_of_another_cpu",
        analysis::names_a_lock_of_another_cpu,
    ),
    ("lost_events_taint", runs::lost_events_taint),
    ("report_from_an_earlier_run", runs::report_from_folder),
    ("json_schema", runs::json_schema),
    ("log_is_decoded", runs::log_is_decoded),
    ("run_reports_a_panic_whole", ends::panic_is_reported_whole),
    ("tasks_that_log_are_read", tasks::that_log_are_read),
    ("tasks_that_trace_are_read", tasks::that_trace_are_read),
    ("tasks_that_spin_are_named", tasks::that_spin_are_named),
    ("user_latencies", user::latencies),
    ("run_refuses_a_gate_that_is_missing", ends::gate_is_needed),
    ("run_says_where_it_timed_out", ends::time_out_says_where),
    ("run_counts_a_flood", ends::flood_is_counted),
    ("loggers_do_not_mix", ends::loggers_do_not_mix),
    ("run_prints_what_is_printable", ends::log_is_printable),
    ("run_has_a_console", console::is_typed_to),
    ("run_is_kept_after_ctrl_c", ends::ctrl_c_keeps_the_run),
    (
        "run_ends_with_a_tool_that_is_killed",
        ends::killed_tool_ends_the_guest,
    ),
    (
        "run_into_what_cannot_be_written",
        ends::output_that_cannot_be_written,
    ),
    ("drivers_examples", drivers::examples),
    ("drivers_keep_two_registers", drivers::keep_two_registers),
    ("drivers_watchdogs_reset", drivers::watchdogs_reset),
    ("drivers_echo", drivers::echo),
    ("cyclictest", runs::cyclictest),
    (
        "missed_activations_are_counted_and_skipped",
        runs::missed_activations,
    ),
    ("every_load", runs::every_load),
    ("no_timer_is_early_under_load", early::under_every_load),
    ("verify_agrees_with_analysis", verify::agrees_with_analysis),
    ("verify_finds_what_is_planted", verify::planted_error),
    ("verify_refuses_what_it_cannot", verify::refused),
    (
        "responses_are_below_their_bounds",
        responses::are_below_their_bounds,
    ),
    ("bounds_are_of_what_is_known", bounds::of_what_is_known),
    (
        "bounds_find_a_planted_instruction",
        bounds::planted_instruction,
    ),
    ("boot_words_are_linuxs", tracefs::boot_words),
    ("boot_words_name_functions", boot_functions::by_name),
    ("tracefs_shell", tracefs::shell),
    ("tracefs_under_icount", tracefs_icount::passes_by_command),
    ("large_latencies_are_exact", runs::large_latencies_are_exact),
    ("missed_are_counted", runs::missed_are_counted),
    (
        "tracefs_names_of_interrupts",
        tracefs_icount::names_of_interrupts,
    ),
    (
        "measurement_goes_on_behind_a_threshold",
        hits::measurement_goes_on,
    ),
    (
        "tracefs_histograms_under_icount",
        tracefs_icount::histograms,
    ),
    ("tracefs_rules_under_icount", tracefs_icount::rules),
    ("tracefs_commands_of_functions", tracefs_functions::commands),
    (
        "tracefs_shell_pipes_and_paths",
        tracefs_shell::pipes_and_paths,
    ),
    (
        "tracefs_pipe_counts_what_it_misses",
        tracefs_pipe::counts_what_it_misses,
    ),
    (
        "tracefs_pipe_forgets_what_was_cleared",
        tracefs_pipe::forgets_what_was_cleared,
    ),
    (
        "function_profiler_and_stack_tracer",
        tracefs_functions::profiler_and_stack_tracer,
    ),
    (
        "functions_of_the_control_thread",
        tracefs_functions::control_thread_left_out,
    ),
    ("one_cpu_executes_no_lock_prefix", lean::no_locks),
    ("a_switch_leaves_mxcsr_alone", lean::no_mxcsr),
    ("the_tracer_is_not_traced", notrace::by_the_code),
    ("functions_with_stacks_and_filters", notrace::by_a_session),
    ("func_stack_trace", tracefs_functions::func_stack_trace),
    (
        "functions_beside_latency_tracers",
        tracefs_functions::beside_latency_tracers,
    ),
    ("a_reader_changes_nothing", tracefs::reader_changes_nothing),
    ("tracefs_attaches_and_controls", tracefs::attach_and_control),
    ("tracefs_mount", tracefs::mount),
    ("ftrace_document_in_the_shell", ftrace_document::shell),
    ("ftrace_document_on_a_mount", ftrace_document::mount),
    ("latency_format_of_a_maximum", stretches::of_a_maximum),
    ("stretches_begin_as_recorded", stretches::begin_as_recorded),
    ("functions_by_name", functions::function),
    ("function_graph_nests", functions::graph),
    ("timerlat_document", osnoise::timerlat_document),
    ("osnoise_panics_on_stop", osnoise::panic_on_stop),
    ("noises_are_net", osnoise::noises_are_net),
    ("osnoise_top_and_hist", osnoise::osnoise),
    ("tracefs_filters", tracefs_rules::filters),
    (
        "tracefs_filter_on_a_later_name",
        tracefs_rules::filter_on_a_later_name,
    ),
    ("tracefs_triggers", tracefs_rules::triggers),
    (
        "tracefs_stacks_behind_switches",
        tracefs_rules::stacks_behind_switches,
    ),
    (
        "tracefs_snapshots_behind_switches",
        tracefs_rules::snapshots_behind_switches,
    ),
    ("tracefs_histograms", tracefs_rules::histograms),
    (
        "tracefs_histograms_beside",
        tracefs_rules::histograms_beside,
    ),
    (
        "sweep_entries_take_no_arguments",
        sweep::entries_take_no_arguments,
    ),
    ("sweep_resumes_and_merges", sweep::resumes_and_merges),
    (
        "sweep_refuses_what_was_changed",
        sweep::refuses_what_was_changed,
    ),
    ("sweep_says_what_it_swept", sweep::says_what_it_swept),
    (
        "sweep_finds_what_samples_miss",
        sweep::finds_what_samples_miss,
    ),
    ("history_of_runs", history::of_runs),
    ("media_boot_to_the_end", media::boot_to_the_end),
    ("media_end_by_serial", media::end_by_serial),
    ("media_end_by_keyboard", media::end_by_keyboard),
    ("media_boot_over_the_network", media::boot_over_the_network),
    ("media_attach", media::attach_to_it),
    ("media_image_without_room", media::image_without_room),
    ("attach_over_a_pty", attach::over_a_pty),
    ("lacking_cpus", lacking::cpus),
    ("lacking_command_lines", lacking::command_lines),
    ("lacking_ram", lacking::ram),
    (
        "lacking_cpus_that_never_start",
        lacking::cpus_that_never_start,
    ),
];

/// Says how a test ended.
fn say(name: &str, result: &Result<()>, started: Instant) {
    let told = match result {
        Ok(()) => {
            json!({"name": name, "note": format!(" ({:.1} s)", started.elapsed().as_secs_f64())})
        }
        Err(error) => json!({"name": name, "error": format!("{error:#}")}),
    };
    // Without a reader nobody waits for it.
    let _ = output::line(told);
}

/// Runs those whose names have the filter, one more at the same time than the host has CPUs: some wait for a while, or for
/// cargo.
fn main() {
    let words: Vec<_> = env::args().skip(1).collect();
    let may_install = words.first().is_some_and(|it| it == "install");
    let filter = words.get(1);
    let wanted = |(name, _): &&(&str, Check)| filter.is_none_or(|text| name.contains(text));
    if !TESTS.iter().any(|test| wanted(&test)) {
        return;
    }
    let started = Instant::now();
    let first = match Stage::new(may_install) {
        Ok(stage) => stage,
        Err(error) => return say("first run", &Err(error), started),
    };
    let wanted: Vec<_> = TESTS.iter().filter(wanted).collect();
    spread::each(spread::cpus() + 1, &wanted, |(name, check)| {
        let started = Instant::now();
        let result = first.named(name).and_then(|stage| check(&stage));
        say(name, &result, started);
    });
}

// No tasks, where xtask makes none of a manifest.
use takt_kernel::task::{Event, Task};

static TASKS: [Task; 0] = [];
static SEMAPHORES: [takt_kernel::sync::Semaphore; 0] = [];
static EVENTS: [Event; 0] = [];
const ARGUMENTS: &[u64] = &[];
const UNTIL: Option<usize> = None;
const NR_BUDGETS: usize = 0;
const FEEDER: Option<(usize, u32)> = None;
const WITHOUT_DMA: &[(usize, usize)] = &[];
const PORTS_WITHOUT_DMA: &[(u16, u16)] = &[];

//! Message queues, with messages of 16 bytes.

use takt_kernel::sync::Queue;

use super::ROUNDS;
use crate::clock::{START, Value, stamp};
use crate::report::insn;
use crate::threads::{MAIN, join, must, spawn};

/// A message of 16 bytes.
pub(super) type Message = [u64; 2];

static FREE: Queue<Message, 8> = Queue::new();
static WAITED: Queue<Message, 8> = Queue::new();

static SEND: Value = Value::new();
static RECEIVE: Value = Value::new();

/// A message that the compiler must have moved.
fn used(message: Message) {
    core::hint::black_box(message);
}

pub(super) fn all() {
    without_switch();
    with_switch();
}

fn without_switch() {
    let (mut send, mut receive) = (0, 0);
    for round in 0..ROUNDS {
        let message = core::hint::black_box([u64::from(round); 2]);
        let before = stamp();
        let sent = FREE.send(message);
        let between = stamp();
        must("send", sent.map_err(|(_, error)| error));
        let again = stamp();
        let received = FREE.receive();
        let after = stamp();
        must("receive", received.map(used));
        send = between.wrapping_sub(before);
        receive = after.wrapping_sub(again);
    }
    insn("queue-send", send);
    insn("queue-receive", receive);
}

/// The more important thread receives and waits, the other one goes on; that one sends, and the first goes on.
fn with_switch() {
    let receiver = spawn(0, MAIN + 1, |_| {
        for _ in 0..ROUNDS {
            START.set();
            let received = WAITED.receive();
            SEND.take();
            must("receive", received.map(used));
        }
    });
    for round in 0..ROUNDS {
        let message = core::hint::black_box([u64::from(round); 2]);
        START.set();
        let sent = WAITED.send(message);
        if round + 1 < ROUNDS {
            RECEIVE.take();
        }
        must("send", sent.map_err(|(_, error)| error));
    }
    insn("queue-receive-switch", RECEIVE.get());
    insn("queue-send-switch", SEND.get());
    join(receiver);
}

//! Message queues: order, hand-over, senders that wait, interrupts.

use takt_kernel::Error;
use takt_kernel::sync::Queue;
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{join, spawn};
use takt_tests::{check, check_eq, check_err, interrupt, target_test};

static QUEUE: Queue<u32, 4> = Queue::new();

fn receiver(number: usize) {
    let message = QUEUE.receive().unwrap_or(99);
    note(100 * number as u32 + message);
}

fn sender(message: usize) {
    let sent = QUEUE.send(message as u32).is_ok();
    note(if sent { message as u32 } else { 99 });
}

/// Receives a hundred messages and notes whether they came in order.
fn receive_hundred(_: usize) {
    let is_in_order = (0..100).all(|n| QUEUE.receive() == Ok(n));
    note(u32::from(is_in_order));
}

fn fill(messages: core::ops::Range<u32>) -> Result<(), (u32, Error)> {
    messages
        .into_iter()
        .try_for_each(|message| QUEUE.try_send(message))
}

target_test! {
    /// Messages come out in the order they went in, also around the end of the ring.
    fn order(Shared) {
        for round in 0..5 {
            fill(round..round + 3)?;
            check_eq!(QUEUE.len(), 3);
            for n in round..round + 3 {
                check_eq!(QUEUE.receive()?, n);
            }
        }
        check!(QUEUE.is_empty());
        check_err!(QUEUE.try_receive(), WouldBlock);
        Ok(())
    }

    /// A full queue gives the message back.
    fn full(Shared) {
        fill(0..4)?;
        let refused = QUEUE.try_send(4).err();
        check!(refused == Some((4, Error::WouldBlock)), "{refused:?}");
        for n in 0..4 {
            check_eq!(QUEUE.try_receive()?, n);
        }
        Ok(())
    }

    /// A message goes straight to the most important receiver that waits, without resting in the queue.
    fn straight_to_the_most_important_receiver(Shared) {
        let threads = [spawn(1, PRIORITY + 1, receiver, 1)?, spawn(2, PRIORITY + 3, receiver, 2)?, spawn(3, PRIORITY + 2, receiver, 3)?];
        for message in 1..=3 {
            QUEUE.send(message)?;
            check_eq!(QUEUE.len(), 0);
        }
        join(&threads)?;
        check_eq!(take(), [201, 302, 103]);
        Ok(())
    }

    /// Senders that wait fill the gaps, the most important first, behind what is in the queue.
    fn waiting_senders_fill_the_gaps(Shared) {
        fill(0..4)?;
        let threads = [spawn(1, PRIORITY + 1, sender, 10)?, spawn(2, PRIORITY + 3, sender, 20)?, spawn(3, PRIORITY + 2, sender, 30)?];
        check_eq!(take(), []);
        let mut received = [0; 7];
        for message in &mut received {
            *message = QUEUE.receive()?;
        }
        check_eq!(received, [0, 1, 2, 3, 20, 30, 10]);
        check_eq!(take(), [20, 30, 10]);
        join(&threads)?;
        Ok(())
    }

    /// Interrupts send and receive without waiting.
    fn from_interrupts(Shared) {
        let thread = spawn(1, PRIORITY + 1, receiver, 1)?;
        interrupt::raise(|| {
            for message in 5..10 {
                note(u32::from(QUEUE.try_send(message).is_ok()));
            }
            // The first went to the receiver, four rest in the queue.
            note(u32::from(QUEUE.try_send(10).is_ok()));
            note(QUEUE.try_receive().unwrap_or(99));
        });
        check_eq!(take(), [1, 1, 1, 1, 1, 0, 6, 105]);
        check_eq!((QUEUE.receive()?, QUEUE.receive()?, QUEUE.receive()?, QUEUE.len()), (7, 8, 9, 0));
        join(&[thread])?;
        Ok(())
    }

    /// A hundred messages through a queue of four, with a receiver that is less or more important.
    fn stream(Shared) {
        for priority in [PRIORITY - 1, PRIORITY + 1] {
            let thread = spawn(1, priority, receive_hundred, 0)?;
            for n in 0..100 {
                QUEUE.send(n)?;
            }
            join(&[thread])?;
            check_eq!(take(), [1]);
        }
        Ok(())
    }
}

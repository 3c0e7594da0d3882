//! Which bytes of registers are used.

use super::asm::Asm;
use crate::config::Config;
use crate::live::{Live, is_rest_used, is_used};
use crate::marks::Marks;

const EAX: usize = 0;
/// `mov al, 1`
const MOV_AL: [u8; 2] = [0xb0, 1];
/// `test al, al`, which looks at the lowest byte, and `test ah, ah`, which looks at the one above.
const TEST_AL: [u8; 2] = [0x84, 0xc0];
const TEST_AH: [u8; 2] = [0x84, 0xe4];
/// `mov ah, 1`
const MOV_AH: [u8; 2] = [0xb4, 1];
/// `ud2`: behind it nothing is used.
const END: [u8; 2] = [0x0f, 0x0b];

/// Whether the lowest byte of rax is used from the beginning of this code on, and the rest.
fn used(code: &[&[u8]]) -> (bool, bool) {
    let mut asm = Asm::default();
    asm.function("f");
    for it in code.iter().chain([&&END[..]]) {
        asm.bytes(it);
    }
    let (at, image) = (asm.address("f"), asm.image());
    let marks = Marks::new(&image, &Config::default()).unwrap();
    let live = Live::new(&image, &marks, |_| false).at(at);
    assert_eq!(is_used(live, EAX), live & 1 != 0 || is_rest_used(live, EAX));
    (live & 1 != 0, is_rest_used(live, EAX))
}

#[test]
fn the_lowest_byte_is_used_and_written_apart_from_the_rest() {
    let test_eax = &[0x85, 0xc0][..];
    assert_eq!(used(&[]), (false, false));
    assert_eq!(used(&[&TEST_AL]), (true, false));
    assert_eq!(used(&[test_eax]), (true, true));
    assert_eq!(used(&[&MOV_AL, &TEST_AL]), (false, false));
    // What stands above it is what was there before.
    assert_eq!(used(&[&MOV_AL, test_eax]), (false, true));
    assert_eq!(used(&[&MOV_AL, &TEST_AH]), (false, true));
}

#[test]
fn a_higher_byte_counts_as_the_whole_register() {
    assert_eq!(used(&[&TEST_AH]), (true, true));
    // To write it leaves the others, so that nothing is over.
    assert_eq!(used(&[&MOV_AH, &TEST_AL]), (true, true));
    // A word of 32 bits replaces all of it.
    assert_eq!(used(&[&[0xb8, 1, 0, 0, 0], &TEST_AH]), (false, false));
}

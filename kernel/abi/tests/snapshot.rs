//! The numbers that tasks are compiled with: a change here needs another [`takt_abi::VERSION`].

use std::fmt::Write;

use takt_abi::{Call, Error, FaultKind};

#[test]
fn the_numbers_are_those_of_this_version() {
    let mut text = format!(
        "version {}\nwords {} log {} region {:#x}+{:#x} own {}\nleases {} of {} from {} rights {:#x} {:#x}\nreceived {:#x} {:#x}\n",
        takt_abi::VERSION,
        takt_abi::WORDS,
        takt_abi::MAX_LOG,
        takt_abi::FIRST_REGION,
        takt_abi::REGION,
        takt_abi::OWN,
        takt_abi::MAX_LEASES,
        size_of::<takt_abi::Lease>(),
        core::mem::offset_of!(takt_abi::Lending, leases),
        takt_abi::lease::READ,
        takt_abi::lease::WRITE,
        takt_abi::MESSAGE,
        takt_abi::FAULT,
    );
    for call in Call::ALL {
        writeln!(text, "call {} {call:?}", *call as u8).unwrap();
    }
    for error in Error::ALL {
        writeln!(text, "error {} {error:?}", *error as u8).unwrap();
    }
    for kind in FaultKind::ALL {
        writeln!(text, "fault {} {kind:?}", *kind as u8).unwrap();
    }
    assert_eq!(text, include_str!("abi.txt"));
}

#[test]
fn a_number_names_what_has_it() {
    for call in Call::ALL {
        assert_eq!(Call::from_number(*call as u64), Some(*call));
    }
    assert_eq!(Call::from_number(1 << 32), None);
    assert_eq!(Error::from_number(0), None);
}

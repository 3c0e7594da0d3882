//! What a path from the root means where a macro is called changes nothing of what the macro says.

#![deny(unsafe_code)]
#![allow(missing_docs, reason = "a test")]

// From here on `::core` is this crate, in which nothing is.
extern crate self as core;

takt_tracer::event_class! { pub class Class = "class", wide { v: 8 u } print "v={v}"; }
takt_tracer::event! { pub event: Class = wide "names:event"; }

takt_tracer::event! {
    pub own = wide "names:own" { a: 8 u, b: 32 x } print "a={a} b={b}";
}

#[test]
fn events_are_declared_all_the_same() {
    // It compiles: that is all.
    let _ = (&event::ID, &own::ID);
}

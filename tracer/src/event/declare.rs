//! The macros that declare classes and events.

/// Declares an event class.
///
/// ```
/// takt_tracer::event_class! {
///     /// The CPU goes from one thread to another.
///     pub class SchedSwitch = "sched_switch", core24(0x80) {
///         next: 8 tid,
///         prev_prio: 7 prio,
///         next_prio: 7 prio,
///         prev_state: 2 enum("0=R,1=S,2=T,3=X"),
///     }
///     print "prev_comm={current:comm} prev_state={prev_state} ==> next_comm={next:comm}";
/// }
/// ```
///
/// The layout is `core24(ctx)` with the fixed preempt-count byte, `core8`, `wide`, or `near`: that is for a time of 64 bits,
/// the last field, behind no more than 11 bits of other fields. Its records have 12 bytes where the time has the upper half
/// of the record's own time, and 16 where it has not. A field is `name: bits type`:
/// fewer than 32 bits are packed into the word as long as there is room, then into extra words
/// ([`Placer`](crate::event::Placer)); 32 and 64 bits are extra words; `*` is the dynamic field of type `str`, which
/// comes last; `str(16)` is one of no more than so many bytes. What was cut is shown with a mark. Types: `u`, `i`, `x`, `tid`,
/// `irq`, `prio`,
/// `cycles`, `sym`, `str`, `enum("n=NAME,…")`, `flags("mask=NAME,…")`, `flags("DELIMITER", "mask=NAME,…")`. Flags are shown
/// as Linux's `__print_flags` does: each mask is taken away as it matches, in the order given, so larger ones stand before
/// their parts; the rest is hexadecimal, and 0 is nothing. Between them is the delimiter, `|` if none is given.
///
/// `name: [8; 4] u` is an array of four elements of 8 bits, packed like four fields. `name: [32] sym` is an array of any
/// length, of elements of 8, 16, 32 or 64 bits; it is a dynamic field, so it comes last. Elements are of type `u`, `i`,
/// `x` or `sym`. In the print template `{f}` is a field by its type, `{f:comm}` and
/// `{f:pid}` a thread's name and number, `{f:name}` the name of an interrupt's handler, `{current:…}` the running thread.
///
/// The class gets a function `emit::<Sink>(id, fields…)`. Integers of any size and `bool` are taken as values
/// ([`Value`](crate::event::Value)) or as an array of such, anything `AsRef<[u8]>` as a string, and anything
/// `AsRef<[u32]>` (`u8`, `u16`, `u64`) as a dynamic array of such elements.
#[macro_export]
macro_rules! event_class {
    (
        $(#[$doc:meta])*
        $vis:vis class $class:ident = $name:literal, $($rest:tt)*
    ) => {
        $crate::__class! { $(#[$doc])* $vis class $class = [$name], $($rest)* }
    };
}

/// As [`event_class!`], the name in brackets.
#[doc(hidden)]
#[macro_export]
macro_rules! __class {
    (
        $(#[$doc:meta])*
        $vis:vis class $class:ident = [$($name:tt)+], $layout:ident $(($ctx:literal))? {
            $($field:ident: $bits:tt $ty:ident $(($($arg:literal),+))?),* $(,)?
        }
        print $print:literal;
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $class;

        impl $crate::event::EventClass for $class {
            const LAYOUT: $crate::event::Layout = $crate::__layout!($layout $(($ctx))?);
            const EXTRA: usize = $crate::event::Placer::words_of(Self::LAYOUT, $crate::__fixed_bits!([] $($bits)*));
            const TEXT: &'static str = $crate::__core::concat!(
                "class ", $($name)+,
                "\nlayout ", $crate::__core::stringify!($layout) $(, " ", $crate::__core::stringify!($ctx))?,
                $("\nfield ", $crate::__core::stringify!($field), " ", $crate::__width!($bits), " ", $crate::__core::stringify!($ty)
                    $(, "(", $crate::__argument!($($arg),+), ")")?,)*
                "\nprint ", $print, "\n"
            );
        }

        $crate::__class_emit! { $class [] [] $($field $bits [$($($arg),+)?])* }
    };
}

/// How the metadata writes what stands behind a field's type.
#[doc(hidden)]
#[macro_export]
macro_rules! __argument {
    ($arg:literal) => {
        $arg
    };
    ($delimiter:literal, $list:literal) => {
        $crate::__core::concat!("\"", $delimiter, "\",", $list)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __layout {
    (core24($ctx:literal)) => {
        $crate::event::Layout::Core24($ctx)
    };
    (core8) => {
        $crate::event::Layout::Core8
    };
    (wide) => {
        $crate::event::Layout::Wide
    };
    (near) => {
        $crate::event::Layout::Near
    };
}

/// How the metadata writes a field's width: without spaces.
#[doc(hidden)]
#[macro_export]
macro_rules! __width {
    ([$bits:literal; $len:literal]) => {
        $crate::__core::concat!("[", $bits, ";", $len, "]")
    };
    ([$bits:literal]) => {
        $crate::__core::concat!("[", $bits, "]")
    };
    ($bits:tt) => {
        $crate::__core::stringify!($bits)
    };
}

/// The widths of the fixed fields, and how many there are of each.
#[doc(hidden)]
#[macro_export]
macro_rules! __fixed_bits {
    ([$($done:tt)*]) => {
        &[$($done),*]
    };
    ([$($done:tt)*] *) => {
        $crate::__fixed_bits!([$($done)*])
    };
    ([$($done:tt)*] [$bits:literal]) => {
        $crate::__fixed_bits!([$($done)*])
    };
    ([$($done:tt)*] [$bits:literal; $len:literal] $($rest:tt)*) => {
        $crate::__fixed_bits!([$($done)* ($bits, $len)] $($rest)*)
    };
    ([$($done:tt)*] $bits:literal $($rest:tt)*) => {
        $crate::__fixed_bits!([$($done)* ($bits, 1)] $($rest)*)
    };
}

/// Gathers for each fixed field its name, what is taken as its value, how it is packed, and the widths before it, then
/// generates `emit`. Behind each field stands its width and the argument of its type.
#[doc(hidden)]
#[macro_export]
macro_rules! __class_emit {
    ($class:ident [$($done:tt)*] [$($before:tt)*] $field:ident [$bits:literal; $len:literal] [] $($rest:tt)*) => {
        $crate::__class_emit! {
            $class
            [$($done)* { $field [[impl $crate::event::Value; $len]] array places_after $bits [$($before)*] }]
            [$($before)* ($bits, $len)]
            $($rest)*
        }
    };
    ($class:ident [$($done:tt)*] [$($before:tt)*] $field:ident $bits:literal $arg:tt $($rest:tt)*) => {
        $crate::__class_emit! {
            $class
            [$($done)* { $field [impl $crate::event::Value] field place_after $bits [$($before)*] }]
            [$($before)* ($bits, 1)]
            $($rest)*
        }
    };
    ($class:ident [$({ $field:ident [$value:ty] $pack:ident $place:ident $bits:literal [$($before:tt)*] })*] $all:tt
        $($dynamic:ident $width:tt [$($max:literal)?])?) => {
        impl $class {
            /// Packs the fields and hands the record of event `id` to the sink.
            ///
            /// # Context
            /// That of the sink.
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "as many as the class has fields")]
            pub fn emit<S: $crate::event::Sink>(
                id: $crate::event::Id
                $(, $field: $value)*
                $(, $dynamic: impl $crate::__core::convert::AsRef<[$crate::__element!($width)]>)?
            ) {
                use $crate::event::{EventClass, Packed, Placer};
                $(const {
                    let _ = $crate::__core::stringify!($dynamic);
                    $crate::__core::assert!(
                        <$class as EventClass>::LAYOUT.can_have(64, 2, true),
                        "layout `near` has no dynamic field"
                    );
                })?
                let packed = Packed::new(id)$(.$pack(
                    const { Placer::$place(<$class as EventClass>::LAYOUT, &[$($before),*], $bits) },
                    $bits,
                    $field,
                ))*;
                let bytes: $crate::__core::option::Option<&[u8]> =
                    $crate::__dynamic!($($dynamic $width [$($max)?])?);
                packed.send::<S>(<$class as EventClass>::LAYOUT, <$class as EventClass>::EXTRA, bytes);
            }
        }
    };
}

/// What a dynamic field has many of.
#[doc(hidden)]
#[macro_export]
macro_rules! __element {
    (*) => {
        u8
    };
    ([8]) => {
        u8
    };
    ([16]) => {
        u16
    };
    ([32]) => {
        u32
    };
    ([64]) => {
        u64
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __dynamic {
    () => {
        $crate::__core::option::Option::None
    };
    ($dynamic:ident * []) => {
        $crate::__core::option::Option::Some($dynamic.as_ref())
    };
    ($dynamic:ident * [$max:literal]) => {
        $crate::__core::option::Option::Some($crate::event::bounded($dynamic.as_ref(), $max))
    };
    ($dynamic:ident $width:tt []) => {
        $crate::__core::option::Option::Some($crate::event::Element::bytes_of($dynamic.as_ref()))
    };
}

/// Declares an event: an instance of a class.
///
/// ```
/// # takt_tracer::event_class! { pub class Irq = "irq", core8 { vector: 8 u } print "vector={vector}"; }
/// takt_tracer::event! {
///     /// Emitted at the start of the handler, with interrupts off.
///     pub irq_handler_entry: Irq = core "irq:irq_handler_entry";
/// }
/// takt_tracer::event! {
///     /// Emitted at the end of the handler. It has a print template of its own, instead of the class's.
///     pub irq_handler_exit: Irq = core "irq:irq_handler_exit" print "vector={vector} handled";
/// }
/// takt_tracer::event! {
///     /// Emitted when a reading was stored. The class is declared in the same step, for this event alone: it is
///     /// `reading_stored::Class`, of that name. What stands after `=` is its layout.
///     pub reading_stored = wide "hello:reading_stored" { channel: 8 u, value: 16 i }
///     print "channel={channel} value={value}";
/// }
/// ```
///
/// The kind is `core` (an even 8-bit id; for layouts `core24` and `core8`, at most 126 in an image), `wide` (an odd
/// 16-bit id; for layout `wide`) or `near` (for layout `near`, at most four in an image). It becomes a module of that name
/// with
/// * `static ID`, a [`Symbol`](crate::event::Symbol) whose address is the id (for `sym` operands), and
/// * `struct Event`, which implements [`Event`](crate::event::Event).
///
/// The documentation comment becomes the `doc` lines of the metadata: say when exactly the event is emitted.
#[macro_export]
macro_rules! event {
    (
        $(#[doc = $doc:literal])*
        $vis:vis $event:ident: $class:ty = $kind:ident $name:literal $(print $print:literal)?;
    ) => {
        $crate::__event! { [$($doc)*] $vis $event: $class = $kind $name [$($print)?] {} }
    };
    (
        $(#[doc = $doc:literal])*
        $vis:vis $event:ident = $layout:ident $(($ctx:literal))? $name:literal { $($fields:tt)* }
        print $print:literal;
    ) => {
        $crate::__event! {
            [$($doc)*] $vis $event: $event::Class = $layout $name [] {
                $crate::__class! {
                    /// The event's class.
                    pub class Class = [$crate::__core::stringify!($event)], $layout $(($ctx))? { $($fields)* }
                    print $print;
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    (
        [$($doc:literal)*]
        $vis:vis $event:ident: $class:ty = $kind:ident $name:literal [$($print:literal)?] { $($declared:item)* }
    ) => {
        $(#[doc = $doc])*
        $vis mod $event {
            $crate::__event_id!($kind $name);

            $($declared)*

            /// The event.
            #[derive(Clone, Copy, Debug)]
            pub struct Event;
        }

        impl $crate::event::Event for $event::Event {
            type Class = $class;
            const NAME: &'static str = $name;

            #[inline(always)]
            fn id() -> $crate::event::Id {
                $crate::event::Id::of(&$event::ID)
            }
        }

        const _: () = {
            const PARTS: &[&str] = &[
                $crate::__core::concat!("event ", $name, "\n"),
                <$class as $crate::event::EventClass>::TEXT,
                // The last one holds.
                $("print ", $print, "\n",)?
                $("doc", $doc, "\n",)*
            ];
            const N: usize = $crate::event::text_len(PARTS);
            const KIND: $crate::event::Kind = <$class as $crate::event::EventClass>::LAYOUT.kind();
            $crate::__core::assert!(KIND.is($crate::__event_kind!($kind)), "the kind of the event does not fit its class");

            #[used]
            #[unsafe(link_section = ".takt.meta")]
            static META: $crate::event::Meta<N> = $crate::event::Meta::new(&$event::ID, PARTS);
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event_id {
    (first $name:literal) => {
        /// Its address is the event's id.
        #[unsafe(link_section = $crate::__core::concat!(".takt.id.core.0.", $name))]
        pub static ID: $crate::event::Symbol<2> = $crate::event::Symbol::new();
    };
    (core8 $name:literal) => {
        $crate::__event_id!(core $name);
    };
    (core24 $name:literal) => {
        $crate::__event_id!(core $name);
    };
    (core $name:literal) => {
        /// Its address is the event's id.
        #[unsafe(link_section = $crate::__core::concat!(".takt.id.core.1.", $name))]
        pub static ID: $crate::event::Symbol<2> = $crate::event::Symbol::new();
    };
    (wide $name:literal) => {
        /// Its address is the event's id.
        #[unsafe(link_section = $crate::__core::concat!(".takt.id.wide.1.", $name))]
        pub static ID: $crate::event::Symbol<2> = $crate::event::Symbol::new();
    };
    (near $name:literal) => {
        /// Its address is the event's id; it takes all ids that its records can have.
        #[unsafe(link_section = $crate::__core::concat!(".takt.id.near.1.", $name))]
        pub static ID: $crate::event::Symbol<{ 2 * $crate::wire::NEAR_IDS as usize }> =
            $crate::event::Symbol::new();
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event_kind {
    (first) => {
        $crate::event::Kind::Core
    };
    (core) => {
        $crate::event::Kind::Core
    };
    (core8) => {
        $crate::event::Kind::Core
    };
    (core24) => {
        $crate::event::Kind::Core
    };
    (wide) => {
        $crate::event::Kind::Wide
    };
    (near) => {
        $crate::event::Kind::Near
    };
}

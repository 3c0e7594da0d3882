//! The events of the tracers `function` and `function_graph`.

#[cfg(feature = "rules")]
use takt_tracer::event::Event;
use takt_tracer::{event, event_class};

event_class! {
    /// A function and its caller, in the context of the last `function_context` of the CPU.
    pub class Function = "function", core24(0x80) { ip: 12 block("0x1000000,64"), parent_ip: 12 block("0x1000000,64") }
    print "{ip} <-{parent_ip}";
}
event_class! {
    /// A function and its caller.
    pub class FunctionContext = "function_context", core8 { ip: 12 block("0x1000000,64"), parent_ip: 12 block("0x1000000,64") }
    print "{ip} <-{parent_ip}";
}
event_class! {
    /// A function on a stack: an interrupt's, or a thread's.
    pub class FuncGraph = "funcgraph", core8 { depth: 7 u, irq: 1 u, ip: 12 block("0x1000000,64"), tid: 8 tid }
    print "{ip} depth={depth} irq={irq} pid={tid:pid}";
}

event! {
    /// Emitted at the entry of a function whose return is recorded as well.
    pub funcgraph_entry: FuncGraph = core "ftrace:funcgraph_entry";
}
event! {
    /// Emitted when a function returns.
    pub funcgraph_exit: FuncGraph = core "ftrace:funcgraph_exit";
}
event! {
    /// Emitted at the entry of a function, where the context is that of the last `function_context` on this CPU.
    pub function: Function = core "ftrace:function";
}
event! {
    /// Emitted at the entry of a function in another context than the one before.
    pub function_context: FunctionContext = core "ftrace:function_context";
}

/// Whether it is one of these.
#[cfg(feature = "rules")]
pub(in crate::trace) fn is_record(id: u32) -> bool {
    let ids = [
        function::Event::id(),
        function_context::Event::id(),
        funcgraph_entry::Event::id(),
        funcgraph_exit::Event::id(),
    ];
    ids.iter().any(|event| event.number() == id)
}

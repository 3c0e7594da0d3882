//! The function tracer's events.

use takt_tracer::{event, event_class};

event_class! {
    /// A function and its caller, in the context of the last `function_context` of the CPU.
    pub class Function = "function", core24(0x80) { ip: 12 block("0x200000,32"), parent_ip: 12 block("0x200000,32") }
    print "{ip} <-{parent_ip}";
}
event_class! {
    /// A function and its caller.
    pub class FunctionContext = "function_context", core8 { ip: 12 block("0x200000,32"), parent_ip: 12 block("0x200000,32") }
    print "{ip} <-{parent_ip}";
}

event! {
    /// Emitted at the entry of a function, where the context is that of the last `function_context` on this CPU.
    pub function: Function = core "ftrace:function";
}
event! {
    /// Emitted at the entry of a function in another context than the one before.
    pub function_context: FunctionContext = core "ftrace:function_context";
}

//! From the fields of an event to a program for the target.

use super::bind::{Bound, Filters, Operand};
use super::eval::compare;
use super::tree::Op;
use crate::ftrace::{CommonField, Content, Whose, common_flags};
use crate::{Context, EventDef, FieldDef, FieldType, Names, Slot};
use takt_tracer::event::Place;
use takt_tracer::filter::glob;
use takt_tracer::filter::program::{
    ACCEPT, FROM_CPU, FROM_CTX, FROM_FIELD, FROM_TID, MASK, MAX_NAME, MAX_WORDS, NAME_DIFFERENT,
    NAME_EQUAL, NAME_GLOB, RANGE, REJECT, SET, SIGNED, TURNED,
};
use takt_tracer::rules::words_of;

/// A filter cannot be worked out by the target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(String);

impl Filters<'_> {
    /// The program for an event, as [`Program`](takt_tracer::filter::program::Program) takes it; none if no filter is for the event.
    /// The names of threads are those that are known now; with what they are compared with is in the program, for
    /// threads that get theirs later.
    ///
    /// # Errors
    /// [`Unsupported`] if a test is about a text in the record or about a symbol, or if the program would be too long.
    pub fn compile(
        &self,
        event: &EventDef,
        names: &Names,
    ) -> Result<Option<Vec<u32>>, Unsupported> {
        let Some(bound) = self.events.get(&event.id) else {
            return Ok(None);
        };
        let mut compiler = Compiler {
            event,
            names,
            tests: Vec::new(),
        };
        let mut begin = Label::Accept;
        for one in bound.iter().rev() {
            begin = compiler.expr(one, begin, Label::Reject)?;
        }
        compiler.finish(begin).map(Some)
    }
}

/// A place in the program in the making, which is made from its end.
#[derive(Clone, Copy)]
enum Label {
    Accept,
    Reject,
    /// The test of this number, counted from the end.
    Test(usize),
}

struct Compiler<'c> {
    event: &'c EventDef,
    names: &'c Names,
    tests: Vec<(Code, Label, Label)>,
}

/// A test.
enum Code {
    Always(bool),
    Set {
        source: u32,
        field: u32,
        set: [u32; 8],
        /// What the set is worked out from, if it is of names: how they are compared, and with what.
        name: Option<(u32, String)>,
    },
    Range {
        field: u32,
        least: u64,
        most: u64,
    },
    Mask {
        field: u32,
        mask: u64,
    },
}

impl Compiler<'_> {
    /// Where to go on to find out whether an expression holds.
    fn expr(
        &mut self,
        bound: &Bound<'_>,
        then: Label,
        otherwise: Label,
    ) -> Result<Label, Unsupported> {
        match bound {
            Bound::Not(inner) => self.expr(inner, otherwise, then),
            Bound::All(parts) => parts
                .iter()
                .rev()
                .try_fold(then, |next, part| self.expr(part, next, otherwise)),
            Bound::Any(parts) => parts
                .iter()
                .rev()
                .try_fold(otherwise, |next, part| self.expr(part, then, next)),
            Bound::No => Ok(otherwise),
            Bound::Number(operand, op, value) => {
                let code = self.number(operand, *op, *value)?;
                Ok(self.push(code, then, otherwise))
            }
            Bound::Text(operand, op, value) => {
                let code = self.text(operand, *op, value)?;
                Ok(self.push(code, then, otherwise))
            }
        }
    }

    fn push(&mut self, code: Code, then: Label, otherwise: Label) -> Label {
        match code {
            Code::Always(true) => then,
            Code::Always(false) => otherwise,
            code => {
                self.tests.push((code, then, otherwise));
                Label::Test(self.tests.len() - 1)
            }
        }
    }

    fn number(&self, operand: &Operand<'_>, op: Op, value: i128) -> Result<Code, Unsupported> {
        let holds = |number: i128| compare(number, op, value);
        let pid = |tid: u8| holds(self.names.threads.pid(tid).into());
        let field = match operand {
            Operand::Common(CommonField::Type) => {
                return Ok(Code::Always(holds(self.event.id.into())));
            }
            Operand::Common(CommonField::Flags) => {
                return Ok(set(FROM_CTX, 0, |ctx| {
                    holds(common_flags(Context(ctx)).into())
                }));
            }
            Operand::Common(CommonField::PreemptCount) => {
                return Ok(set(FROM_CTX, 0, |ctx| holds(Context(ctx).depth().into())));
            }
            Operand::Common(CommonField::Pid) => return Ok(set(FROM_TID, 0, pid)),
            Operand::Cpu => return Ok(set(FROM_CPU, 0, |cpu| holds(cpu.into()))),
            Operand::Comm => return Ok(Code::Always(false)),
            Operand::Field(field) => field,
        };
        match field.content {
            Content::Pid(whose) => {
                let (source, place) = self.thread(whose)?;
                Ok(set(source, place, pid))
            }
            Content::State(number, _) => {
                let (place, bits) = self.place(number)?;
                if bits > 8 {
                    return Err(Unsupported("a state of more than 8 bits".into()));
                }
                let state = |raw: u8| holds(field.number_of_raw(raw.into()).into());
                Ok(set(FROM_FIELD, place, state))
            }
            Content::Value(number, def) => {
                let (place, _) = self.place(number)?;
                self.value(place, def, op, value)
            }
            Content::Length(_) => Err(Unsupported(format!(
                "`{}` is the length of an array, which only the host compares",
                field.name
            ))),
            Content::Comm(_) | Content::IrqName(_) => Ok(Code::Always(false)),
        }
    }

    fn value(&self, place: u32, def: &FieldDef, op: Op, value: i128) -> Result<Code, Unsupported> {
        let is_signed = def.ty == FieldType::Signed;
        let field = place | if is_signed { SIGNED } else { 0 };
        let (min, max) = match is_signed {
            true => (i64::MIN.into(), i64::MAX.into()),
            false => (0, i128::from(u64::MAX)),
        };
        // The least number that is at least so much as it is shown.
        let least = |shown: i128| match def.ty {
            FieldType::Cycles => self.names.clock.cycles_at(shown),
            _ => shown,
        };
        let (from, to) = match op {
            Op::Eq | Op::Ne => (least(value), least(value + 1) - 1),
            Op::Lt => (min, least(value) - 1),
            Op::Le => (min, least(value + 1) - 1),
            Op::Gt => (least(value + 1), max),
            Op::Ge => (least(value), max),
            Op::Bits if def.ty == FieldType::Cycles => {
                return Err(Unsupported(format!(
                    "bits of `{}`, which is a time",
                    def.name
                )));
            }
            Op::Bits => {
                let mask = value as u64;
                return Ok(Code::Mask { field, mask });
            }
            Op::Glob => return Ok(Code::Always(false)),
        };
        let (from, to) = (from.max(min), to.min(max));
        if from > to {
            return Ok(Code::Always(op == Op::Ne));
        }
        let bias = if is_signed { 1 << 63 } else { 0 };
        Ok(Code::Range {
            field: field | if op == Op::Ne { TURNED } else { 0 },
            least: from as u64 ^ bias,
            most: to as u64 ^ bias,
        })
    }

    fn text(&self, operand: &Operand<'_>, op: Op, value: &str) -> Result<Code, Unsupported> {
        let is_right = |name: &str| match op {
            Op::Glob => glob::matches(value.as_bytes(), name.as_bytes()),
            Op::Ne => name != value,
            _ => name == value,
        };
        let whose = match operand {
            Operand::Comm => Whose::Current,
            Operand::Field(field) => match field.content {
                Content::Comm(whose) => whose,
                Content::IrqName(number) => {
                    let named = |vector| is_right(self.names.irqs.shown(vector));
                    return Ok(set(FROM_FIELD, self.place(number)?.0, named));
                }
                _ => {
                    return Err(Unsupported(format!(
                        "`{}` is a text, which only the host compares",
                        field.name
                    )));
                }
            },
            _ => return Ok(Code::Always(false)),
        };
        let (source, place) = self.thread(whose)?;
        let mut code = set(source, place, |tid| is_right(self.names.threads.comm(tid)));
        if let Code::Set { name, .. } = &mut code {
            let how = match op {
                Op::Glob => NAME_GLOB,
                Op::Ne => NAME_DIFFERENT,
                _ => NAME_EQUAL,
            };
            if value.len() > MAX_NAME {
                return Err(Unsupported(format!("a name of more than {MAX_NAME} bytes")));
            }
            *name = Some((how, value.into()));
        }
        Ok(code)
    }

    /// Where a thread stands.
    fn thread(&self, whose: Whose) -> Result<(u32, u32), Unsupported> {
        match whose {
            Whose::Current => Ok((FROM_TID, 0)),
            // A set takes the lowest 8 bits, which is what a thread is.
            Whose::Field(number) => Ok((FROM_FIELD, self.place(number)?.0)),
        }
    }

    /// Where a field stands, and its width.
    fn place(&self, number: usize) -> Result<(u32, u32), Unsupported> {
        let place = place_of(self.event, number);
        place.ok_or_else(|| Unsupported("a text, which only the host compares".into()))
    }

    /// Puts the tests in their order and their places into them.
    fn finish(self, begin: Label) -> Result<Vec<u32>, Unsupported> {
        let mut places = Vec::new();
        let mut at = 1;
        for (code, ..) in self.tests.iter().rev() {
            places.push(at as u16);
            at += code.len();
        }
        if at > MAX_WORDS {
            return Err(Unsupported(format!(
                "the filter would be {at} words long, and {MAX_WORDS} is the most"
            )));
        }
        places.reverse();
        let place = |label| match label {
            Label::Accept => u32::from(ACCEPT),
            Label::Reject => u32::from(REJECT),
            Label::Test(number) => places.get(number).copied().unwrap_or(ACCEPT).into(),
        };
        let mut out = Vec::from([place(begin)]);
        for (code, then, otherwise) in self.tests.iter().rev() {
            code.write(place(*then) | place(*otherwise) << 16, &mut out);
        }
        Ok(out)
    }
}

impl Code {
    fn len(&self) -> usize {
        let mut words = Vec::new();
        self.write(0, &mut words);
        words.len()
    }

    fn write(&self, places: u32, out: &mut Vec<u32>) {
        let both = |number: u64| [number as u32, (number >> 32) as u32];
        match self {
            Self::Always(_) => {}
            Self::Set {
                source,
                field,
                set,
                name,
            } => {
                let name = name.as_ref().map_or_else(Vec::new, |(how, text)| {
                    let mut words = Vec::from([text.len() as u32 | how << 8]);
                    words.extend(words_of(text));
                    words
                });
                let kind = SET | source << 8 | (name.len() as u32) << 16;
                out.extend([kind, places, *field]);
                out.extend(set);
                out.extend(name);
            }
            Self::Range { field, least, most } => {
                out.extend([RANGE | FROM_FIELD << 8, places, *field]);
                out.extend(both(*least));
                out.extend(both(*most));
            }
            Self::Mask { field, mask } => {
                out.extend([MASK | FROM_FIELD << 8, places, *field]);
                out.extend(both(*mask));
            }
        }
    }
}

/// Where a field stands in the record, as programs say it, and its width in bits; `None` if it is no single number.
pub(super) fn place_of(event: &EventDef, number: usize) -> Option<(u32, u32)> {
    let Slot::Fixed { bits, place } = event.fields.get(number)?.slot else {
        return None;
    };
    let (at, shift) = match place {
        Place::Word(shift) => (0, shift),
        Place::Extra(at, shift) => (at as u32 + 1, shift),
    };
    Some((at | shift << 8 | bits << 16, bits))
}

/// The bytes for which something holds.
fn set(source: u32, field: u32, holds: impl Fn(u8) -> bool) -> Code {
    let mut set = [0u32; 8];
    for byte in (0..=u8::MAX).filter(|byte| holds(*byte)) {
        set[usize::from(byte / 32)] |= 1 << (byte % 32);
    }
    Code::Set {
        source,
        field,
        set,
        name: None,
    }
}

//! A running module: calls into it, each with its own fuel.

use crate::description::Description;
use crate::fault::Fault;
use crate::host::{functions, Host};
use crate::limits::{Credit, Limits, MAX_STATE, WINDOW};
use wasmi::{Config, Engine, Error, Linker, Memory, Module, Store, StoreLimitsBuilder, TypedFunc, WasmParams};

/// Version of the interface.
pub(crate) const ABI: i32 = 1;

/// Arguments: address and length of the first speaker's bytes, the same of the second's, the client if known, port.
type Detect = TypedFunc<(i32, i32, i32, i32, i32, i32), i32>;
/// Arguments: address of the state, side, address and length of the bytes, flags.
type Read = TypedFunc<(i32, i32, i32, i32, i32), i64>;

/// The properties that a module declares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    /// 0 in order, 1 by id.
    pub(crate) pairing: i32,
    /// -1 whole calls, 0 as configured, else bytes of each call.
    pub(crate) need: i32,
    /// 1 TCP, 2 UDP, 3 both.
    pub(crate) transport: i32,
    /// Bytes kept per connection.
    pub(crate) state: usize,
}

/// A module and its memory.
pub(crate) struct Instance {
    store: Store<Host>,
    memory: Memory,
    detect: Detect,
    read: Read,
    /// Address of the memory that it gave us: state, then bytes.
    region: usize,
    pub(crate) nature: Nature,
}

/// An engine that meters fuel, and refuses the features of WebAssembly that plug-ins do not need.
pub(crate) fn engine() -> Engine {
    let mut config = Config::default();
    config.consume_fuel(true).set_max_recursion_depth(256).set_max_cached_stacks(1);
    config.wasm_multi_memory(false);
    Engine::new(&config)
}

fn lacks(what: &str) -> Error {
    Error::new(what)
}

impl Instance {
    /// Starts a module; its start function has the fuel of one call.
    pub(crate) fn start(engine: &Engine, module: &Module, limits: Limits) -> Result<Self, Error> {
        let memory_limits = StoreLimitsBuilder::new()
            .memory_size(limits.memory_bytes)
            .table_elements(10_000)
            .instances(1)
            .memories(1)
            .tables(4)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(engine, Host { description: Description::default(), limits: memory_limits });
        store.limiter(|host| &mut host.limits);
        store.set_fuel(limits.fuel)?;
        let mut linker = Linker::new(engine);
        functions(&mut linker)?;
        let instance = linker.instantiate_and_start(&mut store, module)?;
        let memory = instance.get_memory(&store, "memory").ok_or_else(|| lacks("it exports no `memory`"))?;
        let asked = |store: &mut Store<Host>, name: &str| -> Result<Option<i32>, Error> {
            match instance.get_func(&*store, name) {
                Some(func) => func.typed::<(), i32>(&*store)?.call(&mut *store, ()).map(Some),
                None => Ok(None),
            }
        };
        match asked(&mut store, "wirespan_abi")? {
            Some(ABI) => {}
            Some(other) => {
                return Err(Error::new(format!("it speaks version {other} of the interface, here is version {ABI}")))
            }
            None => return Err(lacks("it exports no `wirespan_abi`")),
        }
        let state = asked(&mut store, "wirespan_state")?.unwrap_or(0);
        let nature = Nature {
            pairing: asked(&mut store, "wirespan_pairing")?.unwrap_or(0),
            need: asked(&mut store, "wirespan_need")?.unwrap_or(0),
            transport: asked(&mut store, "wirespan_transport")?.unwrap_or(1),
            state: usize::try_from(state).ok().filter(|n| *n <= MAX_STATE).ok_or_else(|| {
                Error::new(format!("`wirespan_state` is {state}: a connection may keep 0 to {MAX_STATE} bytes"))
            })?,
        };
        for (what, value, range) in [
            ("wirespan_pairing", nature.pairing, 0..=1),
            ("wirespan_need", nature.need, -1..=4096),
            ("wirespan_transport", nature.transport, 1..=3),
        ] {
            if !range.contains(&value) {
                return Err(Error::new(format!("`{what}` is {value}: it is {} to {}", range.start(), range.end())));
            }
        }
        let size = nature.state + WINDOW;
        let alloc = instance.get_typed_func::<i32, i32>(&store, "wirespan_alloc")?;
        let region = alloc.call(&mut store, i32::try_from(size).unwrap_or(i32::MAX))? as u32 as usize;
        if memory.data(&store).get(region..).is_none_or(|rest| rest.len() < size) {
            return Err(Error::new(format!("`wirespan_alloc` gave no {size} bytes of its memory")));
        }
        let detect = instance.get_typed_func(&store, "wirespan_detect")?;
        let read = instance.get_typed_func(&store, "wirespan_read")?;
        Ok(Instance { store, memory, detect, read, region, nature })
    }

    pub(crate) fn description(&self) -> &Description {
        &self.store.data().description
    }

    pub(crate) fn description_mut(&mut self) -> &mut Description {
        &mut self.store.data_mut().description
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<i32, Fault> {
        let at = self.region + at;
        self.memory.write(&mut self.store, at, bytes).map_err(|_| Fault::Range)?;
        i32::try_from(at).map_err(|_| Fault::Range)
    }

    /// Calls a function; returns the fuel that it used beside its answer.
    fn call<P: WasmParams, R: wasmi::WasmResults>(
        &mut self,
        func: &TypedFunc<P, R>,
        params: P,
        limits: Limits,
        credit: &mut Credit,
    ) -> (Result<R, Fault>, u64) {
        let fuel = credit.at_most(limits.fuel);
        if self.store.set_fuel(fuel).is_err() {
            return (Err(Fault::Trap), 0);
        }
        let answer = func.call(&mut self.store, params);
        let used = fuel.saturating_sub(self.store.get_fuel().unwrap_or(0));
        credit.spend(used);
        (answer.map_err(|e| Fault::of(&e, fuel < limits.fuel)), used)
    }

    /// The start of a connection: 0 no, 1 later, 2 and 3 yes, the first speaker is the client or the server.
    pub(crate) fn detect(
        &mut self,
        (first, second): (&[u8], &[u8]),
        (client, port): (i32, i32),
        limits: Limits,
        credit: &mut Credit,
    ) -> (Result<i32, Fault>, u64) {
        // Two ends of half the room each.
        let half = WINDOW / 2;
        let (first, second) = (first.get(..half).unwrap_or(first), second.get(..half).unwrap_or(second));
        let len = |b: &[u8]| i32::try_from(b.len()).unwrap_or(i32::MAX);
        let state = self.nature.state;
        let (a, b) = match (self.put(state, first), self.put(state + half, second)) {
            (Ok(a), Ok(b)) => (a, b),
            _ => return (Err(Fault::Range), 0),
        };
        self.description_mut().begin(0);
        let func = self.detect;
        self.call(&func, (a, len(first), b, len(second), client, port), limits, credit)
    }

    /// Bytes of a side: how many were consumed, or -1 if no message starts here.
    pub(crate) fn read(
        &mut self,
        state: &mut [u8],
        side: i32,
        bytes: &[u8],
        flags: i32,
        limits: Limits,
        credit: &mut Credit,
    ) -> (Result<i64, Fault>, u64) {
        let bytes = bytes.get(..WINDOW).unwrap_or(bytes);
        let (kept, at) = match (self.put(0, state), self.put(self.nature.state, bytes)) {
            (Ok(kept), Ok(at)) => (kept, at),
            _ => return (Err(Fault::Range), 0),
        };
        self.description_mut().begin(bytes.len());
        let (func, len) = (self.read, i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        let (answer, used) = self.call(&func, (kept, side, at, len, flags), limits, credit);
        if self.memory.read(&self.store, self.region, state).is_err() {
            return (Err(Fault::Range), used);
        }
        (answer, used)
    }
}

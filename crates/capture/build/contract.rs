//! Makes Rust types of `bpf/wire.h` and of the runtimes' `contract.h`, so that no offset, size or number of the
//! contract is written twice.
//!
//! The compiler describes types in BTF only where they are used. So a source file is written that uses every struct and
//! enum of the headers, and its BTF is read. A field may be an integer, an array of integers, a struct of the headers
//! or an array of such structs. Holes are refused: they would carry bytes that nobody wrote. A struct without a size
//! assert is refused too: the assert makes a change of the size visible in the header.

use libbpf_rs::btf::types::{Array, Enum, Int, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize as _};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

type Text = Result<String, Box<dyn Error>>;

/// A header of the contract.
pub(crate) struct Header {
    /// Below `bpf/`.
    path: PathBuf,
    text: String,
}

/// `bpf/wire.h`, and the `contract.h` of packets, waits, system calls, SDKs and of each runtime that has one.
pub(crate) fn headers(bpf: &Path) -> Result<Vec<Header>, Box<dyn Error>> {
    let folders = ["packet", "wait", "calls", "sdk"].map(|folder| Path::new(folder).join("contract.h"));
    let mut paths: Vec<PathBuf> = ["wire.h".into()].into_iter().chain(folders).collect();
    for folder in bpf.join("runtime").read_dir()? {
        paths.push(Path::new("runtime").join(folder?.file_name()).join("contract.h"));
    }
    paths.retain(|path| bpf.join(path).is_file());
    paths.sort_unstable();
    let read = |path: PathBuf| Ok(Header { text: std::fs::read_to_string(bpf.join(&path))?, path });
    paths.into_iter().map(read).collect()
}

impl Header {
    /// The kind (`struct` or `enum`) and name of each definition.
    fn definitions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.lines().filter_map(|line| {
            let (kind, rest) = line.split_once(' ')?;
            let (name, _) = rest.split_once(" {")?;
            matches!(kind, "struct" | "enum").then_some((kind, name))
        })
    }

    fn asserts_size_of(&self, name: &str) -> bool {
        self.text.contains(&format!("_Static_assert(sizeof(struct {name}) == "))
    }
}

/// A C source that uses every definition of the headers.
pub(crate) fn source(headers: &[Header]) -> String {
    let mut text = "#include \"vmlinux.h\"\n".to_string();
    for header in headers {
        let _ = writeln!(text, "#include \"{}\"", header.path.display());
    }
    for (kind, name) in headers.iter().flat_map(Header::definitions) {
        let _ = writeln!(text, "{kind} {name} use_of_{name};");
    }
    text
}

/// Rust types for every definition of the headers.
pub(crate) fn types(headers: &[Header], object: &Path) -> Text {
    let btf = Btf::from_path(object)?;
    let mut text = String::new();
    for header in headers {
        for (kind, name) in header.definitions() {
            let missing = || format!("{kind} {name} of {} is not in the BTF", header.path.display());
            if kind == "enum" {
                text += &enumeration(name, btf.type_by_name::<Enum<'_>>(name).ok_or_else(missing)?)?;
                continue;
            }
            if !header.asserts_size_of(name) {
                return Err(format!("struct {name} of {} has no size assert", header.path.display()).into());
            }
            text += &structure(&btf, name, btf.type_by_name::<Struct<'_>>(name).ok_or_else(missing)?)?;
        }
    }
    Ok(text)
}

/// `ws_flow_key` is `FlowKey` in Rust.
fn type_name(c: &str) -> String {
    let words = c.trim_start_matches("ws_").split('_');
    words.map(|w| w.chars().take(1).flat_map(char::to_uppercase).chain(w.chars().skip(1)).collect::<String>()).collect()
}

fn enumeration(name: &str, members: Enum<'_>) -> Text {
    let mut text = String::new();
    let mut counters = Vec::new();
    for member in members.iter() {
        let c = member.name.and_then(|n| n.to_str()).ok_or("an enumerator without a name")?;
        // Compilers disagree on whether the highest bit is a sign.
        let value = member.value as u32;
        writeln!(text, "/// Of `enum {name}`.\npub(crate) const {c}: u32 = {value};")?;
        if name.ends_with("_counter") {
            let shown = c.splitn(3, '_').nth(2).ok_or_else(|| format!("{c} is not WS_LETTER_NAME"))?;
            counters.push(format!("({c}, {:?}), ", shown.to_lowercase()));
        }
    }
    // The last one is their number.
    if counters.pop().is_some() {
        let (len, all) = (counters.len(), counters.concat());
        writeln!(text, "/// The counters of `enum {name}`, and their names as users see them.")?;
        writeln!(text, "pub(crate) const {}S: [(u32, &str); {len}] = [{all}];", name.to_uppercase())?;
    }
    Ok(text + "\n")
}

/// Type of a field, its size, and how it is read and written at an offset of `b`.
struct Field {
    rust: String,
    size: usize,
    read: String,
    write: String,
}

fn field(ty: BtfType<'_>, name: &str, at: usize) -> Result<Field, Box<dyn Error>> {
    let ty = ty.skip_mods_and_typedefs();
    if let Ok(int) = Int::try_from(ty) {
        let size = int.bits as usize / 8;
        let signed = matches!(int.encoding, libbpf_rs::btf::types::IntEncoding::Signed) && size > 1;
        let rust = format!("{}{}", if signed { 'i' } else { 'u' }, int.bits);
        let bytes = (at..at + size).map(|i| format!("b[{i}]")).collect::<Vec<_>>().join(", ");
        let read = format!("{rust}::from_ne_bytes([{bytes}])");
        let write = format!("b[{at}..{}].copy_from_slice(&{name}.to_ne_bytes());", at + size);
        return Ok(Field { rust, size, read, write });
    }
    if let Ok(array) = Array::try_from(ty) {
        let items = (0..array.capacity())
            .map(|i| {
                let first = field(array.contained_type(), "", at)?.size;
                field(array.contained_type(), &format!("{name}[{i}]"), at + i * first)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let rust = format!("[{}; {}]", items.first().ok_or("an empty array")?.rust, items.len());
        let join = |of: fn(&Field) -> &str, by| items.iter().map(of).collect::<Vec<_>>().join(by);
        let read = format!("[{}]", join(|f| &f.read, ", "));
        let write = join(|f| &f.write, "\n        ");
        return Ok(Field { rust, size: items.iter().map(|f| f.size).sum(), read, write });
    }
    let inner = Struct::try_from(ty).map_err(|_| format!("{name} is neither an integer, an array nor a struct"))?;
    let rust = type_name(inner.name().and_then(|n| n.to_str()).ok_or("a struct without a name")?);
    let (size, end) = (inner.size(), at + inner.size());
    let read = format!("{rust}::read(&b[{at}..{end}])?");
    let write = format!("b[{at}..{end}].copy_from_slice(&{name}.to_bytes());");
    Ok(Field { rust, size, read, write })
}

fn structure(btf: &Btf<'_>, c: &str, of: Struct<'_>) -> Text {
    let (rust, size) = (type_name(c), of.size());
    let (mut fields, mut reads, mut writes, mut end) = (String::new(), String::new(), String::new(), 0);
    for member in of.iter() {
        let name = member.name.and_then(|n| n.to_str()).ok_or("a field without a name")?;
        let MemberAttr::Normal { offset } = member.attr else {
            return Err(format!("{c}.{name} is a bit field").into());
        };
        let at = offset as usize / 8;
        if at != end {
            return Err(format!("{c} has a hole before {name}: declare it").into());
        }
        let ty = btf.type_by_id::<BtfType<'_>>(member.ty).ok_or("a field without a type")?;
        let field = field(ty, &format!("self.{name}"), at)?;
        end = at + field.size;
        writeln!(fields, "    pub(crate) {name}: {},", field.rust)?;
        writeln!(reads, "            {name}: {},", field.read)?;
        writeln!(writes, "        {}", field.write)?;
    }
    if end != size {
        return Err(format!("{c} has a hole at its end: declare it").into());
    }
    Ok(format!(
        "/// `struct {c}`.\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n\
         pub(crate) struct {rust} {{\n{fields}}}\n\n\
         impl {rust} {{\n    /// Bytes.\n    pub(crate) const SIZE: usize = {size};\n\n    \
         /// Reads the struct at the beginning of a record; `None` if the record is shorter.\n    #[inline]\n    \
         pub(crate) fn read(bytes: &[u8]) -> Option<Self> {{\n        let b = bytes.first_chunk::<{size}>()?;\n        \
         Some(Self {{\n{reads}        }})\n    }}\n\n    \
         /// The bytes of the struct.\n    #[inline]\n    \
         pub(crate) fn to_bytes(self) -> [u8; {size}] {{\n        let mut b = [0; {size}];\n{writes}        \
         b\n    }}\n}}\n\n\
         impl super::WireStruct for {rust} {{\n    \
         fn to_vec(&self) -> Vec<u8> {{\n        self.to_bytes().to_vec()\n    }}\n}}\n\n"
    ))
}

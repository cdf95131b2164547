//! Makes Rust types of `bpf/wire.h`, so that no offset, size or number of the contract is written twice.
//!
//! The compiler describes types in BTF only where they are used. So a source file is written that uses every struct and
//! enum of the header, and its BTF is read. A field may be an integer, an array of integers, a struct of the header or
//! an array of such structs. Holes are refused: they would carry bytes that nobody wrote.

use libbpf_rs::btf::types::{Array, Enum, Int, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize as _};
use std::fmt::Write as _;
use std::path::Path;

type Text = Result<String, Box<dyn std::error::Error>>;

/// The kind (`struct` or `enum`) and name of each definition in the header.
fn definitions(header: &str) -> impl Iterator<Item = (&str, &str)> {
    header.lines().filter_map(|line| {
        let (kind, rest) = line.split_once(' ')?;
        let (name, _) = rest.split_once(" {")?;
        matches!(kind, "struct" | "enum").then_some((kind, name)).filter(|(_, name)| name.starts_with("ws_"))
    })
}

/// A C source that uses every definition of the header.
pub(crate) fn source(header: &str) -> String {
    let mut text = "#include \"vmlinux.h\"\n#include \"wire.h\"\n".to_string();
    for (kind, name) in definitions(header) {
        let _ = writeln!(text, "{kind} {name} use_of_{name};");
    }
    text
}

/// Rust types for every definition of the header.
pub(crate) fn types(header: &str, object: &Path) -> Text {
    let btf = Btf::from_path(object)?;
    let mut text = String::new();
    for (kind, name) in definitions(header) {
        let missing = || format!("{kind} {name} of wire.h is not in the BTF");
        text += &match kind {
            "struct" => structure(&btf, name, btf.type_by_name::<Struct<'_>>(name).ok_or_else(missing)?)?,
            _ => enumeration(name, btf.type_by_name::<Enum<'_>>(name).ok_or_else(missing)?)?,
        };
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
    let mut names = String::new();
    for member in members.iter() {
        let (Some(c), value) = (member.name.and_then(|n| n.to_str()), member.value) else { continue };
        writeln!(text, "/// Of `enum {name}`.\npub(crate) const {c}: u32 = {value};")?;
        write!(names, "({c:?}, {value}), ")?;
    }
    writeln!(text, "/// Names and numbers of `enum {name}`.")?;
    writeln!(text, "pub(crate) const {}: &[(&str, u32)] = &[{names}];\n", name.to_uppercase())?;
    Ok(text)
}

/// Type of a field, its size, and how it is read and written at an offset of `b`.
struct Field {
    rust: String,
    size: usize,
    read: String,
    write: String,
}

fn field(ty: BtfType<'_>, name: &str, at: usize) -> Result<Field, Box<dyn std::error::Error>> {
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
         b\n    }}\n}}\n\n"
    ))
}

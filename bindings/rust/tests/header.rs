//! `src/sys.rs` against the header, which a C compiler reads: sizes, offsets, constants, and every prototype.
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SYS: &str = include_str!("../src/sys.rs");

fn include_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

/// A type of sys.rs in C.
fn in_c(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(to) = rust.strip_prefix("*const ") {
        return if to.starts_with('*') {
            format!("{} const*", in_c(to))
        } else {
            format!("const {}*", in_c(to))
        };
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{}*", in_c(to));
    }
    let c = match rust {
        "c_char" => "char",
        "c_void" => "void",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "f64" => "double",
        "usize" => "size_t",
        other => other, // of the header
    };
    c.into()
}

/// The text of every item between `begin` and `end`.
fn items<'a>(begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    SYS.split(begin)
        .skip(1)
        .map(move |rest| rest.split(end).next().unwrap())
}

/// A C file that compiles where sys.rs says what the header says.
fn claims() -> String {
    let mut c = String::from("#include <gradstep/c/gradstep.h>\n");
    for line in items("pub const ", ";") {
        let (name, value) = line.split_once(": i32 = ").unwrap();
        writeln!(c, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    for item in items("#[repr(C)]\npub struct ", "\n}\n") {
        let (name, fields) = item.split_once(" {\n").unwrap();
        if fields.contains("_private") {
            continue; // opaque
        }
        // The same members in C, which lays them out as Rust does under repr(C).
        writeln!(c, "struct claim_{name} {{").unwrap();
        let mut members = Vec::new();
        for field in fields.lines() {
            let (member, of) = field
                .trim()
                .trim_end_matches(',')
                .strip_prefix("pub ")
                .unwrap()
                .split_once(": ")
                .unwrap();
            members.push(member);
            match of.strip_prefix('[').and_then(|array| array.strip_suffix(']')) {
                Some(array) => {
                    let (of, n) = array.split_once("; ").unwrap();
                    writeln!(c, "    {} {member}[{n}];", in_c(of)).unwrap();
                }
                None => writeln!(c, "    {} {member};", in_c(of)).unwrap(),
            }
        }
        writeln!(
            c,
            "}};\n_Static_assert(sizeof({name}) == sizeof(struct claim_{name}), \"{name}\");"
        )
        .unwrap();
        for member in members {
            for what in ["offsetof({}, M)", "sizeof((({}*)0)->M)"] {
                let (ours, theirs) = (
                    what.replace("{}", &format!("struct claim_{name}")),
                    what.replace("{}", name),
                );
                let (ours, theirs) = (ours.replace('M', member), theirs.replace('M', member));
                writeln!(c, "_Static_assert({ours} == {theirs}, \"{name}.{member}\");").unwrap();
            }
        }
    }
    for function in items("pub fn ", ";\n") {
        let (name, rest) = function.split_once('(').unwrap();
        let (arguments, result) = rest.rsplit_once(')').unwrap();
        let arguments: Vec<String> = arguments
            .split(',')
            .filter(|argument| !argument.trim().is_empty())
            .map(|argument| in_c(argument.split_once(": ").unwrap().1))
            .collect();
        let arguments = if arguments.is_empty() {
            "void".into()
        } else {
            arguments.join(", ")
        };
        let result = in_c(result.trim().strip_prefix("-> ").unwrap_or("c_void"));
        writeln!(c, "{result} {name}({arguments});").unwrap(); // another prototype than the header's does not compile
    }
    c
}

fn compiles(name: &str, text: &str) -> bool {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, text).unwrap();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Werror", "-fsyntax-only", "-I"])
        .arg(include_folder())
        .arg(&file)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

#[test]
fn sys_says_what_the_header_says() {
    let claims = claims();
    assert!(compiles("claims.c", &claims));
    // The compiler finds what differs.
    for (right, wrong) in [
        (
            "uint64_t count, const gradstep_step_options*",
            "int64_t count, const gradstep_step_options*",
        ),
        ("GRADSTEP_BFLOAT16 == 7", "GRADSTEP_BFLOAT16 == 6"),
        ("double rate_scale;", "float rate_scale;"),
    ] {
        let right = right.replace(" count", "");
        let wrong = wrong.replace(" count", "");
        assert!(claims.contains(&right), "{right}");
        assert!(
            !compiles("wrong_claims.c", &claims.replacen(&right, &wrong, 1)),
            "{wrong}"
        );
    }
}

#[test]
fn sys_has_every_name() {
    let header = fs::read_to_string(include_folder().join("gradstep/c/gradstep.h")).unwrap();
    let functions = header
        .split("\nGRADSTEP_API ")
        .skip(1)
        .map(|function| function.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap());
    same_names(items("pub fn ", "("), functions);
    let constants = header.split("GRADSTEP_").skip(1).filter_map(|rest| {
        let (name, value) = rest.split_once(" = ")?;
        let is_name = name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        (is_name && value.starts_with(|c: char| c == '-' || c.is_ascii_digit())).then_some(name)
    });
    same_names(
        items("pub const GRADSTEP_", ":").filter(|name| !name.starts_with("ABI_")),
        constants,
    );
}

fn same_names<'a>(ours: impl Iterator<Item = &'a str>, theirs: impl Iterator<Item = &'a str>) {
    let (mut ours, mut theirs): (Vec<_>, Vec<_>) = (ours.collect(), theirs.collect());
    ours.sort_unstable();
    theirs.sort_unstable();
    assert!(ours.len() > 20);
    assert_eq!(ours, theirs);
}

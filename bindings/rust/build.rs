//! Finds the library: in the folder GRADSTEP_LIB_DIR, or by pkg-config. With the feature `static` its archives. docs.rs, which
//! has no library, needs none: it links nothing.
use std::env;
use std::path::Path;
use std::process::{exit, Command};

/// The archives of gradstep::c_static, in the order in which they need each other, and what is made of C++ in them needs.
const ARCHIVES: [&str; 2] = ["gradstep_c", "gradstep_runtime"];
const OF_THE_SYSTEM: [&str; 4] = ["stdc++", "pthread", "dl", "m"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["GRADSTEP_LIB_DIR", "PKG_CONFIG_PATH", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    let is_static = env::var_os("CARGO_FEATURE_STATIC").is_some();
    match env::var_os("GRADSTEP_LIB_DIR") {
        Some(folder) if is_static => link_archives(&folder.to_string_lossy()),
        Some(folder) => {
            let is_there = |end: &str| Path::new(&folder).join(format!("libgradstep.{end}")).exists();
            if !["so", "dylib", "a"].into_iter().any(is_there) {
                refuse(&format!(
                    "GRADSTEP_LIB_DIR: {} has no libgradstep.so; expected the folder of the library",
                    folder.to_string_lossy()
                ));
            }
            println!("cargo:rustc-link-search=native={}", folder.to_string_lossy());
            println!("cargo:rustc-link-lib=gradstep");
        }
        // Names the folder: --libs leaves out the system's folders, and rustc looks for archives only in folders that are named.
        None if is_static => link_archives(pkg_config("--variable=libdir").trim()),
        None => link_by_flags(&pkg_config("--libs")),
    }
}

/// Ends the build with one sentence, without the backtrace of a panic.
fn refuse(why: &str) -> ! {
    println!("cargo:warning={why}");
    exit(1)
}

fn link_archives(folder: &str) {
    for archive in ARCHIVES {
        let file = Path::new(folder).join(format!("lib{archive}.a"));
        if !file.is_file() {
            refuse(&format!(
                "feature static: there is no {}; expected the archives of the target gradstep_c_static",
                file.display()
            ));
        }
        println!("cargo:rerun-if-changed={}", file.display());
        println!("cargo:rustc-link-lib=static={archive}");
    }
    println!("cargo:rustc-link-search=native={folder}");
    for library in OF_THE_SYSTEM {
        println!("cargo:rustc-link-lib={library}");
    }
}

fn link_by_flags(flags: &str) {
    for word in flags.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
    if !flags.contains("-lgradstep") {
        refuse(&format!(
            "pkg-config: gradstep-c has the flags {flags:?}; expected -lgradstep among them"
        ));
    }
}

/// What pkg-config says of gradstep-c.
fn pkg_config(question: &str) -> String {
    let answer = Command::new("pkg-config").args([question, "gradstep-c"]).output();
    match answer {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => refuse(
            "pkg-config: gradstep-c is not found; expected GRADSTEP_LIB_DIR as the folder of the library, or PKG_CONFIG_PATH as that of \
             gradstep-c.pc",
        ),
    }
}

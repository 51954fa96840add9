//! Finds the library: in the folder GRADSTEP_LIB_DIR, or by pkg-config.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["GRADSTEP_LIB_DIR", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if let Some(folder) = env::var_os("GRADSTEP_LIB_DIR") {
        println!("cargo:rustc-link-search=native={}", folder.to_string_lossy());
        println!("cargo:rustc-link-lib=gradstep");
        return;
    }
    let answer = Command::new("pkg-config").args(["--libs", "gradstep-c"]).output();
    match answer {
        Ok(output) if output.status.success() => {
            for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
                if let Some(folder) = word.strip_prefix("-L") {
                    println!("cargo:rustc-link-search=native={folder}");
                } else if let Some(library) = word.strip_prefix("-l") {
                    println!("cargo:rustc-link-lib={library}");
                }
            }
            if !String::from_utf8_lossy(&output.stdout).contains("-lgradstep") {
                panic!("pkg-config's gradstep-c does not name the library gradstep");
            }
        }
        _ => {
            panic!("set GRADSTEP_LIB_DIR to the folder of libgradstep.so, or PKG_CONFIG_PATH to that of gradstep-c.pc")
        }
    }
}

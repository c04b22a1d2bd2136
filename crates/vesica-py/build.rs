//! What a library that an interpreter loads needs of the linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // On macOS symbols that the interpreter will have must be allowed by name to be missing.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "macos") {
        println!("cargo::rustc-cdylib-link-arg=-undefined");
        println!("cargo::rustc-cdylib-link-arg=dynamic_lookup");
    }
}

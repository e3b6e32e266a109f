//! The guide for beginners shows the program that is here, so that it compiles and its tests run.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

#[test]
fn the_program_of_the_first_guide_is_the_one_in_the_folder_letters() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(folder.join("../docs/getting-started.md")).unwrap();
    let program = fs::read_to_string(folder.join("letters/main.rs")).unwrap();
    let blocks = guide.split("\n```rust").skip(1);
    let code = blocks.map(|block| block.split_once('\n').unwrap().1.split("```").next().unwrap());
    assert_eq!(code.collect::<Vec<_>>().join("\n"), program);
}
